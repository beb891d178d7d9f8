"""The least time that a program can take on a device whose two limits were measured.

Roofline model: Williams, Waterman, Patterson, doi 10.1145/1498765.1498785.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Bound = Literal["arithmetic", "memory"]


class Ceilings(NamedTuple):
    """What the device did at best here: a large matrix product, and a large copy."""

    tflops: Mapping[str, float]  # by precision
    memory_gb_per_second: float  # read and written


class Limit(NamedTuple):
    """The least time, and what sets it."""

    seconds: float
    bound: Bound


def limit_of(
    ceilings: Ceilings, precision: str, flops: float | None, moved_bytes: float | None
) -> Limit | None:
    """Returns the limit of a program; None where its arithmetic or its traffic is unknown.

    Args:
        ceilings: Of the device.
        precision: One of those in `ceilings.tflops`.
        flops: Multiplications and additions of the program.
        moved_bytes: What it reads and writes.
    """
    if not flops or not moved_bytes:
        return None
    arithmetic = flops / (1e12 * ceilings.tflops[precision])
    memory = moved_bytes / (1e9 * ceilings.memory_gb_per_second)
    if arithmetic >= memory:
        return Limit(arithmetic, "arithmetic")
    return Limit(memory, "memory")
