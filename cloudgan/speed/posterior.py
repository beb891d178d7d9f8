"""Posterior of the scaling model on a grid, and the distribution of the time that it predicts.

An epoch of S steps on n accelerators, with n0 the smallest measured number, takes

    T(n, S) = a [S (1 + b log2(n / n0)) + c]

- a: seconds per step on n0; its prior is uniform in log a, and it is integrated analytically.
- b: growth of the step per doubling of n, as a gradient reduction over a tree has it. Prior: half of
  Student's t with 3 degrees of freedom, scale 0.01: most of a reduction hides behind the backward
  pass, and the heavy tail lets measurements show ten times as much.
- c: work per epoch that does not shrink, in steps: input start-up, the latency of the last step. Prior:
  half of Student's t with 3 degrees of freedom, scale 3 steps. Of whole programs, with start-up and
  validation: scale `PROGRAM_SHARE` of the steps on n0.
- Healthy runs of one size differ by a lognormal factor. Prior of its standard deviation: lognormal,
  median 0.012; 0.02 if the steps are unknown, because a dropped last batch then acts like noise.
- The form is uncertain where it was not measured: `FORM_ERROR` per doubling beyond the measured sizes,
  and `FORM_SHARE` of the growth b, because a ring, a tree and latency grow differently.
- Some runs are slow throughout, for example on a slow network: see `SlowRuns`.

The medians were set with the runs of arXiv:2111.04628 on Google Cloud (doi
10.1051/epjconf/202125102073); half-t priors after Gelman, Bayesian Analysis 1 (2006) 515, doi
10.1214/06-BA117A. A grid needs no sampling, and its digits depend on no processor: the same points give
the same interval. Plain Python, because the import of NumPy takes ten times as long as a grid.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

GROWTH_SCALE = 0.01
FIXED_SCALE = 3.0
PROGRAM_SHARE = 0.1
NOISE_MEDIAN = 0.012
NOISE_MEDIAN_WITHOUT_STEPS = 0.02
NOISE_LOG_SD = 0.5
FORM_ERROR = 0.0175
FORM_SHARE = 0.3
_LEAST_FACTOR = 0.3  # of a step on fewer accelerators than were measured

_NODES = 15  # per axis
_TEMPERATURES = (64.0, 8.0, 2.0, 1.0)
"""Of the posterior, by round: the grid closes in on it."""
_OUTSIDE = math.exp(-3)  # of the maximum: lower nodes are outside the next round's grid
_NOISE_SDS = tuple(-2 + 0.65 * step for step in range(9))
_MOST_GROWTH = 10.0
_MOST_FIXED = 30.0  # times the steps of the smallest size
_BINS = 16
_NEGLIGIBLE = 1e-4
_SMALL_PART = 1e-3
"""Of the distribution: it is left out, and the other parts share its weight."""
_HALVINGS = 18
_ROOT_HALF = math.sqrt(0.5)
_MOST_FORM = 1.0
"""Of the error of the form: above, a prediction says nothing, and far below no logarithm overflows."""


class Point(NamedTuple):
    """A measured epoch: accelerators, seconds, steps, and its weight in the fit."""

    n: int
    seconds: float
    steps: float
    weight: float = 1.0


SLOW_FROM = 1.04
"""Ratio to the fastest run of the same size from which a run counts as slow."""
_SLOW_MEAN = 0.12
_SLOW_PRIOR = (1.0, 9.0)
_FACTORS, _FACTORS_COUNT_AS = 6, 3.0


@dataclass(frozen=True)
class SlowRuns:
    """Runs that are slower throughout than others of the same size.

    The prior of their share is Beta(1, 9), that of the factor 1.04 plus an exponential of mean 0.12;
    the prior factors count as three observed ones.

    Attributes:
        factors: Logarithm of the time over that of a healthy run, and weight; the weights sum to 1.
    """

    share: float
    factors: tuple[tuple[float, float], ...]

    @classmethod
    def after(cls, healthy: int, ratios: Sequence[float]) -> SlowRuns:
        """Returns the slow runs, given the number of healthy repeats and the ratios of slow runs."""
        slow, others = _SLOW_PRIOR
        total = _FACTORS_COUNT_AS + len(ratios)
        tails = ((one + 0.5) / _FACTORS for one in range(_FACTORS))
        prior = [SLOW_FROM - _SLOW_MEAN * math.log(tail) for tail in tails]
        weights = [_FACTORS_COUNT_AS / _FACTORS / total] * _FACTORS + [1 / total] * len(ratios)
        return cls(
            (slow + len(ratios)) / (slow + others + healthy + len(ratios)),
            tuple(zip(map(math.log, (*prior, *ratios)), weights, strict=True)),
        )


class Normal(NamedTuple):
    """A part of the distribution of log seconds."""

    weight: float
    mean: float
    sd: float


@dataclass(frozen=True)
class Predictive:
    """Distribution of the seconds of one run; with a feed, the time to read the showers, the longer of both."""

    normals: tuple[Normal, ...]
    slow: SlowRuns
    feed: Normal | None = None

    def quantile(self, probability: float, *, healthy: bool = False) -> float:
        """Returns the seconds that a run stays below with a probability.

        Args:
            probability: Above 0 and below 1.
            healthy: Only runs that are not slow.
        """
        parts = self.normals if self.feed is None else (*self.normals, self.feed)
        low = min([part.mean - 9 * part.sd for part in parts])
        high = max([part.mean + 9 * part.sd for part in parts])
        kinds = [(1.0, 0.0)]  # of runs: their share, and how much slower they are
        if not healthy:
            share = self.slow.share
            kinds = [(1 - share, 0.0), *[(share * one, by) for by, one in self.slow.factors]]
            high += max(kinds, key=operator.itemgetter(1))[1]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_below = self._below(middle, kinds) < probability
            low, high = (middle, high) if is_below else (low, middle)
        return math.exp((low + high) / 2)

    def computing_seconds(self) -> float:
        """Returns the mean time of computing in a healthy run (geometric)."""
        return math.exp(math.fsum([part.weight * part.mean for part in self.normals]))

    def _below(self, x: float, kinds: Iterable[tuple[float, float]]) -> float:
        """Returns the probability that a run takes less than exp(x) seconds."""
        erfc, total = math.erfc, 0.0
        for share, by in kinds:
            at, below = x - by, 0.0
            for weight, mean, sd in self.normals:
                below += weight * erfc((mean - at) * _ROOT_HALF / sd)
            if self.feed is not None:
                below *= erfc((self.feed.mean - at) * _ROOT_HALF / self.feed.sd) / 2
            total += share * below / 2
        return total


def repeats(seconds: Sequence[float]) -> tuple[Normal, ...]:
    """Returns the distribution of the logarithm of one more healthy run of a size, from runs of it.

    Growth and fixed steps have no effect: of the posterior, the noise remains. The runs count as one.
    """
    logs = list(map(math.log, seconds))
    mean = math.fsum(logs) / len(logs)
    squares = math.fsum([(one - mean) ** 2 for one in logs]) / len(logs)
    noises = _noises(NOISE_MEDIAN)
    weights = [
        math.exp(-(z**2) / 2 - squares / noise**2 / 2)
        for z, noise in zip(_NOISE_SDS, noises, strict=True)
    ]
    total = math.fsum(weights)
    return _large(
        [
            Normal(weight / total, mean, noise * math.sqrt(2))  # of the new run and of the mean
            for weight, noise in zip(weights, noises, strict=True)
        ]
    )


def _noises(median: float) -> list[float]:
    return [median * math.exp(NOISE_LOG_SD * z) for z in _NOISE_SDS]


def _large(parts: Iterable[Normal]) -> tuple[Normal, ...]:
    """Returns the parts that are not small; they share the weight of the others."""
    large = [part for part in parts if part.weight > _SMALL_PART]
    kept = math.fsum([part.weight for part in large])
    return tuple([part._replace(weight=part.weight / kept) for part in large])


class _Node(NamedTuple):
    """Growth b, fixed steps c, mean of log a, the weight with each noise, and their sum."""

    growth: float
    fixed: float
    log_step: float
    weights: list[float]
    share: float


class _Axis(NamedTuple):
    """Midpoints of equal cells in log(1 + x / scale), from `low` to `high`."""

    scale: float
    low: float
    high: float

    def values(self) -> list[tuple[float, float]]:
        """Returns x and the prior mass of its cell, up to a factor."""
        found = []
        for one in range(_NODES):
            at = self.low + (one + 0.5) * (self.high - self.low) / _NODES
            ratio = math.expm1(at)
            # Student's t with 3 degrees of freedom, times the width of the cell in x.
            found.append((self.scale * ratio, (1 + ratio**2 / 3) ** -2 * math.exp(at)))
        return found

    def around(self, kept: Iterable[float]) -> _Axis:
        """Returns the axis from one cell below the least to one above the greatest value."""
        places = [math.log1p(one / self.scale) for one in kept]
        cell = (self.high - self.low) / _NODES
        low, high = min(places) - 1.5 * cell, max(places) + 1.5 * cell
        return _Axis(self.scale, max(self.low, low), min(self.high, high))


class Posterior:
    """Posterior of a, b, c and the noise.

    Args:
        points: Measured epochs with positive seconds, steps and weights; their order has no effect.
        noise_median: Median of the prior of the noise.
        fixed_scale: Scale of the prior of c, in steps.

    Attributes:
        smallest: n0.
        step_seconds: Posterior mean of a (geometric).
        growth: Posterior mean of b.
        fixed_steps: Posterior mean of c.
        noise: Posterior mean of the relative noise of healthy runs.
    """

    def __init__(
        self,
        points: Iterable[Point],
        noise_median: float = NOISE_MEDIAN,
        fixed_scale: float = FIXED_SCALE,
    ) -> None:
        self._points = sorted(points)
        self.smallest, self.largest = self._points[0].n, self._points[-1].n
        self._noises = _noises(noise_median)
        self._weight = math.fsum([point.weight for point in self._points])
        self._doublings = [math.log2(point.n / self.smallest) for point in self._points]
        most_fixed = _MOST_FIXED * self._points[0].steps / fixed_scale
        growths = _Axis(GROWTH_SCALE, 0.0, math.log1p(_MOST_GROWTH / GROWTH_SCALE))
        fixed = _Axis(fixed_scale, 0.0, math.log1p(most_fixed))
        for temperature in _TEMPERATURES:
            nodes = self._nodes(growths, fixed, temperature)
            kept = [node for node in nodes if node.share > _OUTSIDE]
            growths = growths.around([node.growth for node in kept])
            fixed = fixed.around([node.fixed for node in kept])
        total = math.fsum([node.share for node in nodes])
        self._grid = [
            node._replace(weights=[one / total for one in node.weights], share=node.share / total)
            for node in nodes
            if node.share > _NEGLIGIBLE
        ]
        self.step_seconds = math.exp(self._mean([node.log_step for node in self._grid]))
        self.growth = self._mean([node.growth for node in self._grid])
        self.fixed_steps = self._mean([node.fixed for node in self._grid])
        self.noise = math.fsum(
            [math.fsum(map(operator.mul, node.weights, self._noises)) for node in self._grid]
        )

    def _mean(self, values: Iterable[float]) -> float:
        return math.fsum([node.share * one for node, one in zip(self._grid, values, strict=True)])

    def normals(self, n: int, steps: float, misfit: float = 0.0) -> tuple[Normal, ...]:
        """Returns the distribution of the logarithm of the seconds of a healthy run.

        Args:
            misfit: Relative error of the model at the measured sizes that noise does not explain;
                added to its other errors.
        """
        beyond = max(0.0, math.log2(n / self.largest), math.log2(self.smallest / n))
        form = math.hypot(FORM_ERROR, FORM_SHARE * self.growth) * beyond
        form = min(_MOST_FORM, math.hypot(form, misfit * (1 + beyond)))
        doublings = math.log2(n / self.smallest)
        means = [
            node.log_step
            + math.log(steps * max(_LEAST_FACTOR, 1 + node.growth * doublings) + node.fixed)
            for node in self._grid
        ]
        low, width = min(means), max(max(means) - min(means), _NEGLIGIBLE) / _BINS
        sums = [[0.0] * (1 + len(self._noises)) for _ in range(_BINS + 1)]
        for node, mean in zip(self._grid, means, strict=True):
            row = sums[int((mean - low) / width)]
            for place, weight in enumerate(node.weights):
                row[place] += weight
            row[-1] += mean * node.share
        run_and_step = math.sqrt(1 + 1 / self._weight)  # of a new run and of a
        return _large(
            [
                Normal(weight, row[-1] / total, math.hypot(noise * run_and_step, form))
                for row in sums
                if (total := math.fsum(row[:-1])) > _SMALL_PART
                for weight, noise in zip(row, self._noises, strict=False)
            ]
        )

    def fixed_steps_quantile(self, probability: float) -> float:
        """Returns the value that c stays below with a probability, in steps of the smallest size.

        Between the nodes of the grid it is interpolated; beyond them it is the outermost node.
        """
        masses: dict[float, float] = {}
        for node in self._grid:
            masses[node.fixed] = masses.get(node.fixed, 0.0) + node.share
        total, below = math.fsum(masses.values()), 0.0
        earlier: tuple[float, float] | None = None
        for fixed, mass in sorted(masses.items()):
            middle = (below + mass / 2) / total
            if middle >= probability:
                if earlier is None:
                    return fixed
                start, at = earlier
                return start + (fixed - start) * (probability - at) / (middle - at)
            earlier, below = (fixed, middle), below + mass
        return max(masses)

    def seconds(self, n: int, steps: float) -> float:
        """Returns the posterior mean of the time of a healthy run (geometric)."""
        normals = self.normals(n, steps)
        return math.exp(math.fsum([one.weight * one.mean for one in normals]))

    def _nodes(self, growths: _Axis, fixed: _Axis, temperature: float) -> list[_Node]:
        """Returns all nodes; the greatest sum of weights is 1."""
        # Of the logarithm of a weight, by noise: the prior, and what divides the squares.
        by_noise = [
            (z**2 / 2, noise**2, (self._weight - 1) * math.log(noise))
            for z, noise in zip(_NOISE_SDS, self._noises, strict=True)
        ]
        log, fsum, places = math.log, math.fsum, fixed.values()
        own = [one.weight for one in self._points]
        found = []
        for growth, growth_mass in growths.values():
            points = [
                (one.seconds, one.steps * max(_LEAST_FACTOR, 1 + growth * doublings))
                for one, doublings in zip(self._points, self._doublings, strict=True)
            ]
            for steps, steps_mass in places:
                mass = log(growth_mass * steps_mass)
                # Loops without a function per point: a grid has 225 nodes, and four grids are made.
                rest, squares, weights = [], [], []
                for seconds, its in points:
                    rest.append(log(seconds / (its + steps)))
                log_step = fsum(map(operator.mul, own, rest)) / self._weight
                for weight, one in zip(own, rest, strict=True):
                    squares.append(weight * (one - log_step) ** 2)
                square = fsum(squares)
                for prior, variance, scale in by_noise:
                    weights.append((mass - prior - square / variance / 2 - scale) / temperature)
                found.append(_Node(growth, steps, log_step, weights, 0.0))
        return _normalized(found)


def _normalized(nodes: list[_Node]) -> list[_Node]:
    """Returns nodes whose weights were logarithms; the greatest sum of weights is 1."""
    top = max([max(node.weights) for node in nodes])
    for node in nodes:
        for place, one in enumerate(node.weights):
            node.weights[place] = math.exp(one - top)
    largest = max([sum(node.weights) for node in nodes])
    found = []
    for node in nodes:
        for place, one in enumerate(node.weights):
            node.weights[place] = one / largest
        found.append(node._replace(share=math.fsum(node.weights)))
    return found
