"""Times of each process of a run by activity, from the run's own clock."""

from __future__ import annotations

import math

from cloudgan.schema.item import Item
from cloudgan.schema.record import Checkpointed, RunRecord

NO_END = "a process did not record its end"
TRAINED = (Item.FIRST, Item.STEADY, Item.VALIDATION, Item.CHECKPOINTS)
"""Activities of the epochs that count."""

Activities = dict[Item, float | None]
"""Seconds of one process by activity; None is unknown, such as `OTHER` of a process that was killed."""


def process_times(record: RunRecord) -> tuple[Activities, ...]:
    """Returns the times of each process, oldest first.

    Epochs that were lost and trained again are `REPEATED`. Start-up lasts until the first step: imports,
    opening data, restoring state. A pod installs wheels and tests a step once, before its first process.
    Activities that exceed the program time mean a wrong clock: it is then one activity.
    """
    counted = {id(epoch) for epoch in record.epochs()}
    found, pods = [], set()
    for process in record.processes():
        started, stopped = process.started, process.stopped
        wheels = started.wheels if started else None
        before: Activities = {
            Item.INSTALL: wheels.seconds if wheels and wheels not in pods else 0.0,
            Item.SMOKE_STEP: (started.smoke_seconds or 0.0) if started else 0.0,
        }
        pods.add(wheels)
        epochs = [each.epoch for each in process.epochs]
        kept = [epoch for epoch in epochs if id(epoch) in counted]
        lost = [epoch for epoch in epochs if id(epoch) not in counted]
        saves = math.fsum(line.seconds for line in process.lines if isinstance(line, Checkpointed))
        in_epochs = math.fsum(epoch.checkpoint_seconds for epoch in epochs)
        times: Activities = {
            Item.START_UP: started.startup_seconds if started else None,
            Item.FIRST: math.fsum(epoch.train_seconds for epoch in kept if epoch.first),
            Item.STEADY: math.fsum(epoch.train_seconds for epoch in kept if not epoch.first),
            Item.VALIDATION: math.fsum(epoch.validation_seconds for epoch in kept),
            Item.CHECKPOINTS: max(saves, in_epochs),
            Item.REPEATED: math.fsum(one.train_seconds + one.validation_seconds for one in lost),
        }
        program = stopped.program_seconds if stopped else None
        spent = math.fsum(seconds or 0.0 for seconds in times.values())
        if program is not None and spent > program * 1.01 + 1:
            times = {Item.INCONSISTENT: program}
        else:
            times[Item.OTHER] = None if program is None else max(0.0, program - spent)
        done: Activities = {item: seconds for item, seconds in before.items() if seconds}
        found.append(done | times)
    return tuple(found)
