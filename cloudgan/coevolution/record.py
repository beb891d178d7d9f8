"""What the records of the cells say: seconds by routine, the ancestry of a generator, whether any converges."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cloudgan.core.durations import format_duration
from cloudgan.core.errors import CloudganError
from cloudgan.schema.coevolution import ROUTINES, WAIT, AdversarialLoss, CellLine

_SERIES = (1, 2, 5)
_NAME = re.compile(r"([^/]*)/(\d+)/g?(\d+)")
_IDLE_SHARE = 0.1
"""A cell that waits for the others for more than this share of its time is idle."""


def routine_times(records: Mapping[str, Sequence[CellLine]]) -> dict[str, Any] | None:
    """Sums up the records of the cells; None: none has a line; those without a line are left out.

    Returns:
        Seconds as in the source's table IV (arXiv:2004.04633). `cells`: by cell name and routine, over all
        iterations; `mean`: over the cells, also of `wait`, in which a cell of the engine `ranks` waited for the
        others, and of `overall`; `per_iteration`: the median of an iteration by routine, over cells and
        iterations, without the first iteration of a cell, which traces, if there are more; `evolution_share`: of
        everything but training in an iteration; `waiting`: the share of waiting in the time of each idle cell,
        the largest first.
    """
    known = {cell: record for cell, record in records.items() if record}
    if not known:
        return None
    steady = [line for record in known.values() for line in record[1:] or record]
    median = {
        name: statistics.median(line.seconds.get(name, 0.0) for line in steady) for name in ROUTINES
    }
    totals = {
        cell: {name: seconds_of(record, name) for name in ROUTINES}
        for cell, record in known.items()
    }
    waits = {cell: seconds_of(record, WAIT) for cell, record in known.items()}
    mean = {name: statistics.fmean(cell[name] for cell in totals.values()) for name in ROUTINES}
    mean_wait, iteration = statistics.fmean(waits.values()), sum(median.values())
    whole = {name: sum(cell.values()) + waits[name] for name, cell in totals.items()}
    shares = {name: waits[name] / seconds for name, seconds in whole.items() if seconds}
    idle = sorted(shares, key=lambda name: -shares[name])
    return {
        "cells": totals,
        "mean": mean | {WAIT: mean_wait, "overall": sum(mean.values()) + mean_wait},
        "per_iteration": median,
        "evolution_share": 1 - median["train"] / iteration if iteration else 0.0,
        "waiting": {name: shares[name] for name in idle if shares[name] > _IDLE_SHARE},
    }


def seconds_of(record: Sequence[CellLine], routine: str) -> float:
    """Returns the seconds of a routine in all iterations of a cell."""
    return sum(line.seconds.get(routine, 0.0) for line in record)


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
