"""Seconds of a grid by cell and routine, from the records: the source's table IV (arXiv:2004.04633)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloudgan.schema.cell_line import ROUTINES, WAIT, CellLine

_IDLE_SHARE = 0.1
"""A cell that waits for the others for more than this share of its time is idle."""


@dataclass(frozen=True)
class RoutineTimes:
    """Seconds of each cell.

    Attributes:
        totals: Seconds by cell name and routine, over all iterations.
        per_iteration: Median seconds of an iteration by routine, over cells and iterations; without the
            first iteration of a cell, which traces, if there are more.
        waits: Seconds by cell name in which a cell of the engine `ranks` waited for the others.
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
    """Sums up the records of the cells; those without a line are left out.

    Args:
        records: By name of the cell; at least one has a line.
    """
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
