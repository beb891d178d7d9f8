"""Interleaved timing: variants take turns in every round, so that a slow moment slows them all; and limits of a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeVar

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


class Ceilings(NamedTuple):
    """Measured limits of a device: speed of a large matrix product, bandwidth of a large copy."""

    tflops: Mapping[str, float]  # by precision
    memory_gb_per_second: float  # read and written


class Limit(NamedTuple):
    """Minimum time of a program, and its bound."""

    seconds: float
    bound: Literal["arithmetic", "memory"]


def limit_of(
    ceilings: Ceilings, precision: str, flops: float | None, moved_bytes: float | None
) -> Limit | None:
    """Returns the minimum time of a program; None if its arithmetic or traffic is unknown.

    Roofline model: Williams, Waterman and Patterson, doi:10.1145/1498765.1498785.

    Args:
        ceilings: Limits of the device.
        precision: One of those in `ceilings.tflops`.
        flops: Multiplications and additions of the program.
        moved_bytes: Read and written.
    """
    if not flops or not moved_bytes:
        return None
    arithmetic = flops / (1e12 * ceilings.tflops[precision])
    memory = moved_bytes / (1e9 * ceilings.memory_gb_per_second)
    return Limit(max(arithmetic, memory), "arithmetic" if arithmetic >= memory else "memory")
