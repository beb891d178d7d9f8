"""What a trial is ranked by, from the records of its runs: a validation number, and its time or price."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from cloudgan.schema.record import Epoch, Process, RunRecord, Started, Validated, read_if_whole
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import GENERATOR_LOSS, SearchConfig
from cloudgan.search.folder import SearchFolder

_LAST = 3


def objective_values(run: RunRecord, name: str) -> list[tuple[int, float]]:
    """Returns epoch and value of each measurement of an objective; NaN: it is missing.

    ``generator_loss`` is the total loss of the generator on held-out showers.
    """
    if name == GENERATOR_LOSS:
        losses = [(one.epoch, one.held_out_losses) for one in run.epochs()]
        return [(epoch, held["generator"]["total"]) for epoch, held in losses if held]
    return [(each.epoch, each.metrics.get(name, math.nan)) for each in run.validations()]


def objective_median(run: RunRecord, name: str) -> float | None:
    """Returns the median of the last three values; None: there are none, or one is not finite."""
    values = [value for _, value in objective_values(run, name)[-_LAST:]]
    if not values or not all(map(math.isfinite, values)):
        return None
    return statistics.median(values)


def spent_seconds(run: RunRecord) -> float | None:
    """Returns the program time of all processes; None: no line has a time.

    A process that was killed recorded no end: its time until its last line is counted.
    """
    found = [_seconds_of(process) for process in run.processes()]
    return sum(found) if any(found) else None


def seconds_of_runs(runs: Iterable[RunRecord]) -> float | None:
    """Returns the program time of all runs of a trial; None: no run has a time."""
    found = [seconds for seconds in map(spent_seconds, runs) if seconds is not None]
    return sum(found) if found else None


def machine_seconds(
    folder: SearchFolder, config: SearchConfig, trials: int
) -> dict[int | str, float]:
    """Returns the time of this machine that each trial took: of one in a block its share; those without a time are left out."""
    found: dict[int | str, float] = {}
    for number in range(trials):
        runs = [RunFolder(folder.run(run)) for run in config.runs_of(number)]
        if seconds := seconds_of_runs(read_if_whole(run.record_file) for run in runs):
            found[number] = seconds / config.blocks
    return found


def _seconds_of(process: Process) -> float:
    if process.stopped:
        return process.stopped.program_seconds
    validated = [each.program_seconds for each in process.lines if isinstance(each, Validated)]
    startup = [each.startup_seconds for each in process.lines if isinstance(each, Started)]
    epochs = [
        each.train_seconds + each.validation_seconds + each.checkpoint_seconds
        for each in process.lines
        if isinstance(each, Epoch)
    ]
    return max([sum(startup) + sum(epochs), *validated])


def second_objective(config: SearchConfig, run: RunRecord) -> float | None:
    """Returns seconds or USD of a run, on its share of the machine; None: no time was recorded."""
    seconds = spent_seconds(run)
    if seconds is None or config.second == "seconds":
        return seconds
    return config.usd(seconds / config.blocks)
