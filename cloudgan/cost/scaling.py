"""How the time of an epoch falls with the number of accelerators: T(n) = A/n + C + B log2 n.

A is work that is shared out, C what each epoch costs whatever the size (start of the input, last
partial batch), B what grows with the depth of a reduction tree. All are at least zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.cost.scaling_band import fit_band
from cloudgan.cost.scaling_solve import solve_robustly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.cost.scaling_band import Band
    from cloudgan.cost.timings import Timing

MODEL = "T(n) = A/n + C + B log2 n, none below zero"
NOT_FELT_YET = (
    "a limit that the measured sizes did not feel yet, such as the input rate (how fast data can be"
    " read), is not in the prediction"
)
LEAST_SIZES = 3
RegimeName = Literal["all sizes", "within one host", "across hosts"]


@dataclass(frozen=True)
class Size:
    """All runs with one number of accelerators."""

    n: int
    seconds: float
    slowest_seconds: float
    runs: int


@dataclass(frozen=True)
class Curve:
    """T(n) in seconds."""

    a_seconds: float
    c_seconds: float
    b_seconds: float

    def seconds(self, n: int) -> float:
        """Returns T(n)."""
        return self.a_seconds / n + self.rest_seconds(n)

    def rest_seconds(self, n: int) -> float:
        """Returns what does not shrink with n: C + B log2 n."""
        return self.c_seconds + self.b_seconds * math.log2(n)


@dataclass(frozen=True)
class Prediction:
    """What is expected at one size, and between what a single run should fall, 9 times of 10."""

    n: int
    seconds: float
    low_seconds: float
    high_seconds: float
    extrapolation: str


@dataclass(frozen=True)
class Regime:
    """Sizes that one curve fits."""

    name: RegimeName
    sizes: tuple[Size, ...]
    curve: Curve
    band: Band

    def predict(self, n: int) -> Prediction:
        """Predicts one size."""
        point = self.curve.seconds(n)
        low, high = self.band.at(n, point)
        return Prediction(n, point, low, high, self._extrapolation(n))

    def _extrapolation(self, n: int) -> str:
        smallest, largest = self.sizes[0].n, self.sizes[-1].n
        if n > largest:
            return f"extrapolated {n / largest:.3g}x"
        if n < smallest:
            return f"extrapolated {smallest / n:.3g}x downwards"
        measured = any(size.n == n for size in self.sizes)
        return "measured size" if measured else "between measured sizes"


@dataclass(frozen=True)
class Scaling:
    """The fit of all sizes, or one within a host and one across.

    Attributes:
        regimes: One or two.
        host_size: With two, how many accelerators one host holds.
    """

    regimes: tuple[Regime, ...]
    host_size: int | None = None

    def regime(self, n: int) -> Regime:
        """Returns the one that `n` belongs to."""
        fits_in_host = self.host_size is not None and n <= self.host_size
        return self.regimes[0 if fits_in_host else -1]

    def predict(self, n: int) -> Prediction:
        """Predicts one size.

        Raises:
            ConfigError: `n` is less than 1.
        """
        if n < 1:
            raise ConfigError(f"{n} accelerators cannot be predicted; ask for 1 or more")
        return self.regime(n).predict(n)


def fit_scaling(timings: Sequence[Timing]) -> Scaling:
    """Fits the model to runs of at least three sizes.

    Of runs of one size the fastest is fitted: the others are slow modes, whose ratio to the fastest
    widens the band upwards. Where `nodes` gives three sizes within a host and three across, each
    has a curve of its own; else one curve fits all.

    Raises:
        DataError: There are fewer than three different sizes, or nearly the same ones took
            times of other orders of magnitude.
    """
    within = [timing for timing in timings if timing.nodes == 1]
    across = [timing for timing in timings if timing.nodes is not None and timing.nodes > 1]
    told = len(within) + len(across) == len(timings)
    if told and min(len(_sizes(within)), len(_sizes(across))) >= LEAST_SIZES:
        host_size = max(math.ceil(one.n / one.nodes) for one in timings if one.nodes)
        regimes = (_regime("within one host", within), _regime("across hosts", across))
        return Scaling(regimes, host_size)
    return Scaling((_regime("all sizes", timings),))


def _regime(name: RegimeName, timings: Sequence[Timing]) -> Regime:
    sizes = _sizes(timings)
    if len(sizes) < LEAST_SIZES:
        found = ", ".join(str(size.n) for size in sizes) or "none"
        raise DataError(
            f"a curve needs runs with at least {LEAST_SIZES} different n; found {len(sizes)}"
            f" (n = {found}); repeats of one n count once"
        )
    # Units that make the fit the same whatever the clock and the counting.
    second, unit = min(size.seconds for size in sizes), sizes[0].n
    points = [(size.n / unit, size.seconds / second) for size in sizes]
    columns = [
        [1 / n / seconds for n, seconds in points],
        [1 / seconds for _, seconds in points],
        [math.log2(size.n) / point[1] for size, point in zip(sizes, points, strict=True)],
    ]
    a, c, b = solve_robustly(columns, [1.0] * len(points))
    return Regime(
        name,
        sizes,
        Curve(a * unit * second, c * second, b * second),
        fit_band(
            [(size.n, size.seconds) for size in sizes],
            max(size.slowest_seconds / size.seconds for size in sizes),
        ),
    )


def _sizes(timings: Sequence[Timing]) -> tuple[Size, ...]:
    runs: dict[int, list[float]] = {}
    for timing in timings:
        runs.setdefault(timing.n, []).append(timing.seconds)
    return tuple(
        Size(n, min(seconds), max(seconds), len(seconds)) for n, seconds in sorted(runs.items())
    )
