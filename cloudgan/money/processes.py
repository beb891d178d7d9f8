"""Times of each process of a run by activity, from the run's own clock, and what its record lacks or contradicts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from cloudgan.core.clock import parse_time_or_none
from cloudgan.schema.item import Item
from cloudgan.schema.record import (
    Checkpointed,
    CountedEpoch,
    Line,
    Process,
    Repeat,
    RunRecord,
    counted_epochs,
    distinct,
)

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


_ROUNDING_SECONDS = 1.0  # a process measures its end shortly before it writes the line


def record_warnings(record: RunRecord) -> tuple[str, ...]:
    """Returns one sentence per missing, repeated or contradictory line."""
    lines, repeats = distinct(record.lines)
    epochs, replaced = counted_epochs(lines)
    parts = record.processes()
    return (
        *_of_file(record, has_epochs=bool(epochs)),
        *_of_repeats(lines, repeats, replaced),
        *_of_checkpoints(lines),
        *_of_gaps(epochs),
        *_of_clock(lines),
        *_of_processes(parts),
        *_of_machines(parts),
    )


def _of_file(record: RunRecord, *, has_epochs: bool) -> Iterator[str]:
    if record.truncated:
        yield "the last line is cut short, as by a crash, and is left out"
    if not record.lines:
        yield "the record is empty: what its processes did is unknown"
    elif not has_epochs:
        yield "no epoch was finished, so no time and no cost per epoch is known"


def _of_repeats(
    lines: tuple[tuple[int, Line], ...], repeats: tuple[Repeat, ...], replaced: tuple[Repeat, ...]
) -> Iterator[str]:
    kinds = {number: _name(line) for number, line in lines}
    for repeat in repeats:
        what = kinds[repeat.repeats]
        yield f"line {repeat.line} repeats line {repeat.repeats} ({what}); it counts once"
    for repeat in replaced:
        yield (
            f"{kinds[repeat.line]} stands in lines {repeat.repeats} and {repeat.line} with no"
            " resume between; the later line counts"
        )


def _of_checkpoints(lines: tuple[tuple[int, Line], ...]) -> Iterator[str]:
    for number, line in lines:
        if line.kind == "damaged":
            yield (
                f"the checkpoint of step {line.step} was not used (line {number}): {line.reason}; the"
                f" one before was. It is kept as {line.path}"
            )


def _of_gaps(epochs: tuple[CountedEpoch, ...]) -> Iterator[str]:
    step, number = 0, -1
    for line, epoch in epochs:
        begun = epoch.step - epoch.steps
        if epoch.epoch > number + 1:
            missing = f"{number + 1} to {epoch.epoch - 1}"
            if number + 2 == epoch.epoch:
                missing = f"{number + 1}"
            plural = "s" if number + 2 < epoch.epoch else ""
            yield f"epoch{plural} {missing}, before line {line}, not recorded: sums lack that time"
        elif epoch.epoch < number:
            yield f"epoch {epoch.epoch} (line {line}) stands after epoch {number}; none was resumed"
        elif begun > step:
            yield (
                f"steps {step} to {begun}, before line {line}, are in no epoch's line: sums lack"
                " that time"
            )
        elif begun < step:
            yield f"steps {max(0, begun)} to {step} are in two epochs' lines, the later line {line}"
        step, number = epoch.step, epoch.epoch


def _of_clock(lines: tuple[tuple[int, Line], ...]) -> Iterator[str]:
    times = []
    for number, line in lines:
        time = parse_time_or_none(line.time)
        if time is None:
            yield f"line {number} has the time {line.time!r}, which is none in ISO 8601"
        else:
            times.append((number, time))
    for (before, earlier), (after, later) in itertools.pairwise(times):
        if later < earlier:
            yield (
                f"the clock went back by {(earlier - later).total_seconds():.0f} s between lines"
                f" {before} and {after}; no duration is taken from these times"
            )


def _of_processes(parts: tuple[Process, ...]) -> Iterator[str]:
    for part in parts:
        if part.started is None:
            yield f"a process wrote line {part.line}, but the line of its start is missing"
        if part.stopped is None:
            begun = f" started at {part.started.time}" if part.started else ""
            state = "runs still or was killed" if part is parts[-1] else "was killed"
            yield (
                f"the process of line {part.line}{begun} did not record its end: it {state}, and"
                " the program time of the run is unknown"
            )
            continue
        spent = sum(
            each.epoch.train_seconds + each.epoch.validation_seconds + each.epoch.checkpoint_seconds
            for each in part.epochs
        )
        if spent > part.stopped.program_seconds + _ROUNDING_SECONDS:
            yield (
                f"the epochs of the process of line {part.line} took {spent:.0f} s, but the process"
                f" {part.stopped.program_seconds:.0f} s: one of them is wrong"
            )


def _of_machines(parts: tuple[Process, ...]) -> Iterator[str]:
    machines = {part.started.hardware.describe(): None for part in parts if part.started}
    if len(machines) > 1:
        yield f"its processes ran on different machines ({'; '.join(machines)}), as if on one"


def _name(line: Line) -> str:
    return f"epoch {line.epoch}" if line.kind == "epoch" else line.kind
