"""Times of each process of a run by activity, from the run's own clock."""

from __future__ import annotations

import math
from typing import NamedTuple

from cloudgan.schema.item import Item
from cloudgan.schema.record import Checkpointed, Process, RunRecord

NO_END = "a process did not record its end"


class ProcessTimes(NamedTuple):
    """Seconds of one process; None is unknown.

    Attributes:
        start_up: From its start to the first step: imports, opening data, restoring state.
        repeated: Training and validation in epochs that were lost and repeated.
        program: From its start to its end; None if it was killed.
        install: Wheel installation by the pod before the start; 0 for later processes of a pod.
        smoke_step: Of the pod before the start; 0 for later processes of a pod.
    """

    start_up: float | None
    first: float
    steady: float
    validation: float
    checkpoints: float
    repeated: float
    program: float | None
    install: float = 0.0
    smoke_step: float = 0.0

    def activities(self) -> dict[Item, float | None]:
        """Returns the seconds by activity; `OTHER` is None if the total is unknown.

        Activities that exceed the total mean a wrong clock: the total is then one activity.
        """
        known: dict[Item, float | None] = {
            Item.START_UP: self.start_up,
            Item.FIRST: self.first,
            Item.STEADY: self.steady,
            Item.VALIDATION: self.validation,
            Item.CHECKPOINTS: self.checkpoints,
            Item.REPEATED: self.repeated,
        }
        before: dict[Item, float | None] = {Item.INSTALL: self.install} if self.install else {}
        before |= {Item.SMOKE_STEP: self.smoke_step} if self.smoke_step else {}
        spent = math.fsum(seconds or 0.0 for seconds in known.values())
        if self.program is not None and spent > self.program * 1.01 + 1:
            return before | {Item.INCONSISTENT: self.program}
        known[Item.OTHER] = None if self.program is None else max(0.0, self.program - spent)
        return before | known


def process_times(record: RunRecord) -> tuple[ProcessTimes, ...]:
    """Returns the times of each process, oldest first; repeated epochs count as `repeated`."""
    kept = {id(epoch) for epoch in record.epochs()}
    found, pods = [], set()
    for process in record.processes():
        wheels = process.started.wheels if process.started else None
        is_new = wheels is not None and wheels not in pods
        pods.add(wheels)
        install = wheels.seconds if wheels and is_new else 0.0
        found.append(_times(process, kept)._replace(install=install))
    return tuple(found)


def _times(process: Process, counted: set[int]) -> ProcessTimes:
    epochs = [each.epoch for each in process.epochs]
    kept = [epoch for epoch in epochs if id(epoch) in counted]
    lost = [epoch for epoch in epochs if id(epoch) not in counted]
    saves = math.fsum(line.seconds for line in process.lines if isinstance(line, Checkpointed))
    in_epochs = math.fsum(epoch.checkpoint_seconds for epoch in epochs)
    return ProcessTimes(
        start_up=process.started.startup_seconds if process.started else None,
        first=math.fsum(epoch.train_seconds for epoch in kept if epoch.first),
        steady=math.fsum(epoch.train_seconds for epoch in kept if not epoch.first),
        validation=math.fsum(epoch.validation_seconds for epoch in kept),
        checkpoints=max(saves, in_epochs),
        smoke_step=(process.started.smoke_seconds or 0.0) if process.started else 0.0,
        repeated=math.fsum(epoch.train_seconds + epoch.validation_seconds for epoch in lost),
        program=process.stopped.program_seconds if process.stopped else None,
    )
