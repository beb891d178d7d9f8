"""Scaling of an epoch: timings of one network and batch in, a distribution of the time at another size out.

The model and its priors are in `posterior`: T = a [S (1 + b log2(n/n0)) + c] for S steps on n
accelerators. This module reads timings and prepares them (repeats, slow runs, steps, two regimes of
hosts), limits the time by the rate at which showers can be read, and finds points that the model does not
describe.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.documents import csv_rows, read_text
from cloudgan.core.errors import ConfigError, DataError, nearest, show
from cloudgan.core.ranges import MAX_SECONDS, MAX_SIZE
from cloudgan.reports.charts import Line
from cloudgan.speed.posterior import (
    FIXED_SCALE,
    NOISE_MEDIAN,
    NOISE_MEDIAN_WITHOUT_STEPS,
    PROGRAM_SHARE,
    SLOW_FROM,
    Normal,
    Point,
    Posterior,
    Predictive,
    SlowRuns,
    repeats,
)

MODEL: Final = "T = a [S (1 + b log2(n/n0)) + c], S steps per epoch"
MIN_SIZES: Final = 3
COVERAGE: Final = 0.9
MISFIT: Final = 0.06
"""Relative error at a measured size from which the model does not describe the points: five times the
prior's median noise."""
FEED_SPREAD: Final = 0.06
"""Relative spread of an input rate: the paper's runs without prefetching on 32, 64 and 128 GPUs read 796,
845 and 902 showers per second."""
_PAPER_STEPS = 1302.0
"""Of the paper's epoch on one GPU (124,987 showers in batches of 96): the assumption without steps."""
_LEAST_STEPS = 10.0
_WAITS_FROM = 0.9
"""Share of reading in the time of a run from which the run does not show the time of computing."""
_STEPS_DIFFER = 0.05
_NEEDED, _OPTIONAL = ("n", "seconds"), ("nodes", "steps")
_MIN_SECONDS = 1e-6
RegimeName = Literal["all sizes", "within one host", "across hosts"]


class Timing(NamedTuple):
    """One measured run.

    Attributes:
        seconds: Time of one epoch, or of what is to be predicted.
        nodes: Number of machines; None: not given.
        steps: Steps of the epoch; None: not given.
    """

    n: int
    seconds: float
    nodes: int | None = None
    steps: int | None = None


class EpochSteps(NamedTuple):
    """Showers of an epoch and batch per accelerator, which give the steps."""

    showers: int
    batch: int

    def at(self, n: int) -> int:
        """Returns the steps on `n` accelerators; the remainder is dropped.

        Raises:
            ConfigError: The showers do not fill one step.
        """
        steps = self.showers // (self.batch * n)
        if steps < 1:
            raise ConfigError(
                f"{self.showers} showers do not fill one step of {n} accelerators with {self.batch}"
                " each; reduce the batch or the size"
            )
        return steps


class SizeTimings(Document):
    """All runs on one number of accelerators."""

    n: int
    steps: int | None = Field(description="of an epoch; null: unknown")
    seconds: float = Field(description="of the fastest run")
    slowest_seconds: float
    runs: int


class Misfit(NamedTuple):
    """A measured size that the model does not describe, in seconds."""

    n: int
    seconds: float
    fitted_seconds: float

    @property
    def error(self) -> float:
        """Absolute difference of the logarithms."""
        return abs(math.log(self.seconds / self.fitted_seconds))


class PredictedTime(Document):
    """Time of one run, in seconds; low to high holds 9 of 10 runs, if the model holds."""

    seconds: float = Field(ge=0, description="median of healthy runs")
    low_seconds: float = Field(ge=0, description="of all runs")
    high_seconds: float = Field(ge=0, description="of all runs, slow ones included")
    healthy_low_seconds: float = Field(ge=0, description="without slow runs")
    healthy_high_seconds: float = Field(
        ge=0,
        description="without slow runs: of the paper's larger runs it held 19 of 30, of those within 4 %"
        " of the fastest of their size 16 of 20",
    )


class Prediction(PredictedTime):
    """Time of one run at one size."""

    n: int
    steps: float | None = Field(description="of an epoch; null: unknown")
    needs_showers_per_second: float | None = Field(description="so that no step waits for input")
    waits_for_input: bool = Field(description="whether the input rate limits it")
    extrapolation: str = Field(description="position among the measured sizes, in words")

    @property
    def evidence(self) -> str:
        """How the time is known, in words."""
        return self.extrapolation + (", waits for its input" if self.waits_for_input else "")


def prediction_line(known: Mapping[int, PredictedTime]) -> Line:
    """Returns the predicted seconds by size, with their band, as a line of a chart."""
    sizes = sorted(known)
    times = [known[n] for n in sizes]
    return Line(
        "model",
        tuple(map(float, sizes)),
        tuple(one.seconds for one in times),
        tuple(one.low_seconds for one in times),
        tuple(one.high_seconds for one in times),
    )


class _Steps(NamedTuple):
    """Steps of any size: batches of an epoch over accelerators, whole ones if they are known.

    The batches are between `least` and `most`.
    """

    least: float
    most: float
    known: bool

    def at(self, n: int) -> float:
        if self.least < self.most * (1 - _STEPS_DIFFER):
            raise DataError(
                f"the steps are not those of one epoch and batch: n times steps is from"
                f" {self.least:g} to {self.most:g}; fit runs with the same batch per accelerator"
            )
        steps = math.sqrt(self.least * self.most) / n
        if self.known and steps < 1:
            raise ConfigError(
                f"the {steps * n:.0f} batches of an epoch do not fill one step of {n} accelerators;"
                " predict a smaller size"
            )
        return float(int(steps)) if self.known else steps


@dataclass(frozen=True)
class Regime:
    """Sizes that share one fit.

    Attributes:
        waiting: Sizes left out, because their runs wait for their input.
        misfits: Sizes that the model does not describe; they widen all intervals.
    """

    name: RegimeName
    sizes: tuple[SizeTimings, ...]
    waiting: tuple[SizeTimings, ...]
    posterior: Posterior
    slow: SlowRuns
    misfits: tuple[Misfit, ...]
    steps: _Steps

    def extrapolation(self, n: int) -> str:
        """Returns the position of `n` among the fitted sizes, in words."""
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
        host_size: With two regimes, accelerators per host.
        epoch: Showers and batch, if they are known.
        feed: Showers per second that the input can supply, if known.
    """

    regimes: tuple[Regime, ...]
    host_size: int | None = None
    epoch: EpochSteps | None = None
    feed: float | None = None
    _predictions: dict[tuple[int, float], Prediction] = field(default_factory=dict, compare=False)

    def regime(self, n: int) -> Regime:
        """Returns the regime of `n`."""
        fits_in_host = self.host_size is not None and n <= self.host_size
        return self.regimes[0 if fits_in_host else -1]

    def steps(self, n: int) -> float:
        """Returns the steps of an epoch on `n` accelerators, inferred from the runs if need be.

        Raises:
            ConfigError: The showers do not fill one step, or `n` is less than 1.
            DataError: The runs have different epochs or batches per accelerator.
        """
        if n < 1:
            raise ConfigError(f"cannot predict {n} accelerators; expected 1 or more")
        return self.epoch.at(n) if self.epoch else self.regime(n).steps.at(n)

    def showers(self, n: int, steps: float) -> float | None:
        """Returns the showers that an epoch reads; None if showers and batch are unknown."""
        return steps * n * self.epoch.batch if self.epoch else None

    def distribution(self, n: int, steps: float) -> Predictive:
        """Returns the distribution of the seconds of one run of so many steps."""
        regime, showers = self.regime(n), self.showers(n, steps)
        misfit = max((one.error - MISFIT for one in regime.misfits), default=0.0)
        feed = None
        if self.feed is not None and showers is not None:
            feed = Normal(1.0, math.log(showers / self.feed), FEED_SPREAD)
        return Predictive(regime.posterior.normals(n, steps, misfit), regime.slow, feed)

    def predict(self, n: int, steps: float | None = None) -> Prediction:
        """Predicts one size, once; `steps` and its errors are by default those of `self.steps`."""
        count = self.steps(n) if steps is None else steps
        if (n, count) not in self._predictions:
            spread, tail = self.distribution(n, count), (1 - COVERAGE) / 2
            seconds, showers = spread.quantile(0.5, healthy=True), self.showers(n, count)
            computing = spread.computing_seconds() if showers else math.inf
            reading = showers / self.feed if showers and self.feed else 0.0
            self._predictions[n, count] = Prediction(
                seconds=seconds,
                low_seconds=min(seconds, spread.quantile(tail)),
                high_seconds=max(seconds, spread.quantile(1 - tail)),
                healthy_low_seconds=spread.quantile(tail, healthy=True),
                healthy_high_seconds=spread.quantile(1 - tail, healthy=True),
                n=n,
                steps=count if self.regime(n).steps.known else None,
                needs_showers_per_second=showers / computing if showers else None,
                waits_for_input=reading > computing,
                extrapolation=self.regime(n).extrapolation(n),
            )
        return self._predictions[n, count]


def fit_scaling(
    timings: Sequence[Timing],
    epoch: EpochSteps | None = None,
    feed: float | None = None,
    *,
    of_programs: bool = False,
) -> ScalingModel:
    """Fits the model to runs of at least three sizes.

    Runs that are at most 4 % slower than the fastest one of their size are healthy and fitted; the
    others are slow runs. With three sizes within a host and three across hosts (`nodes`), each group
    has its own fit.

    Args:
        timings: The runs. Without steps, and without `epoch`, the paper's number is assumed; it
            sets the scale of c.
        epoch: Showers of an epoch and batch per accelerator.
        feed: Showers per second that the input can supply, which needs `epoch`. Runs that wait for
            their input are left out of the fit.
        of_programs: The times include start-up, validation and checkpoints, which do not shrink.

    Raises:
        ConfigError: `feed` is given without `epoch`.
        DataError: There are fewer than three sizes, or only some runs have steps.
    """
    if feed is not None and epoch is None:
        raise ConfigError("an input rate needs the showers of an epoch and the batch")
    if epoch is not None:
        timings = [one._replace(steps=one.steps or epoch.at(one.n)) for one in timings]
    within = [timing for timing in timings if timing.nodes == 1]
    across = [timing for timing in timings if timing.nodes is not None and timing.nodes > 1]
    groups: dict[RegimeName, Sequence[Timing]] = {"all sizes": timings}
    host_size = None
    have_nodes = len(within) + len(across) == len(timings)
    if have_nodes and min(len({one.n for one in group}) for group in (within, across)) >= MIN_SIZES:
        groups = {"within one host": within, "across hosts": across}
        host_size = max(math.ceil(one.n / one.nodes) for one in timings if one.nodes)
    regimes = (_regime(name, its, epoch, feed, of_programs) for name, its in groups.items())
    return ScalingModel(tuple(regimes), host_size, epoch, feed)


def repeat_distribution(seconds: Sequence[float]) -> Predictive:
    """Returns the distribution of one more run of the size, batch and accelerator of these runs.

    A run without a repeat may itself be a slow one: the next is then as much faster.
    """
    fastest = min(seconds)
    healthy = [one for one in seconds if one <= SLOW_FROM * fastest]
    ratios = sorted(one / fastest for one in seconds if one not in healthy)
    normals, slow = repeats(healthy), SlowRuns.after(len(healthy) - 1, ratios)
    if len(seconds) > 1:
        return Predictive(normals, slow)
    faster = (
        Normal(slow.share * weight * one.weight, one.mean - factor, one.sd)
        for factor, weight in slow.factors
        for one in normals
    )
    same = (one._replace(weight=one.weight * (1 - slow.share)) for one in normals)
    return Predictive((*same, *faster), slow)


def _regime(
    name: RegimeName,
    timings: Sequence[Timing],
    epoch: EpochSteps | None,
    feed: float | None,
    of_programs: bool,
) -> Regime:
    every = _sizes(timings)
    waiting = tuple(size for size in every if _waits(size, epoch, feed))
    sizes = tuple(size for size in every if size not in waiting)
    if len(sizes) < MIN_SIZES:
        found = ", ".join(str(size.n) for size in sizes) or "none"
        left_out = f"; {len(waiting)} that wait for input at this --feed do not count"
        raise DataError(
            f"a curve needs runs with at least {MIN_SIZES} different n; found {len(sizes)}"
            f" (n = {found}); repeats of one n count once{left_out if waiting else ''}"
        )
    steps = _steps(timings)
    fastest = {size.n: size.seconds for size in sizes}
    runs = [one for one in timings if one.n in fastest]
    healthy = [one for one in runs if one.seconds <= SLOW_FROM * fastest[one.n]]
    repeats = {n: sum(one.n == n for one in healthy) for n in fastest}
    points = [
        # Repeats share nodes, days and the error of the form: together they count as one run.
        Point(one.n, one.seconds, one.steps or steps.at(one.n), 1 / repeats[one.n])
        for one in healthy
    ]
    posterior = Posterior(
        points,
        NOISE_MEDIAN if steps.known else NOISE_MEDIAN_WITHOUT_STEPS,
        PROGRAM_SHARE * min(points).steps if of_programs else FIXED_SCALE,
    )
    ratios = [one.seconds / fastest[one.n] for one in runs if one not in healthy]
    # A run alone at its size may be slow: only repeats show that runs are healthy.
    slow = SlowRuns.after(len(healthy) - len(sizes), sorted(ratios))
    fitted = (
        Misfit(size.n, size.seconds, posterior.seconds(size.n, size.steps or steps.at(size.n)))
        for size in sizes
    )
    misfits = tuple(one for one in fitted if one.error > MISFIT)
    return Regime(name, sizes, waiting, posterior, slow, misfits, steps)


def _sizes(timings: Sequence[Timing]) -> tuple[SizeTimings, ...]:
    runs: dict[int, list[Timing]] = {}
    for timing in timings:
        runs.setdefault(timing.n, []).append(timing)
    found = []
    for n, its in sorted(runs.items()):
        fastest = min(its, key=lambda one: one.seconds)
        found.append(
            SizeTimings(
                n=n,
                steps=fastest.steps,
                seconds=fastest.seconds,
                slowest_seconds=max(one.seconds for one in its),
                runs=len(its),
            )
        )
    return tuple(found)


def _waits(size: SizeTimings, epoch: EpochSteps | None, feed: float | None) -> bool:
    if epoch is None or feed is None:
        return False
    reading = (size.steps or epoch.at(size.n)) * size.n * epoch.batch / feed
    return reading >= _WAITS_FROM * size.seconds


def _steps(timings: Sequence[Timing]) -> _Steps:
    """Returns the steps of other sizes: batches per epoch that agree with all runs, if any do."""
    counted = [(one.n, one.steps) for one in timings if one.steps is not None]
    if not counted:
        batches = max(_PAPER_STEPS, _LEAST_STEPS * max(one.n for one in timings))
        return _Steps(batches, batches, known=False)
    if len(counted) < len(timings):
        raise DataError(
            f"steps in {len(counted)} of {len(timings)} runs; give them for all runs or for none"
        )
    low = max(n * steps for n, steps in counted)
    high = min(n * (steps + 1) for n, steps in counted)  # itself excluded
    if low < high:  # the remainder that each run drops explains the differences
        return _Steps((low + high) / 2, (low + high) / 2, known=True)
    return _Steps(min(n * steps for n, steps in counted), low, known=True)


def read_timings(path: Path) -> tuple[Timing, ...]:
    """Reads a CSV file with the columns n, seconds and optionally nodes, steps; ignores others."""
    lines = io.StringIO(read_text(path), newline="")
    heads: list[str] = []
    found = []
    for number, line in csv_rows(lines, str(path)):
        cells, where = [cell.strip() for cell in line], f"{path}:{number}"
        if not any(cells):
            continue
        if not heads:
            heads = _checked_heads(cells, where)
        elif len(cells) != len(heads):
            raise DataError(f"{where}: has {len(cells)} cells, expected {len(heads)}")
        else:
            found.append(_timing(dict(zip(heads, cells, strict=True)), where))
    if not heads:
        raise DataError(f"{path}:1: is empty; expected a header with the columns n,seconds")
    return tuple(found)


def _checked_heads(cells: list[str], where: str) -> list[str]:
    heads = [cell.casefold() for cell in cells]
    for name in _NEEDED:
        if name not in heads:
            raise DataError(
                f"{where}: no column {name!r} among {', '.join(map(repr, cells))}."
                f"{nearest(name, heads)} Expected: n,seconds and optionally nodes,steps"
            )
    doubled = sorted({name for name in (*_NEEDED, *_OPTIONAL) if heads.count(name) > 1})
    if doubled:
        raise DataError(f"{where}: duplicate column {doubled[0]!r}")
    return heads


def _timing(row: dict[str, str], where: str) -> Timing:
    def number(name: str, least: float, most: float, expected: str) -> float:
        try:
            value = float(row[name])
        except ValueError:
            value = math.nan
        if not least <= value <= most or (name != "seconds" and not value.is_integer()):
            raise DataError(f"{where}: {name} is {show(row[name])}; expected {expected}")
        return value

    def count(name: str) -> int:
        return int(number(name, 1, MAX_SIZE, f"an integer of at least 1, at most {MAX_SIZE}"))

    n = count("n")
    expected = f"a finite number from {_MIN_SECONDS:g} to {MAX_SECONDS:g}"
    seconds = number("seconds", _MIN_SECONDS, MAX_SECONDS, expected)
    nodes, steps = (count(name) if row.get(name) else None for name in _OPTIONAL)
    if nodes is not None and nodes > n:
        raise DataError(f"{where}: n is {n} on {nodes} nodes; expected at least one per node")
    return Timing(n, seconds, nodes, steps)
