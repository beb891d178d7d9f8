"""What the records of the cells say: seconds by routine, the ancestry of a generator, whether any converges."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cloudgan.core.durations import format_duration
from cloudgan.core.errors import CloudganError
from cloudgan.schema.coevolution import ROUTINES, WAIT, AdversarialLoss, CellLine

_SERIES = (1, 2, 5)
_NAME = re.compile(r"([^/]*)/(\d+)/g?(\d+)")
_IDLE_SHARE = 0.1
"""A cell that waits for the others for more than this share of its time is idle."""


@dataclass(frozen=True)
class RoutineTimes:
    """Seconds of each cell: the source's table IV (arXiv:2004.04633).

    `totals` has seconds by cell name and routine, over all iterations; `per_iteration` the median seconds
    of an iteration by routine, over cells and iterations, without the first iteration of a cell, which
    traces, if there are more; `waits` seconds by cell name in which a cell of the engine `ranks` waited for
    the others.
    """

    totals: Mapping[str, Mapping[str, float]]
    per_iteration: Mapping[str, float]
    waits: Mapping[str, float]

    def mean(self, routine: str) -> float:
        """Returns the total seconds of a routine, as mean over the cells."""
        return statistics.fmean(cell[routine] for cell in self.totals.values())

    @property
    def overall(self) -> float:
        """Total seconds of all routines and of waiting, as mean over the cells."""
        return sum(map(self.mean, ROUTINES)) + self.mean_wait

    @property
    def mean_wait(self) -> float:
        """Total seconds of waiting, as mean over the cells."""
        return statistics.fmean(self.waits.values())

    @property
    def evolution_share(self) -> float:
        """Share of everything but training in an iteration."""
        overall = sum(self.per_iteration.values())
        return 1 - self.per_iteration["train"] / overall if overall else 0.0

    def waiting(self) -> dict[str, float]:
        """Returns the share of waiting in the time of each idle cell, the largest first."""
        whole = {name: sum(cell.values()) + self.waits[name] for name, cell in self.totals.items()}
        shares = {name: self.waits[name] / seconds for name, seconds in whole.items() if seconds}
        idle = [name for name in shares if shares[name] > _IDLE_SHARE]
        return {name: shares[name] for name in sorted(idle, key=lambda name: -shares[name])}

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return {
            "cells": {name: dict(cell) for name, cell in self.totals.items()},
            "mean": {name: self.mean(name) for name in ROUTINES}
            | {WAIT: self.mean_wait, "overall": self.overall},
            "per_iteration": dict(self.per_iteration),
            "evolution_share": self.evolution_share,
            "waiting": self.waiting(),
        }


def routine_times(records: Mapping[str, Sequence[CellLine]]) -> RoutineTimes:
    """Sums up the records of the cells; those without a line are left out."""
    known = {cell: record for cell, record in records.items() if record}
    totals = {
        cell: {name: sum(line.seconds.get(name, 0.0) for line in record) for name in ROUTINES}
        for cell, record in known.items()
    }
    steady = [line for record in known.values() for line in record[1:] or record]
    median = {
        name: statistics.median(line.seconds.get(name, 0.0) for line in steady) for name in ROUTINES
    }
    waits = {
        cell: sum(line.seconds.get(WAIT, 0.0) for line in record) for cell, record in known.items()
    }
    return RoutineTimes(totals, median, waits)


class Ancestor(NamedTuple):
    """A generator that was trained in an iteration of a cell.

    Its name and that of its parent are ``CELL/ITERATION/NUMBER``; iterations count from 1.
    """

    name: str
    cell: str
    iteration: int
    loss: AdversarialLoss
    rate: float
    parent: str


def ancestry(name: str, records: Mapping[str, Sequence[CellLine]]) -> tuple[Ancestor, ...]:
    """Returns a generator and those it descends from, the newest first.

    It ends at a generator with initial weights, or where a record lacks the iteration.
    """
    lines = {cell: {line.iteration: line for line in record} for cell, record in records.items()}
    found: list[Ancestor] = []
    while name_of := _NAME.fullmatch(name):
        cell, iteration, place = name_of[1], int(name_of[2]), int(name_of[3])
        line = lines.get(cell, {}).get(iteration)
        if line is None or place >= len(line.losses):
            break
        own = line.losses[place], line.rates[place], line.selected[place]
        found.append(Ancestor(name, cell, iteration, *own))
        name = line.selected[place]
    return tuple(found)


def check_any_converges(diverged: Sequence[bool], iteration: int) -> None:
    """Checks that at least one cell trained without NaN."""
    if all(diverged):
        raise CloudganError(
            f"the losses of all cells became NaN or infinite in iteration {iteration}; the saved states"
            " are older. Start a new run with a smaller --learning-rate"
        )


def iteration_row(iteration: int, best: float | None, seconds: float | None = None) -> str:
    """Returns such as ``iteration  3  best score 0.1234   1.5 s``."""
    score = "" if best is None else f"  best score {best:<7.4g}"
    time = "" if seconds is None else f"  {format_duration(round(seconds, 1))}"
    return f"iteration {iteration:>2}{score}{time}"


def is_pictured(iteration: int, last: int) -> bool:
    """Returns whether pictures of an iteration are kept: 1, 2, 5, 10, 20, 50, ... and the last one.

    Their number grows with the logarithm of the iterations.
    """
    if iteration == last:
        return True
    while iteration and iteration % 10 == 0:
        iteration //= 10
    return iteration in _SERIES
