"""Throughput of a network on accelerators, from measured runs, and the price of an epoch.

Three grades: measured at this size; curve through measured sizes; bounds from another accelerator
by the ratio of peak performance (not measured). Without a run of the same network the time is unknown.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.cost.estimation.scaling import MIN_SIZES, fit_scaling
from cloudgan.cost.estimation.timings import Timing
from cloudgan.cost.paper.runs import headline_runs, paper_runs
from cloudgan.cost.prices.accelerator_specs import (
    load_accelerator_specs,
    name_of_device,
    speed_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cloudgan.cost.estimation.scaling import ScalingModel
    from cloudgan.cost.prices.accelerator_specs import AcceleratorSpec
    from cloudgan.schema.price_row import PriceRow
    from cloudgan.schema.record import RunRecord

NOT_MEASURED: Final = "not measured"
Grade = Literal["measured", "curve of measured runs", "not measured"]


class MeasuredThroughput(NamedTuple):
    """A run on known accelerators; times in seconds.

    Attributes:
        accelerator: Name in the price catalog.
        accelerators: GPUs, or TPU chips.
        showers: Per epoch, with those that a last batch drops, as in the paper.
        epoch_seconds: Steady epoch, training only.
        between_seconds: Validation, checkpoints and gaps per epoch.
        first_more_seconds: Extra training time of the first epoch.
        name: Display name of the run.
    """

    accelerator: str
    accelerators: int
    showers: int
    epoch_seconds: float
    between_seconds: float
    first_more_seconds: float
    name: str


class EpochEstimate(NamedTuple):
    """Estimated time of an epoch, in seconds.

    Attributes:
        seconds: Expected; None if this accelerator was not measured.
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
    """The runs on one accelerator."""

    runs: tuple[MeasuredThroughput, ...]
    showers: int
    scaling: ScalingModel | None

    def time(self, n: int) -> EpochEstimate:
        near = min(self.runs, key=lambda run: (abs(math.log(run.accelerators / n)), _epoch(run)))
        scale = self.showers / near.showers
        extra = (near.between_seconds * scale, near.first_more_seconds)
        if near.accelerators == n:
            seconds = near.epoch_seconds * scale
            return EpochEstimate(seconds, seconds, seconds, "measured", near.name, *extra)
        if self.scaling is not None:
            found = self.scaling.predict(n)
            sizes = ", ".join(str(size.n) for size in self.scaling.regime(n).sizes)
            basis = f"curve through {sizes} x {near.accelerator}, {found.extrapolation}"
            times = (found.seconds, found.low_seconds, found.high_seconds)
            return EpochEstimate(*times, "curve of measured runs", basis, *extra)
        return EpochEstimate(None, *self._between(n), NOT_MEASURED, self._gains(), *extra)

    def _between(self, n: int) -> tuple[float, float]:
        """From each run to `n`: at best in proportion, at worst no gain; where all of them agree."""
        ends = []
        for run in self.runs:
            same = run.epoch_seconds * self.showers / run.showers
            ends.append(sorted((same, same * run.accelerators / n)))
        low, high = sorted((max(low for low, _ in ends), min(high for _, high in ends)))
        return low, high

    def _gains(self) -> str:
        sizes = ", ".join(str(run.accelerators) for run in self.runs)
        return (
            f"size not measured: between no speed-up and linear speed-up from {sizes} x"
            f" {self.runs[0].accelerator}"
        )

    def fixed_share(self, n: int) -> float:
        """Returns the share of an epoch that faster accelerators may not shorten."""
        if self.scaling is None:
            return 0.0
        curve = self.scaling.regime(n).curve
        return curve.rest_seconds(n) / curve.seconds(n)


@dataclass(frozen=True)
class ThroughputModel:
    """Epoch times of one network by accelerator and number of accelerators.

    Attributes:
        network: For example ``paper``; the model uses only runs of this network.
        showers: Showers of the epoch to estimate.
    """

    network: str
    showers: int
    _own: Mapping[str, _AcceleratorRuns]
    _peaks: Mapping[str, AcceleratorSpec]
    _found: dict[tuple[str, int], EpochEstimate | None] = field(default_factory=dict)

    def epoch(self, accelerator: str, n: int) -> EpochEstimate | None:
        """Returns the time on `n` accelerators; None if unknown, see `why_unknown`."""
        key = (accelerator, n)
        if key not in self._found:
            own = self._own.get(accelerator)
            self._found[key] = own.time(n) if own else self._bounds(accelerator, n)
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

    def _bounds(self, accelerator: str, n: int) -> EpochEstimate | None:
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
        nearest = min(bases, key=lambda base: ratios[base][1] / ratios[base][0])
        return self._bound(nearest, ratios[nearest], n)

    def _bound(self, base: str, ratios: tuple[float, float], n: int) -> EpochEstimate:
        there, fixed = self._own[base].time(n), self._own[base].fixed_share(n)
        slow, fast = ratios
        basis = (
            f"{slow:.3g} to {fast:.3g} times {base} by memory bandwidth and"
            f" arithmetic peak; {there.basis}"
        )
        return EpochEstimate(
            None,
            there.low_seconds * min((1 - fixed) / fast + fixed, 1 / fast),
            there.high_seconds * max((1 - fixed) / slow + fixed, 1 / slow),
            NOT_MEASURED,
            basis,
            there.between_seconds,
            there.first_more_seconds,
        )


def build_throughput_model(
    network: str,
    showers: int,
    runs: Iterable[MeasuredThroughput],
    accelerator_specs: Mapping[str, AcceleratorSpec] | None = None,
) -> ThroughputModel:
    """Returns the throughput model of one network.

    Args:
        network: Network of these runs.
        showers: Showers of the epoch to estimate; times scale in proportion.
        runs: Measured runs of this network.
        accelerator_specs: By accelerator; default: those of the package.
    """
    by_accelerator: dict[str, list[MeasuredThroughput]] = {}
    for run in runs:
        by_accelerator.setdefault(run.accelerator, []).append(run)
    own = {
        name: _AcceleratorRuns(tuple(its), showers, _scaling(its, showers))
        for name, its in by_accelerator.items()
    }
    return ThroughputModel(
        network,
        showers,
        own,
        load_accelerator_specs() if accelerator_specs is None else accelerator_specs,
    )


def _scaling(runs: list[MeasuredThroughput], showers: int) -> ScalingModel | None:
    sizes = {run.accelerators for run in runs}
    if len(sizes) < MIN_SIZES:
        return None
    timings = [Timing(run.accelerators, _epoch(run) * showers) for run in runs]
    try:
        return fit_scaling(timings)
    except DataError:
        return None  # use bounds


def _is_tpu(accelerator: str) -> bool:
    return accelerator.startswith("TPU")


def _epoch(run: MeasuredThroughput) -> float:
    """Returns seconds per shower, to compare runs with different epochs."""
    return run.epoch_seconds / run.showers


NODE_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


class PricedEpoch(NamedTuple):
    """Time and cost of an epoch on an offer; None is unknown, with the reason in `why_unknown`.

    Attributes:
        row: Price of one node.
        nodes: Nodes needed.
        epoch: Time of the epoch.
        usd: Expected cost; None also if only bounds are known.
        usd_low: Lower bound.
        usd_high: Upper bound.
        why_unknown: Reason, or "".
    """

    row: PriceRow
    nodes: int | None
    epoch: EpochEstimate | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    why_unknown: str = ""


def node_counts(row: PriceRow) -> tuple[int, ...]:
    """Returns the possible numbers of nodes: a TPU slice trains alone."""
    return (1,) if row.accelerator.startswith("TPU") else NODE_COUNTS


def price_epoch(row: PriceRow, nodes: int, throughput: ThroughputModel) -> PricedEpoch:
    """Returns the cost of an epoch on a number of nodes."""
    if row.accelerator_count == 0:
        return _unknown(row, nodes, "the node has no accelerator, and no CPU was measured")
    epoch = throughput.epoch(row.accelerator, nodes * row.accelerator_count)
    if epoch is None:
        return _unknown(row, nodes, throughput.why_unknown(row.accelerator))
    return PricedEpoch(
        row,
        nodes,
        epoch,
        row.cost_usd(epoch.seconds, nodes),
        row.cost_usd(epoch.low_seconds, nodes),
        row.cost_usd(epoch.high_seconds, nodes),
    )


def price_epochs(
    rows: Iterable[PriceRow], throughput: ThroughputModel, within_seconds: float | None = None
) -> tuple[PricedEpoch, ...]:
    """Returns the cost of an epoch on each offer, in their order.

    Args:
        rows: Offers.
        throughput: Throughput model of the network.
        within_seconds: Time limit of an epoch; each offer gets the fewest nodes whose upper bound
            meets it. None: one node.
    """
    return tuple(_priced(row, throughput, within_seconds) for row in rows)


def _priced(
    row: PriceRow, throughput: ThroughputModel, within_seconds: float | None
) -> PricedEpoch:
    last = price_epoch(row, 1, throughput)
    if within_seconds is None:
        return last
    counts = node_counts(row)
    for nodes in counts:
        last = price_epoch(row, nodes, throughput)
        if last.epoch is None or last.epoch.high_seconds <= within_seconds:
            return last
    most = f"{counts[-1]} of these nodes" if len(counts) > 1 else "this slice"
    why = f"{most} may need up to {last.epoch.high_seconds:.4g} s" if last.epoch else ""
    return _unknown(row, None, f"{why}, more than {within_seconds:.4g} s")


def _unknown(row: PriceRow, nodes: int | None, why: str) -> PricedEpoch:
    return PricedEpoch(row, nodes, None, None, None, None, why)


PAPER_NETWORK = "paper"
PAPER_SHOWERS = 124_987
PAPER_BATCH = 96
"""Per V100 in the paper's main runs; a TPU core had 128."""
CORES_PER_CHIP = {"TPU-v2": 2, "TPU-v3": 2}
"""Replicas per chip; other accelerators have one."""


def paper_measurements() -> tuple[MeasuredThroughput, ...]:
    """Returns the paper's fastest run with prefetching on each number of V100, TPU v2 and TPU v3.

    Only V100 runs with 96 showers per replica: the batch size changes the throughput.
    """
    runs = [run for run in paper_runs() if run.batch_per_replica in (PAPER_BATCH, 128)]
    return tuple(
        MeasuredThroughput(
            run.accelerator,
            run.accelerators,
            PAPER_SHOWERS,
            run.steady_epoch_seconds,
            run.wall_epoch_seconds - run.steady_epoch_seconds,
            run.first_epoch_seconds - run.steady_epoch_seconds,
            f"paper's run on {run.accelerators} x {run.accelerator}, {run.date}",
        )
        for run in headline_runs(runs)
    )


def runs_of_network(
    name: str, record: RunRecord, network: str | None
) -> tuple[tuple[MeasuredThroughput, ...], str]:
    """Returns the measured runs of a run's network, and why the run itself is not one of them.

    Args:
        name: Name of the run.
        record: Its record.
        network: For example ``paper``, the network of the paper's runs; None: unknown.
    """
    own = measured_run(name, record)
    paper = paper_measurements() if network == PAPER_NETWORK else ()
    return (paper, own) if isinstance(own, str) else ((own, *paper), "")


def measured_run(name: str, record: RunRecord) -> MeasuredThroughput | str:
    """Returns a record as a measurement, or the reason why it cannot be used."""
    started, epochs = record.started(), record.epochs()
    steady = record.steady_epoch_seconds()
    if started is None or steady is None:
        return f"{name} has no complete epoch after the first"
    accelerator = name_of_device(started.numerics.device, load_accelerator_specs())
    if accelerator is None:
        return f"{name} ran on {started.hardware.describe()}, which no cloud offers"
    count = started.numerics.replicas
    cores = CORES_PER_CHIP.get(accelerator, 1)
    steady_epochs = [epoch for epoch in epochs if epoch.complete and not epoch.first]
    first = record.first_epoch_seconds()
    return MeasuredThroughput(
        accelerator,
        max(1, count // cores),
        started.training_showers,
        steady,
        statistics.median(e.validation_seconds + e.checkpoint_seconds for e in steady_epochs),
        max(0.0, (first or steady) - steady),
        f"{name} on {count // cores or 1} x {accelerator}",
    )
