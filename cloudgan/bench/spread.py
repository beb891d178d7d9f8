"""Medians with their spread, and ratios of measurements that were neighbours in time."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cloudgan.core.errors import CloudganError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TWO = 2


@dataclass(frozen=True)
class Spread:
    """Some measurements of one thing, in its unit.

    Attributes:
        lower_quartile: A quarter of the measurements is not above it.
        upper_quartile: A quarter is not below it.
        count: How many measurements.
    """

    median: float
    min: float
    max: float
    lower_quartile: float
    upper_quartile: float
    count: int

    def as_json(self) -> dict[str, float | int]:
        """By name."""
        return asdict(self)

    def told(self, digits: int = 3) -> str:
        """Such as ``2.51 (2.43 to 2.60)``."""
        low, high = f"{self.min:.{digits}g}", f"{self.max:.{digits}g}"
        return f"{self.median:.{digits}g} ({low} to {high})"


def spread(values: Sequence[float]) -> Spread:
    """Sums measurements up; quartiles interpolate between two of them.

    Raises:
        CloudganError: There is none.
    """
    if not values:
        raise CloudganError("nothing was measured: no round was finished")
    low, high = min(values), max(values)
    quartiles = (low, high)
    if len(values) >= _TWO:
        cut = statistics.quantiles(values, n=4, method="inclusive")
        quartiles = (cut[0], cut[2])
    return Spread(statistics.median(values), low, high, *quartiles, len(values))


def paired(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Sums up the ratios of the first of `above` to the first of `below`, and so on.

    Work of others on the machine slows both of a pair, so their ratio stays; the ratio of two
    medians does not have that property. What has no partner is left out.

    Raises:
        CloudganError: There is no pair.
    """
    return spread([one / other for one, other in zip(above, below, strict=False)])
