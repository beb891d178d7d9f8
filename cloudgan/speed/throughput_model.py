"""Throughput of a network on accelerators, from measured runs, and the price of an epoch.

Two grades: measured (this number of this accelerator, within the measured batches) and modelled (curve
through measured sizes, batches beyond the measured ones, or bounds from another accelerator by the ratio
of peak performance). Without a run of the same network the time is unknown.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.schema.price_row import PriceRow
from cloudgan.speed.accelerator_specs import AcceleratorSpec, load_accelerator_specs, speed_bounds
from cloudgan.speed.measured_runs import CORES_PER_CHIP, MeasuredThroughput
from cloudgan.speed.scaling import (
    COVERAGE,
    MIN_SIZES,
    ScalingModel,
    fit_scaling,
    repeat_distribution,
)
from cloudgan.speed.scaling_posterior import SLOW_FROM
from cloudgan.speed.step_time import (
    ConvertedStep,
    StepTime,
    constant_share,
    convert_step,
    fit_step_time,
)
from cloudgan.speed.timings import Timing

MODELLED: Final = "modelled"
Grade = Literal["measured", "modelled"]


class EpochEstimate(NamedTuple):
    """Estimated time of an epoch, in seconds.

    Attributes:
        seconds: Expected; None if only bounds are known.
        low_seconds: Lower bound.
        high_seconds: Upper bound, used for ranking.
        grade: Kind of evidence.
        basis: Evidence in words.
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


@dataclass(frozen=True)
class _AcceleratorRuns:
    """The runs on one accelerator.

    Attributes:
        runs: Of any number of accelerators and batch.
        line: Step time by batch on this accelerator; None: too few batches were measured.
        reference: The batch that `scaling` describes.
        scaling: Epoch time by number of accelerators; None: too few were measured.
    """

    runs: tuple[MeasuredThroughput, ...]
    line: StepTime | None
    reference: int
    scaling: ScalingModel | None

    def epoch(self, n: int, batch: float, epoch: _Epoch) -> EpochEstimate:
        """Estimates an epoch on `n` accelerators with `batch` showers per replica."""
        near = min(self.runs, key=lambda run: _distance(run, n, batch))
        scale = epoch.showers / near.showers
        extra = (near.between_seconds * scale, near.first_more_seconds)
        if near.accelerators == n:
            step = convert_step(near.step_seconds, near.batch, batch, self.line)
            step = self._spread(step, near)
            grade: Grade = "measured" if self._is_measured(batch) else MODELLED
            basis = near.name + self._conversion(near.batch, batch)
            return _estimate(step, epoch.steps(near.accelerator, n, batch), grade, basis, extra)
        if self.scaling is not None:
            return self._on_curve(near.accelerator, n, batch, epoch, extra)
        low, high = self._between(n, batch, epoch)
        return EpochEstimate(None, low, high, MODELLED, self._gains(batch), *extra)

    def _spread(self, step: ConvertedStep, near: MeasuredThroughput) -> ConvertedStep:
        """Returns the fastest step of a measured size with the interval that holds one more run of it.

        A curve through other sizes tells a slow run from a healthy one, where there is no repeat.
        """
        of = (near.accelerators, near.batch)
        repeats = [one.step_seconds for one in self.runs if (one.accelerators, one.batch) == of]
        low, middle, high = _interval(tuple(repeats))
        if self.scaling is not None:
            curve = self.scaling.predict(near.accelerators, max(1, round(near.steps)))
            low = min(1.0, middle * curve.low_seconds / curve.seconds)
            high = max(middle, middle * curve.high_seconds / curve.seconds)
        return ConvertedStep(step.seconds * middle, step.low * low, step.high * high)

    def _on_curve(
        self, name: str, n: int, batch: float, epoch: _Epoch, extra: tuple[float, float]
    ) -> EpochEstimate:
        assert self.scaling is not None  # noqa: S101  checked by the caller
        there = epoch.steps(name, n, self.reference)
        found = self.scaling.predict(n, there)
        seconds = found.seconds / there
        step = convert_step(seconds, self.reference, batch, self.line)
        spread = (found.low_seconds / there - seconds, found.high_seconds / there - seconds)
        step = step._replace(
            low=max(step.low + spread[0], step.low * found.low_seconds / found.seconds),
            high=step.high + spread[1],
        )
        sizes = ", ".join(str(size.n) for size in self.scaling.regime(n).sizes)
        basis = f"curve through {sizes} x {name}, {found.extrapolation}"
        basis += self._conversion(self.reference, batch)
        return _estimate(step, epoch.steps(name, n, batch), MODELLED, basis, extra)

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

    def _between(self, n: int, batch: float, epoch: _Epoch) -> tuple[float, float]:
        """Bounds from each run, where all of them agree.

        More accelerators: between linear speed-up and none. Fewer: a step takes at most as long, and
        is shorter at most by its constant part; an epoch takes at least as long. Efficiency falls with size (Amdahl, doi
        10.1145/1465482.1465560): below the measured sizes, a doubling gains at least as much as one
        between the smallest and the largest measured size.
        """
        ends = []
        for run in fastest_runs(self.runs):
            step = convert_step(run.step_seconds, run.batch, batch, self.line)
            step = self._spread(step, run)
            steps = epoch.steps(run.accelerator, n, batch)
            if n >= run.accelerators:
                ends.append((step.low * steps, step.high * steps * n / run.accelerators))
            else:
                work = 1 - constant_share(step.low, batch, self.line)
                there = epoch.steps(run.accelerator, run.accelerators, batch)
                ends.append((step.low * max(work * steps, there), step.high * steps))
        ends += self._gained(n, batch, epoch)
        low, high = sorted((max(low for low, _ in ends), min(high for _, high in ends)))
        return low, high

    def _gained(self, n: int, batch: float, epoch: _Epoch) -> list[tuple[float, float]]:
        """The bound by the gain of a doubling; none between or above the measured sizes."""
        fastest = fastest_runs(self.runs)
        least, most = (pick(fastest, key=lambda run: run.accelerators) for pick in (min, max))
        if not n < least.accelerators < most.accelerators:
            return []
        slow, fast = (
            convert_step(run.step_seconds, run.batch, batch, self.line).low
            * epoch.steps(run.accelerator, run.accelerators, batch)
            for run in (least, most)
        )
        doublings = math.log2(most.accelerators / least.accelerators)
        gain = min(2.0, max(1.0, (slow / fast) ** (1 / doublings)))
        return [(slow * gain ** math.log2(least.accelerators / n), math.inf)]

    def _gains(self, batch: float) -> str:
        sizes = ", ".join(dict.fromkeys(str(run.accelerators) for run in self.runs))
        near = min(self.runs, key=lambda run: abs(math.log(run.batch / batch)))
        return (
            f"size not measured: between no speed-up and linear speed-up from {sizes} x"
            f" {self.runs[0].accelerator}{self._conversion(near.batch, batch)}"
        )

    def fixed_share(self, there: EpochEstimate, steps: float, batch: float) -> float:
        """Returns the share of an epoch that faster accelerators may not shorten."""
        return constant_share(there.high_seconds / steps, batch, self.line)


@functools.lru_cache(maxsize=256)
def _interval(repeats: tuple[float, ...]) -> tuple[float, float, float]:
    """Returns the 90 % interval of one more run, with the mean of the healthy ones, over the fastest."""
    fastest, tail = min(repeats), (1 - COVERAGE) / 2
    ratios = [one / fastest for one in repeats]
    found = repeat_distribution(ratios)
    healthy = [math.log(one) for one in ratios if one <= SLOW_FROM]
    middle = math.exp(math.fsum(healthy) / len(healthy))
    return min(middle, found.quantile(tail)), middle, max(middle, found.quantile(1 - tail))


class _Epoch(NamedTuple):
    """The epoch to estimate."""

    showers: int
    drops_last: bool

    def steps(self, accelerator: str, n: int, batch: float) -> float:
        """Returns the steps of an epoch, on average if the next epoch fills its last batch."""
        steps = self.showers / (batch * n * CORES_PER_CHIP.get(accelerator, 1))
        return max(1.0, math.floor(steps)) if self.drops_last else steps


def fastest_runs(runs: Iterable[MeasuredThroughput]) -> tuple[MeasuredThroughput, ...]:
    """Returns the fastest of the repeats of each size and batch."""
    found: dict[tuple[str, int, int], MeasuredThroughput] = {}
    for run in sorted(runs, key=lambda run: -run.step_seconds):
        found[run.accelerator, run.accelerators, run.batch] = run
    return tuple(found.values())


def _distance(run: MeasuredThroughput, n: int, batch: float) -> tuple[float, float, float]:
    return (
        abs(math.log(run.accelerators / n)),
        abs(math.log(run.batch / batch)),
        run.step_seconds,
    )


def _estimate(
    step: ConvertedStep, steps: float, grade: Grade, basis: str, extra: tuple[float, float]
) -> EpochEstimate:
    seconds, low, high = (steps * each for each in step)
    return EpochEstimate(seconds, low, high, grade, basis, *extra)


@dataclass(frozen=True)
class ThroughputModel:
    """Epoch times of one network by accelerator, number of accelerators and batch.

    Attributes:
        network: For example ``paper``; the model uses only runs of this network.
        showers: Showers of the epoch to estimate.
        drops_last: Whether an epoch drops the showers that fill no batch, as the paper's did.
    """

    network: str
    showers: int
    drops_last: bool
    _own: Mapping[str, _AcceleratorRuns]
    _peaks: Mapping[str, AcceleratorSpec]
    _found: dict[tuple[str, int, float], EpochEstimate | None] = field(default_factory=dict)

    def epoch(self, accelerator: str, n: int, batch: float) -> EpochEstimate | None:
        """Returns the time on `n` accelerators with `batch` showers per replica and step.

        Returns:
            None if unknown, see `why_unknown`.
        """
        key = (accelerator, n, batch)
        if key not in self._found:
            own, epoch = self._own.get(accelerator), _Epoch(self.showers, self.drops_last)
            self._found[key] = (
                own.epoch(n, batch, epoch) if own else self._bounds(accelerator, n, batch, epoch)
            )
        return self._found[key]

    def why_unknown(self, accelerator: str) -> str:
        """Returns why `epoch` is None, in words."""
        if not self._own:
            return f"no run of the network {self.network!r} was measured on any accelerator"
        return f"{accelerator} was not measured, and its peak performance is not in the table"

    @property
    def measured(self) -> tuple[MeasuredThroughput, ...]:
        """All measured runs of the model."""
        return tuple(run for own in self._own.values() for run in own.runs)

    def _bounds(
        self, accelerator: str, n: int, batch: float, epoch: _Epoch
    ) -> EpochEstimate | None:
        """Returns bounds from the measured accelerator that gives the narrowest ones.

        GPUs are compared with GPUs and TPUs with TPUs if possible: compilers reach different
        shares of the peak performance.
        """
        peak = self._peaks.get(accelerator)
        bases = sorted(name for name in self._own if name in self._peaks)
        if peak is None or not bases:
            return None
        bases = [base for base in bases if _is_tpu(base) == _is_tpu(accelerator)] or bases
        ratios = {base: speed_bounds(self._peaks[base], peak) for base in bases}
        base = min(bases, key=lambda base: ratios[base][1] / ratios[base][0])
        # The same showers on each chip: a chip of the base may have more replicas.
        batch *= CORES_PER_CHIP.get(accelerator, 1) / CORES_PER_CHIP.get(base, 1)
        return self._bound(base, ratios[base], n, batch, epoch)

    def _bound(
        self, base: str, ratios: tuple[float, float], n: int, batch: float, epoch: _Epoch
    ) -> EpochEstimate:
        there = self._own[base].epoch(n, batch, epoch)
        fixed = self._own[base].fixed_share(there, epoch.steps(base, n, batch), batch)
        slow, fast = ratios
        basis = (
            f"{slow:.3g} to {fast:.3g} times {base} by memory bandwidth and"
            f" arithmetic peak; {there.basis}"
        )
        return EpochEstimate(
            None,
            there.low_seconds * min((1 - fixed) / fast + fixed, 1 / fast),
            there.high_seconds * max((1 - fixed) / slow + fixed, 1 / slow),
            MODELLED,
            basis,
            there.between_seconds,
            there.first_more_seconds,
        )


def build_throughput_model(
    network: str,
    showers: int,
    runs: Iterable[MeasuredThroughput],
    accelerator_specs: Mapping[str, AcceleratorSpec] | None = None,
    *,
    drops_last: bool = False,
) -> ThroughputModel:
    """Returns the throughput model of one network.

    Args:
        network: Network of these runs.
        showers: Showers of the epoch to estimate.
        runs: Measured runs of this network.
        accelerator_specs: By accelerator; default: those of the package.
        drops_last: Whether an epoch drops the showers that fill no batch.
    """
    by_accelerator: dict[str, list[MeasuredThroughput]] = {}
    for run in runs:
        by_accelerator.setdefault(run.accelerator, []).append(run)
    return ThroughputModel(
        network,
        showers,
        drops_last,
        {name: _accelerator_runs(tuple(its)) for name, its in by_accelerator.items()},
        load_accelerator_specs() if accelerator_specs is None else accelerator_specs,
    )


@functools.lru_cache(maxsize=32)
def _accelerator_runs(runs: tuple[MeasuredThroughput, ...]) -> _AcceleratorRuns:
    """Returns the model of one accelerator; plans of one deployment need the same one again."""
    sizes = {run.accelerators for run in runs}
    lines = (
        fit_step_time(
            (run.batch, run.step_seconds) for run in fastest_runs(runs) if run.accelerators == n
        )
        for n in sorted(sizes)
    )
    line = next((found for found in lines if found), None)
    reference = max(
        (run.batch for run in runs),
        key=lambda batch: len({run.accelerators for run in runs if run.batch == batch}),
    )
    of_reference = [run for run in runs if run.batch == reference]
    return _AcceleratorRuns(runs, line, reference, _scaling(of_reference))


def _scaling(runs: list[MeasuredThroughput]) -> ScalingModel | None:
    if len({run.accelerators for run in runs}) < MIN_SIZES:
        return None
    timings = [
        Timing(run.accelerators, run.epoch_seconds, steps=max(1, round(run.steps))) for run in runs
    ]
    try:
        return fit_scaling(timings)
    except DataError:
        return None  # use bounds


def _is_tpu(accelerator: str) -> bool:
    return accelerator.startswith("TPU")


_ROUNDING = 1e-9
NODE_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


class PricedEpoch(NamedTuple):
    """Time and cost of an epoch on an offer; None is unknown, with the reason in `why_unknown`.

    Attributes:
        row: Price of one node.
        nodes: Nodes needed.
        batch: Showers per replica and step.
        epoch: Time of the epoch.
        usd: Expected cost; None also if only bounds are known.
        usd_low: Lower bound.
        usd_high: Upper bound.
        why_unknown: Reason, or "".
    """

    row: PriceRow
    nodes: int | None
    batch: float
    epoch: EpochEstimate | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    why_unknown: str = ""


def node_counts(row: PriceRow) -> tuple[int, ...]:
    """Returns the possible numbers of nodes: a TPU slice trains alone."""
    return (1,) if row.accelerator.startswith("TPU") else NODE_COUNTS


def price_epoch(
    row: PriceRow, nodes: int, throughput: ThroughputModel, batch: float
) -> PricedEpoch:
    """Returns the cost of an epoch on a number of nodes with `batch` showers per replica."""
    if row.accelerator_count == 0:
        return _unknown(row, nodes, batch, "the node has no accelerator, and no CPU was measured")
    epoch = throughput.epoch(row.accelerator, nodes * row.accelerator_count, batch)
    if epoch is None:
        return _unknown(row, nodes, batch, throughput.why_unknown(row.accelerator))
    return PricedEpoch(
        row,
        nodes,
        batch,
        epoch,
        row.cost_usd(epoch.seconds, nodes),
        row.cost_usd(epoch.low_seconds, nodes),
        row.cost_usd(epoch.high_seconds, nodes),
    )


def price_epochs(
    rows: Iterable[PriceRow],
    throughput: ThroughputModel,
    batch: float,
    within_seconds: float | None = None,
) -> tuple[PricedEpoch, ...]:
    """Returns the cost of an epoch on each offer, in their order.

    Args:
        rows: Offers.
        throughput: Throughput model of the network.
        batch: Showers per replica and step.
        within_seconds: Time of an epoch to reach; each offer gets the fewest nodes that are expected to,
            or whose upper bound does, where only bounds are known. None: one node.
    """
    return tuple(_priced(row, throughput, batch, within_seconds) for row in rows)


def _priced(
    row: PriceRow, throughput: ThroughputModel, batch: float, within_seconds: float | None
) -> PricedEpoch:
    last = price_epoch(row, 1, throughput, batch)
    if within_seconds is None:
        return last
    counts = node_counts(row)
    for nodes in counts:
        last = price_epoch(row, nodes, throughput, batch)
        if last.epoch is None:
            return last
        expected = last.epoch.seconds or last.epoch.high_seconds
        if expected <= within_seconds * (1 + _ROUNDING):
            return last
    most = f"{counts[-1]} of these nodes" if len(counts) > 1 else "this slice"
    why = f"{most} may need up to {last.epoch.high_seconds:.4g} s" if last.epoch else ""
    return _unknown(row, None, batch, f"{why}, more than {within_seconds:.4g} s")


def _unknown(row: PriceRow, nodes: int | None, batch: float, why: str) -> PricedEpoch:
    return PricedEpoch(row, nodes, batch, None, None, None, None, why)
