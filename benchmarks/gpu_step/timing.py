"""Interleaved timing: variants take turns in every round, so that a slow moment slows them all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Name = TypeVar("Name")


def interleaved(
    runs: Mapping[Name, Callable[[int], float]],
    *,
    rounds: int,
    seconds_a_turn: float,
    is_late: Callable[[], bool],
) -> dict[Name, list[float]]:
    """Times variants in turn, each round beginning with another one.

    Args:
        runs: By name what runs so many times, waits for the last, and returns the seconds of all.
        rounds: How often each is timed.
        seconds_a_turn: How long a turn should be; a variant runs at least once.
        is_late: Asked before each round after the first: then what was timed so far counts.

    Returns:
        Seconds of one run of each in each round.
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
    return found
