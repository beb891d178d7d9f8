"""Scaling model of an epoch: T(n) = A/n + C + B log2 n on n accelerators, with a 90 % band.

A is parallel work, C fixed work per epoch (input start-up, last partial batch), B grows with the
depth of a reduction tree; all are non-negative. The fit is written out in Python, so that a laptop
without NumPy and SciPy predicts too; importing SciPy takes longer than all predictions of a command.

For the band, two laws are fitted without constraints, A/n + C and A/n + B log2 n, each by relative
least squares; the band is the union of their prediction intervals. Constrained fits have intervals
that are far too narrow (in simulation they contain 39 to 91 % of new runs instead of 90 %).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from cloudgan.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloudgan.cost.estimation.timings import Timing

    Vector = Sequence[float]

MODEL = "T(n) = A/n + C + B log2 n, none below zero"
UNSEEN_LIMITS = (
    "limits that do not bind at the measured sizes, such as the input rate (how fast data can be"
    " read), are not in the prediction"
)
MIN_SIZES = 3
RegimeName = Literal["all sizes", "within one host", "across hosts"]


@dataclass(frozen=True)
class SizeTimings:
    """All runs on one number of accelerators."""

    n: int
    seconds: float
    slowest_seconds: float
    runs: int


@dataclass(frozen=True)
class ScalingCurve:
    """T(n) in seconds."""

    a_seconds: float
    c_seconds: float
    b_seconds: float

    def seconds(self, n: int) -> float:
        """Returns T(n)."""
        return self.a_seconds / n + self.rest_seconds(n)

    def rest_seconds(self, n: int) -> float:
        """Returns the part that does not shrink with n: C + B log2 n."""
        return self.c_seconds + self.b_seconds * math.log2(n)


@dataclass(frozen=True)
class Prediction:
    """Expected time at one size, and the 90 % band of a single run."""

    n: int
    seconds: float
    low_seconds: float
    high_seconds: float
    extrapolation: str


@dataclass(frozen=True)
class Regime:
    """Sizes that share one curve."""

    name: RegimeName
    sizes: tuple[SizeTimings, ...]
    curve: ScalingCurve
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
class ScalingModel:
    """One fit for all sizes, or one within a host and one across hosts.

    Attributes:
        regimes: One or two.
        host_size: With two regimes, accelerators per host.
    """

    regimes: tuple[Regime, ...]
    host_size: int | None = None

    def regime(self, n: int) -> Regime:
        """Returns the regime of `n`."""
        fits_in_host = self.host_size is not None and n <= self.host_size
        return self.regimes[0 if fits_in_host else -1]

    def predict(self, n: int) -> Prediction:
        """Predicts one size.

        Raises:
            ConfigError: `n` is less than 1.
        """
        if n < 1:
            raise ConfigError(f"cannot predict {n} accelerators; expected 1 or more")
        return self.regime(n).predict(n)


def fit_scaling(timings: Sequence[Timing]) -> ScalingModel:
    """Fits the model to runs of at least three sizes.

    The fastest run of each size is fitted; the ratio of slower runs widens the band upwards. With
    three sizes within a host and three across hosts (`nodes`), each group has its own curve.

    Raises:
        DataError: There are fewer than three sizes, or similar sizes took times of different orders
            of magnitude.
    """
    within = [timing for timing in timings if timing.nodes == 1]
    across = [timing for timing in timings if timing.nodes is not None and timing.nodes > 1]
    have_nodes = len(within) + len(across) == len(timings)
    if have_nodes and min(len(_sizes(within)), len(_sizes(across))) >= MIN_SIZES:
        host_size = max(math.ceil(one.n / one.nodes) for one in timings if one.nodes)
        regimes = (_regime("within one host", within), _regime("across hosts", across))
        return ScalingModel(regimes, host_size)
    return ScalingModel((_regime("all sizes", timings),))


def _regime(name: RegimeName, timings: Sequence[Timing]) -> Regime:
    sizes = _sizes(timings)
    if len(sizes) < MIN_SIZES:
        found = ", ".join(str(size.n) for size in sizes) or "none"
        raise DataError(
            f"a curve needs runs with at least {MIN_SIZES} different n; found {len(sizes)}"
            f" (n = {found}); repeats of one n count once"
        )
    # Units that make the fit independent of the units of time and size.
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
        ScalingCurve(a * unit * second, c * second, b * second),
        fit_band(
            [(size.n, size.seconds) for size in sizes],
            max(size.slowest_seconds / size.seconds for size in sizes),
        ),
    )


def _sizes(timings: Sequence[Timing]) -> tuple[SizeTimings, ...]:
    runs: dict[int, list[float]] = {}
    for timing in timings:
        runs.setdefault(timing.n, []).append(timing.seconds)
    return tuple(
        SizeTimings(n, min(seconds), max(seconds), len(seconds))
        for n, seconds in sorted(runs.items())
    )


COVERAGE = 0.9
MIN_SPREAD = 0.005  # run-to-run spread, however well few points fit
_PARAMETERS = 2


class Interval(NamedTuple):
    """From low to high, in seconds."""

    low: float
    high: float


class _Law(NamedTuple):
    """A fitted law: A/n + C or A/n + B log2 n."""

    second: Callable[[float], float]
    solved: LeastSquares
    spread: float  # relative, of one run about the law

    def interval(self, n: int, t: float) -> Interval:
        row = (1 / n, self.second(n))
        middle = math.fsum(x * c for x, c in zip(row, self.solved.coefficients, strict=True))
        # A new run has the law's relative spread, plus the uncertainty of the law.
        wide = t * self.spread * math.sqrt(middle**2 + self.solved.leverage(row))
        return Interval(middle - wide, middle + wide)


class Band(NamedTuple):
    """The 90 % band of one regime.

    Attributes:
        laws: Both fits.
        degrees: Degrees of freedom.
        t: Quantile of Student's distribution.
        slow_ratio: Largest ratio of slowest to fastest run of one size.
    """

    laws: tuple[_Law, ...]
    degrees: int
    t: float
    slow_ratio: float

    def at(self, n: int, point: float) -> Interval:
        """Returns the band at `n`, extended to contain the predicted `point`."""
        intervals = [law.interval(n, self.t) for law in self.laws]
        low = max(0.0, min(interval.low for interval in intervals))
        high = max(interval.high for interval in intervals)
        return Interval(min(low, point), max(high, point) * self.slow_ratio)

    @property
    def spread(self) -> float:
        """Relative spread of one run about the better law."""
        return min(law.spread for law in self.laws)


def fit_band(sizes: Sequence[tuple[int, float]], slow_ratio: float) -> Band:
    """Fits both laws to the fastest seconds of at least three sizes.

    Raises:
        DataError: Similar sizes took times of different orders of magnitude.
    """
    laws = []
    for second in (_one, math.log2):
        columns = [[1 / n / seconds for n, seconds in sizes]]
        columns.append([second(n) / seconds for n, seconds in sizes])
        target = [1.0] * len(sizes)
        solved = solve(columns, target)
        if solved is None:
            raise DataError("no curve fits: the sizes are too similar for times so different")
        squares = math.fsum(r * r for r in residuals(columns, target, solved.coefficients))
        spread = math.sqrt(squares / (len(sizes) - _PARAMETERS))
        laws.append(_Law(second, solved, max(MIN_SPREAD, spread)))
    degrees = len(sizes) - _PARAMETERS
    return Band(tuple(laws), degrees, t_quantile(degrees, COVERAGE), slow_ratio)


def _one(_: float) -> float:
    return 1.0


_DEPENDENT = 1e-12  # relative length of a column after projection
_SOFT = 0.01  # larger residuals count linearly
_ROUNDS = 2000
_SETTLED = 1e-10


class LeastSquares(NamedTuple):
    """Coefficients, and the inverse of the triangle R of the columns' QR decomposition."""

    coefficients: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]

    def leverage(self, row: Vector) -> float:
        """Returns x (X'X)^-1 x' of a row x."""
        parts = (
            math.fsum(x * r for x, r in zip(row, column, strict=True)) for column in self.inverse
        )
        return math.fsum(part * part for part in parts)


def solve(columns: Sequence[Vector], target: Vector) -> LeastSquares | None:
    """Returns least squares by modified Gram-Schmidt; None for linearly dependent columns."""
    found: list[list[float]] = []  # orthonormal columns
    mixed: list[list[float]] = []  # their coefficients in the given columns: columns of R^-1
    for number, column in enumerate(columns):
        rest, mix = list(column), [0.0] * len(columns)
        mix[number] = 1.0
        length = math.hypot(*rest)
        for unit, its_mix in zip(found, mixed, strict=True):
            share = _dot(unit, rest)
            rest = [a - share * b for a, b in zip(rest, unit, strict=True)]
            mix = [a - share * b for a, b in zip(mix, its_mix, strict=True)]
        left = math.hypot(*rest)
        if left <= _DEPENDENT * length:
            return None
        found.append([a / left for a in rest])
        mixed.append([a / left for a in mix])
    remainder, coefficients = list(target), [0.0] * len(columns)
    for unit, its_mix in zip(found, mixed, strict=True):
        share = _dot(unit, remainder)
        remainder = [a - share * b for a, b in zip(remainder, unit, strict=True)]
        coefficients = [a + share * b for a, b in zip(coefficients, its_mix, strict=True)]
    return LeastSquares(tuple(coefficients), tuple(map(tuple, mixed)))


def solve_non_negative(columns: Sequence[Vector], target: Vector) -> tuple[float, ...]:
    """Returns non-negative least squares: the best unconstrained fit over all subsets of columns."""
    best, least = (0.0,) * len(columns), math.inf
    for size in range(1, len(columns) + 1):
        for chosen in itertools.combinations(range(len(columns)), size):
            solved = solve([columns[one] for one in chosen], target)
            if solved is None or min(solved.coefficients) < 0:
                continue
            full = [0.0] * len(columns)
            for one, value in zip(chosen, solved.coefficients, strict=True):
                full[one] = value
            squares = math.fsum(r * r for r in residuals(columns, target, full))
            if squares < least:
                best, least = tuple(full), squares
    return best


def solve_robustly(columns: Sequence[Vector], target: Vector) -> tuple[float, ...]:
    """Minimizes the soft-L1 loss sum of 2 (sqrt(1 + (r/1 %)^2) - 1), coefficients non-negative.

    The loss is convex; each round of reweighted least squares lowers it (Huber and Ronchetti,
    Robust Statistics, doi 10.1002/9780470434697, 7.8).
    """
    now = solve_non_negative(columns, target)
    for _ in range(_ROUNDS):
        weights = [(1 + (r / _SOFT) ** 2) ** -0.25 for r in residuals(columns, target, now)]
        last, now = (
            now,
            solve_non_negative(
                [_times(column, weights) for column in columns], _times(target, weights)
            ),
        )
        if all(abs(a - b) <= _SETTLED * max(now) for a, b in zip(now, last, strict=True)):
            break
    return now


def residuals(columns: Sequence[Vector], target: Vector, coefficients: Vector) -> list[float]:
    """Returns the target minus the linear combination of the columns."""
    rows = zip(*columns, strict=True)
    return [one - _dot(row, coefficients) for row, one in zip(rows, target, strict=True)]


def t_quantile(degrees: int, inside: float = 0.9) -> float:
    """Returns t such that Student's variable is between -t and t with probability `inside`.

    For integer degrees of freedom the probability is a finite sum (Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < inside else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def _within(angle: float, degrees: int) -> float:
    square, odd = math.cos(angle) ** 2, degrees % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(1 + odd, degrees, 2):
        total += term
        term *= square * power / (power + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def _dot(left: Vector, right: Vector) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _times(left: Vector, right: Vector) -> list[float]:
    return [a * b for a, b in zip(left, right, strict=True)]
