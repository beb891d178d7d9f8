"""Interleaved timing: variants take turns in every round, so that a slow moment slows them all."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Name = TypeVar("Name")


class Spread(NamedTuple):
    """Seconds a run, over the rounds."""

    median: float
    least: float
    most: float


def spread_of(seconds: list[float]) -> Spread:
    """Returns median, least and most of at least one round."""
    return Spread(statistics.median(seconds), min(seconds), max(seconds))


def interleaved(
    runs: Mapping[Name, Callable[[int], float]],
    *,
    rounds: int,
    seconds_a_turn: float,
    is_late: Callable[[], bool],
) -> dict[Name, Spread]:
    """Times variants in turn, each round beginning with another one.

    Args:
        runs: By name what runs so many times, waits for the last, and returns the seconds of all.
        rounds: How often each is timed.
        seconds_a_turn: How long a turn should be; a variant runs at least once.
        is_late: Asked before each round after the first: then what was timed so far counts.

    Returns:
        Seconds of one run of each.
    """
    counts = {name: max(1, math.ceil(seconds_a_turn / run(1))) for name, run in runs.items()}
    names = list(runs)
    found: dict[Name, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        if number and is_late():
            break
        first = number % len(names) if names else 0
        for name in (*names[first:], *names[:first]):
            found[name].append(runs[name](counts[name]) / counts[name])
    return {name: spread_of(seconds) for name, seconds in found.items()}
