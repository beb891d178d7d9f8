"""The time of an epoch, T(accelerator, number, batch), of one network, from measured runs.

A size that was measured has the time of its fastest run and the interval that holds one more; a size
between or beyond three measured ones is on the curve of `scaling`, and with fewer it lies between no and
linear speed-up. A batch that was not measured is converted by the line t0 + t1 * batch: t0 is what a step
takes whatever its batch (start of the kernels, exchange of the gradients), t1 the work on one shower. An
accelerator that was not measured has bounds from a measured one, by the ratios of their data sheets.
A network that was not measured has bounds from the paper's, by the ratios of their work on a shower.

The model is plain arithmetic: it needs the error function, which NumPy lacks, and its last digits depend
on no processor, so that plans made on two machines are the same document.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.gan.convolutions import step_macs
from cloudgan.gan.footprint import kept_for_backward
from cloudgan.schema.presets import Preset, find_preset
from cloudgan.speed.measured import (
    CORES_PER_CHIP,
    PAPER_BATCH,
    MeasuredThroughput,
    data_sheets,
    load_accelerator_specs,
    paper_runs,
    speed_bounds,
)
from cloudgan.speed.posterior import SLOW_FROM
from cloudgan.speed.scaling import (
    COVERAGE,
    MIN_SIZES,
    ScalingModel,
    Timing,
    fit_scaling,
    repeat_distribution,
)

Grade = Literal["measured", "modelled"]
MODELLED: Final = "modelled"
_LINE_OF = ("V100", 32, 5)
"""Accelerator, size and epochs of the paper's runs with 16 to 96 showers per replica."""
_MIN_BATCHES = 3


class Interval(NamedTuple):
    """An expected time and its bounds, in seconds."""

    seconds: float
    low: float
    high: float


class StepTime(NamedTuple):
    """The time of a step by its batch, t0 + t1 * batch, in seconds.

    Attributes:
        constant: t0.
        per_shower: t1.
        most_constant: Largest t0 of any number of accelerators, with the same t1.
    """

    constant: float
    per_shower: float
    error: float
    most_constant: float


def fit_step_time(points: Iterable[tuple[float, float]]) -> StepTime | None:
    """Fits the line to pairs of batch and seconds by least squares.

    Returns:
        None for fewer than three batches, or if the time does not grow with the batch.
    """
    found = sorted(points)
    if len({batch for batch, _ in found}) < _MIN_BATCHES:
        return None
    batch = math.fsum(b for b, _ in found) / len(found)
    seconds = math.fsum(t for _, t in found) / len(found)
    slope = math.fsum((b - batch) * (t - seconds) for b, t in found)
    slope /= math.fsum((b - batch) ** 2 for b, _ in found)
    constant = max(0.0, seconds - slope * batch)
    if slope <= 0:
        return None
    error = max(abs(t - constant - slope * b) for b, t in found)
    return StepTime(constant, slope, error, constant)


@functools.cache
def paper_step_time() -> StepTime:
    """Returns the line of the paper's V100: 0.306 s + 0.0269 s per shower, within 0.05 s of each run.

    Source: `paper_runs.csv`; arXiv:2111.04628, doi 10.1051/epjconf/202125102073.
    """
    accelerator, size, epochs = _LINE_OF
    runs = [run for run in paper_runs() if run.accelerator == accelerator]
    fed = [run for run in runs if run.options == "prefetch" and run.workers == run.nodes]
    line = fit_step_time(
        (run.batch_per_replica, run.step_seconds)
        for run in fed
        if (run.accelerators, run.epochs, run.nodes) == (size, epochs, size // 8)
    )
    assert line is not None  # noqa: S101  the shipped runs have six batches
    work = line.per_shower * PAPER_BATCH
    most = max(run.step_seconds - work for run in fed if run.batch_per_replica == PAPER_BATCH)
    return line._replace(most_constant=most)


def convert_step(seconds: float, measured: float, batch: float, line: StepTime | None) -> Interval:
    """Converts a measured step to another batch.

    Args:
        seconds: Of the measured step.
        measured: Its showers per replica.
        batch: Showers per replica of the step to estimate.
        line: Fitted to this accelerator; None: the shares of t0 and t1 are those of the paper's
            V100, the bounds those of t0 = 0 and of the largest t0 of the paper's V100 runs.
    """
    if batch == measured:
        return Interval(seconds, seconds, seconds)
    if line is not None:
        work = min(line.per_shower, seconds / measured)
        expected = seconds + work * (batch - measured)
        low = max(work * batch, expected - line.error)
        return Interval(expected, low, expected + line.error)
    paper = paper_step_time()
    times = [
        seconds * (constant + paper.per_shower * batch) / (constant + paper.per_shower * measured)
        for constant in (paper.constant, 0.0, paper.most_constant)
    ]
    return Interval(times[0], min(times), max(times))


class EpochEstimate(NamedTuple):
    """Estimated time of an epoch, in seconds.

    Attributes:
        seconds: Expected; None if only bounds are known.
        low_seconds: Lower bound.
        high_seconds: Upper bound, used for ranking.
        grade: Measured (this number, within the measured batches) or modelled.
        between_seconds: See `MeasuredThroughput`.
        first_more_seconds: See `MeasuredThroughput`.
    """

    seconds: float | None
    low_seconds: float
    high_seconds: float
    grade: Grade
    basis: str
    between_seconds: float
    first_more_seconds: float

    def job_seconds(self, epochs: int) -> tuple[float, float]:
        """Returns lower and upper bound of a whole job, gaps and first epoch included."""
        overhead = self.first_more_seconds + epochs * self.between_seconds
        return overhead + epochs * self.low_seconds, overhead + epochs * self.high_seconds


Steps = Callable[[str, int, float], float]
"""Steps of an epoch on a number of accelerators, with a batch per replica."""


@dataclass(frozen=True)
class _AcceleratorRuns:
    """The runs on one accelerator, of any number and batch.

    Attributes:
        line: Step time by batch on this accelerator; None: too few batches were measured.
        reference: The batch that `scaling` describes.
        scaling: Epoch time by number of accelerators; None: too few were measured.
    """

    runs: tuple[MeasuredThroughput, ...]
    line: StepTime | None
    reference: int
    scaling: ScalingModel | None

    @property
    def name(self) -> str:
        return self.runs[0].accelerator

    def epoch(self, n: int, batch: float, showers: int, steps: Steps) -> EpochEstimate:
        """Estimates an epoch on `n` accelerators with `batch` showers per replica."""
        near = min(
            self.runs,
            key=lambda run: (
                abs(math.log(run.accelerators / n)),
                abs(math.log(run.batch / batch)),
                run.step_seconds,
            ),
        )
        extra = (near.between_seconds * (showers / near.showers), near.first_more_seconds)
        is_measured = self._is_measured(batch)
        if near.accelerators == n:
            step = self._step(near, batch)
            basis = near.name + self._conversion(near.batch, batch)
        elif self.scaling is not None:
            is_measured = False
            # a step of the measured epoch, as at a measured size: a shorter one takes its share
            of_epoch = near.steps * near.accelerators * near.batch / (n * self.reference)
            step, basis = self._on_curve(self.scaling, n, batch, max(1.0, of_epoch))
        else:
            low, high = self._between(n, batch, steps)
            closest = min(self.runs, key=lambda run: abs(math.log(run.batch / batch)))
            sizes = ", ".join(dict.fromkeys(str(run.accelerators) for run in self.runs))
            basis = (
                f"size not measured: between no speed-up and linear speed-up from {sizes} x"
                f" {self.name}{self._conversion(closest.batch, batch)}"
            )
            return EpochEstimate(None, low, high, MODELLED, basis, *extra)
        count = steps(self.name, n, batch)
        seconds, low, high = (count * each for each in step)
        grade: Grade = "measured" if is_measured else MODELLED
        return EpochEstimate(seconds, low, high, grade, basis, *extra)

    def _step(self, run: MeasuredThroughput, batch: float) -> Interval:
        """Returns the step of a measured size with the interval that holds one more run of it.

        A curve through other sizes tells a slow run from a healthy one, where there is no repeat.
        """
        step = convert_step(run.step_seconds, run.batch, batch, self.line)
        of = (run.accelerators, run.batch)
        repeats = (one.step_seconds for one in self.runs if (one.accelerators, one.batch) == of)
        middle, low, high = _over_the_fastest(tuple(repeats))
        if self.scaling is not None:
            curve = self.scaling.predict(run.accelerators, max(1, round(run.steps)))
            low = min(1.0, middle * curve.low_seconds / curve.seconds)
            high = max(middle, middle * curve.high_seconds / curve.seconds)
        return Interval(step.seconds * middle, step.low * low, step.high * high)

    def _on_curve(
        self, scaling: ScalingModel, n: int, batch: float, steps: float
    ) -> tuple[Interval, str]:
        """Returns the step of a size that the curve gives for the reference batch, and the basis."""
        found = scaling.predict(n, steps)
        seconds = found.seconds / steps
        step = convert_step(seconds, self.reference, batch, self.line)
        below, above = found.low_seconds / steps - seconds, found.high_seconds / steps - seconds
        low = max(step.low + below, step.low * found.low_seconds / found.seconds)
        sizes = ", ".join(str(size.n) for size in scaling.regime(n).sizes)
        basis = f"curve through {sizes} x {self.name}, {found.extrapolation}"
        basis += self._conversion(self.reference, batch)
        return Interval(step.seconds, low, step.high + above), basis

    def _is_measured(self, batch: float) -> bool:
        batches = [run.batch for run in self.runs]
        return min(batches) <= batch <= max(batches)

    def _conversion(self, measured: int, batch: float) -> str:
        """How a time of one batch became that of another; empty for the same."""
        if batch == measured:
            return ""
        of = "these runs" if self.line else "the paper's V100, assumed"
        where = "" if self._is_measured(batch) else ", outside the measured batches"
        return f", batch {measured} converted to {batch:g} by t0 + t1 * batch of {of}{where}"

    def _between(self, n: int, batch: float, steps: Steps) -> tuple[float, float]:
        """Bounds from each run, where all of them agree.

        More accelerators: between linear speed-up and none. Fewer: a step takes at most as long, and
        is shorter at most by its constant part; an epoch takes at least as long. Efficiency falls with size (Amdahl, doi
        10.1145/1465482.1465560): below the measured sizes, a doubling gains at least as much as one
        between the smallest and the largest measured size.
        """
        ends = []
        fastest = fastest_runs(self.runs)
        for run in fastest:
            step, count = self._step(run, batch), steps(self.name, n, batch)
            if n >= run.accelerators:
                ends.append((step.low * count, step.high * count * n / run.accelerators))
            else:
                work = 1 - self.constant_share(step.low, batch)
                there = steps(self.name, run.accelerators, batch)
                ends.append((step.low * max(work * count, there), step.high * count))
        least, most = (pick(fastest, key=lambda run: run.accelerators) for pick in (min, max))
        if n < least.accelerators < most.accelerators:
            slow, fast = (
                convert_step(run.step_seconds, run.batch, batch, self.line).low
                * steps(self.name, run.accelerators, batch)
                for run in (least, most)
            )
            doublings = math.log2(most.accelerators / least.accelerators)
            gain = min(2.0, max(1.0, (slow / fast) ** (1 / doublings)))
            ends.append((slow * gain ** math.log2(least.accelerators / n), math.inf))
        low, high = sorted((max(low for low, _ in ends), min(high for _, high in ends)))
        return low, high

    def constant_share(self, seconds: float, batch: float) -> float:
        """Returns the share of t0 in a step of `batch` showers that takes `seconds`; without a line, at most."""
        if self.line is None:
            paper = paper_step_time()
            return paper.most_constant / (paper.most_constant + paper.per_shower * batch)
        return max(0.0, 1 - self.line.per_shower * batch / seconds)


@functools.lru_cache(maxsize=256)
def _over_the_fastest(repeats: tuple[float, ...]) -> Interval:
    """Returns the mean of the healthy runs with the 90 % interval of one more, over the fastest."""
    fastest, tail = min(repeats), (1 - COVERAGE) / 2
    ratios = [one / fastest for one in repeats]
    found = repeat_distribution(ratios)
    healthy = [math.log(one) for one in ratios if one <= SLOW_FROM]
    middle = math.exp(math.fsum(healthy) / len(healthy))
    low, high = found.quantile(tail), found.quantile(1 - tail)
    return Interval(middle, min(middle, low), max(middle, high))


def fastest_runs(runs: Iterable[MeasuredThroughput]) -> tuple[MeasuredThroughput, ...]:
    """Returns the fastest of the repeats of each size and batch."""
    found: dict[tuple[str, int, int], MeasuredThroughput] = {}
    for run in sorted(runs, key=lambda run: -run.step_seconds):
        found[run.accelerator, run.accelerators, run.batch] = run
    return tuple(found.values())


@functools.lru_cache(maxsize=32)
def _fitted(runs: tuple[MeasuredThroughput, ...]) -> _AcceleratorRuns:
    """Fits the runs of one accelerator; plans of one deployment need the same fit again."""
    lines = (
        fit_step_time(
            (run.batch, run.step_seconds) for run in fastest_runs(runs) if run.accelerators == n
        )
        for n in sorted({run.accelerators for run in runs})
    )
    reference = max(
        (run.batch for run in runs),
        key=lambda batch: len({run.accelerators for run in runs if run.batch == batch}),
    )
    timings = [
        Timing(run.accelerators, run.epoch_seconds, steps=max(1, round(run.steps)))
        for run in runs
        if run.batch == reference
    ]
    scaling = None
    if len({timing.n for timing in timings}) >= MIN_SIZES:
        with contextlib.suppress(DataError):  # bounds are used
            scaling = fit_scaling(timings)
    return _AcceleratorRuns(runs, next(filter(None, lines), None), reference, scaling)


class Work(NamedTuple):
    """Bounds of a network's work on a shower, over that of the paper's network.

    A step is bound partly by its products and partly by the values that it moves, so its time lies between the
    two ratios (roofline model: Williams, Waterman, Patterson, doi 10.1145/1498765.1498785).
    """

    least: float
    most: float

    def describe(self) -> str:
        """Returns the bounds in words."""
        return (
            f"{self.least:.2g} to {self.most:.2g} times the work of the paper's network on a shower"
        )


def work_of(preset: Preset) -> Work:
    """Returns the work of a network on a shower over that of the paper's, counted from their layers."""
    paper = _products_and_values(find_preset("paper"))
    ratios = [own / its for own, its in zip(_products_and_values(preset), paper, strict=True)]
    return Work(min(ratios), max(ratios))


@functools.lru_cache(maxsize=32)
def _products_and_values(preset: Preset) -> tuple[int, int]:
    """Products of a step on a shower, and values kept for its backward pass, in the form that GPUs compute."""
    kept = kept_for_backward(preset, "published")
    return sum(step_macs(preset, "published").values()), sum(kept.values())


@dataclass(frozen=True)
class ThroughputModel:
    """Epoch times of one network by accelerator, number of accelerators and batch.

    Attributes:
        network: For example ``paper``.
        drops_last: Whether an epoch drops the showers that fill no batch, as the paper's did.
        work: Bounds of its work on a shower, over that of the measured network; None: that was measured.
    """

    network: str
    showers: int
    drops_last: bool
    work: Work | None
    _own: Mapping[str, _AcceleratorRuns]
    _found: dict[tuple[str, int, float], EpochEstimate | None] = field(default_factory=dict)

    def epoch(self, accelerator: str, n: int, batch: float) -> EpochEstimate | None:
        """Returns the time on `n` accelerators with `batch` showers per replica and step.

        Returns:
            None if unknown, see `why_unknown`.
        """
        key = (accelerator, n, batch)
        if key not in self._found:
            own = None if self.work else self._own.get(accelerator)
            self._found[key] = (
                own.epoch(n, batch, self.showers, self._steps) if own else self._bounds(*key)
            )
        return self._found[key]

    def why_unknown(self, accelerator: str) -> str:
        """Returns why `epoch` is None, in words."""
        if not self._own:
            return f"no run of the network {self.network!r} was measured on any accelerator"
        known = ", ".join(sorted(load_accelerator_specs()))
        return f"{accelerator} was not measured, and no data sheet of it is known. Known: {known}"

    @property
    def measured(self) -> tuple[MeasuredThroughput, ...]:
        """The measured runs of this network; none if the model stands on runs of another one."""
        found = () if self.work else self._own.values()
        return tuple(run for own in found for run in own.runs)

    def _steps(self, accelerator: str, n: int, batch: float) -> float:
        """Returns the steps of an epoch, on average if the next epoch fills its last batch."""
        steps = self.showers / (batch * n * CORES_PER_CHIP.get(accelerator, 1))
        return max(1.0, math.floor(steps)) if self.drops_last else steps

    def _bounds(self, accelerator: str, n: int, batch: float) -> EpochEstimate | None:
        """Returns bounds from the measured accelerator that gives the narrowest ones.

        GPUs are compared with GPUs and TPUs with TPUs if possible: compilers reach different
        shares of the peak performance.
        """
        known = load_accelerator_specs()
        specs = data_sheets(accelerator)
        bases = sorted(name for name in self._own if name in known)
        if not specs or not bases:
            return None
        alike = [one for one in bases if one.startswith("TPU") == accelerator.startswith("TPU")]
        usable = alike or bases
        ratios = {base: speed_bounds(known[base], *specs.values()) for base in usable}
        base = min(ratios, key=lambda base: ratios[base][1] / ratios[base][0])
        (slow, fast), work = ratios[base], self.work or Work(1.0, 1.0)
        # The same showers on each chip: a chip of the base may have more replicas.
        batch *= CORES_PER_CHIP.get(accelerator, 1) / CORES_PER_CHIP.get(base, 1)
        there = self._own[base].epoch(n, batch, self.showers, self._steps)
        # Of an epoch, what a faster accelerator may not shorten.
        step = there.high_seconds / self._steps(base, n, batch)
        fixed = self._own[base].constant_share(step, batch)
        reasons = [f"not measured: {self.work.describe()}"] if self.work else []
        if base != accelerator:
            named = "" if accelerator in specs else f"{' or '.join(sorted(specs))}: "
            ratio = f"{named}{slow:.3g} to {fast:.3g} times {base}"
            reasons.append(f"{ratio} by memory bandwidth and arithmetic peak")
        # With a part of the work an accelerator is as one that is so much faster.
        least, most = work.least / fast, work.most / slow
        return there._replace(
            seconds=None,
            low_seconds=there.low_seconds * min((1 - fixed) * least + fixed, least),
            high_seconds=there.high_seconds * max((1 - fixed) * most + fixed, most),
            grade=MODELLED,
            basis="; ".join((*reasons, there.basis)),
            between_seconds=there.between_seconds * work.most,
        )


def build_throughput_model(
    network: str,
    showers: int,
    runs: Iterable[MeasuredThroughput],
    *,
    drops_last: bool = False,
    work: Work | None = None,
) -> ThroughputModel:
    """Returns the throughput model of one network.

    Args:
        showers: Showers of the epoch to estimate.
        runs: Measured runs of this network, or of one that `work` compares it with.
        drops_last: Whether an epoch drops the showers that fill no batch.
        work: Of this network over that of the runs; None: the same.
    """
    by_accelerator: dict[str, list[MeasuredThroughput]] = {}
    for run in runs:
        by_accelerator.setdefault(run.accelerator, []).append(run)
    own = {name: _fitted(tuple(its)) for name, its in by_accelerator.items()}
    return ThroughputModel(network, showers, drops_last, work, own)
