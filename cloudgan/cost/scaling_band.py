"""Where a further run would fall: the 90 % band of a prediction beyond what was measured.

Two laws are fitted freely, A/n + C and A/n + B log2 n, each by relative least squares; the band is
the union of their prediction intervals. Signs stay free here: the interval of a fit that is held
at zero is far too narrow (by simulation it holds 39 to 91 % of new runs instead of 90 %).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.cost.scaling_solve import Solved, residuals, solve, t_quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INSIDE = 0.9
LEAST_SPREAD = 0.005  # a lucky fit of few points does not make runs repeat better than this
_PARAMETERS = 2


class Interval(NamedTuple):
    """From low to high, in seconds."""

    low: float
    high: float


class _Law(NamedTuple):
    """A/n + C or A/n + B log2 n, as fitted."""

    second: Callable[[float], float]
    solved: Solved
    spread: float  # relative, of one run about the law

    def interval(self, n: int, t: float) -> Interval:
        row = (1 / n, self.second(n))
        middle = math.fsum(x * c for x, c in zip(row, self.solved.coefficients, strict=True))
        # A new run has this law's relative spread itself, and the law is not exactly known.
        wide = t * self.spread * math.sqrt(middle**2 + self.solved.leverage(row))
        return Interval(middle - wide, middle + wide)


class Band(NamedTuple):
    """The 90 % band of one regime.

    Attributes:
        laws: Both fits.
        degrees: Of freedom.
        t: Quantile of Student's distribution.
        slow_ratio: Largest slowest/fastest of runs of one size: how slow a slow mode is.
    """

    laws: tuple[_Law, ...]
    degrees: int
    t: float
    slow_ratio: float

    def at(self, n: int, point: float) -> Interval:
        """Returns the band at `n`; it holds the predicted `point`, whatever the laws say."""
        intervals = [law.interval(n, self.t) for law in self.laws]
        low = max(0.0, min(interval.low for interval in intervals))
        high = max(interval.high for interval in intervals)
        return Interval(min(low, point), max(high, point) * self.slow_ratio)

    @property
    def spread(self) -> float:
        """Relative spread of one run about the law that fits better."""
        return min(law.spread for law in self.laws)


def fit_band(sizes: Sequence[tuple[int, float]], slow_ratio: float) -> Band:
    """Fits both laws to the fastest seconds of at least three sizes.

    Raises:
        DataError: Sizes nearly the same took times of other orders of magnitude.
    """
    laws = []
    for second in (_one, math.log2):
        columns = [[1 / n / seconds for n, seconds in sizes]]
        columns.append([second(n) / seconds for n, seconds in sizes])
        target = [1.0] * len(sizes)
        solved = solve(columns, target)
        if solved is None:
            raise DataError("sizes so close together, with times so far apart, follow no curve")
        squares = math.fsum(r * r for r in residuals(columns, target, solved.coefficients))
        spread = math.sqrt(squares / (len(sizes) - _PARAMETERS))
        laws.append(_Law(second, solved, max(LEAST_SPREAD, spread)))
    degrees = len(sizes) - _PARAMETERS
    return Band(tuple(laws), degrees, t_quantile(degrees, INSIDE), slow_ratio)


def _one(_: float) -> float:
    return 1.0
