"""Replay of the paper: its runs with recomputed costs, and the comparisons that it drew.

All numbers follow from the published run times and dated prices; cloudgan measured none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.money.catalog import Catalog
from cloudgan.reports.charts import Axis, Plot, Point, PointSeries
from cloudgan.reports.page import Page, Paragraph, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table
from cloudgan.schema.price_row import Market, PriceRow, Snapshot, Text
from cloudgan.speed.measured import PAPER_BATCH, PAPER_SHOWERS, PaperRun, paper_runs
from cloudgan.speed.scaling import EpochSteps, Timing, fit_scaling, prediction_line

SOURCE = "run logs behind arXiv:2111.04628 (doi 10.1051/epjconf/202125102073), December 2020"
BASIS = (
    "recomputed from the published run times: steady epoch x whole nodes of 8 cores per GPU,"
    " us-central1 if offered there, TPU without a user's VM"
)
_HOME = "us-central1"
_PRICES: dict[str, tuple[str, Snapshot, Market]] = {
    "on_demand_2021": ("2020/21", "2021", "on_demand"),
    "preemptible_2021": ("preempt.", "2021", "spot"),
    "on_demand": ("now", "current", "on_demand"),
    "spot": ("spot", "current", "spot"),
}
"""Head of a column, snapshot and market of each price."""
_FITTED_GPUS = (2, 4, 8, 16)
_SIZES = (2, 4, 8, 16, 32, 64, 128)


def _row(run: PaperRun, price: str, catalog: Catalog) -> PriceRow | None:
    """Returns the row of us-central1; else the one of highest confidence, then lowest price; None: unknown."""
    _, snapshot, market = _PRICES[price]
    rows = (
        row
        for row in catalog.rows
        if (row.provider, row.node_type) == ("gcp", run.node_type)
        and (row.market, row.snapshot) == (market, snapshot)
    )
    return min(
        rows,
        key=lambda row: (row.region != _HOME, row.confidence, row.usd_per_hour, row.row_id),
        default=None,
    )


RECOMPUTED = (
    "Recomputed from the published run times of arXiv:2111.04628 and dated prices; the paper's own"
    " costs were not available for comparison."
)
PREFETCH, NO_PREFETCH = "prefetch", "no-prefetch"
_LAYOUT_GPUS = 32
_MANY_GPUS = {"accelerator": "V100", "accelerators": _LAYOUT_GPUS, "options": PREFETCH}
_ONE_HOST_GPUS = 8
_Run = TypeVar("_Run", bound=PaperRun)
_JOB_EPOCHS = 60


class ScalingEfficiency(Document):
    """Efficiency of a run relative to the smallest run of its kind, on fewer accelerators.

    Time and sample efficiency differ: a dropped remainder means that larger global batches see fewer
    showers. End to end includes tests and gaps.
    """

    baseline: Text = Field(description="run with the fewest accelerators of this kind and batch")
    speed_up: float = Field(gt=0, description="of the steady training time of an epoch")
    time_efficiency: float = Field(gt=0, description="speed-up over the ratio of accelerators")
    sample_efficiency: float = Field(gt=0, description="showers/s per accelerator, as a ratio")
    end_to_end_time_efficiency: float = Field(gt=0, description="of the wall time of an epoch")
    end_to_end_sample_efficiency: float = Field(gt=0, description="per shower")


class ReplayedRun(PaperRun):
    """One run of the paper: measured times, recomputed costs."""

    name: Text
    showers_per_second: float = Field(gt=0, description="in steady training")
    showers_per_second_per_accelerator: float = Field(gt=0)
    scaling: ScalingEfficiency | None = Field(
        description="null: no run of this kind and batch on fewer accelerators"
    )
    usd_per_epoch: dict[str, float | None]
    usd_per_60_epochs: dict[str, float | None] = Field(
        description="60 epochs with first epoch, tests and gaps, as measured"
    )
    price_rows: dict[str, str | None]


class RunComparison(Document):
    """Two runs and their ratios of time and cost."""

    title: Text
    run: Text
    baseline: Text
    seconds_ratio: float = Field(gt=0, description="epoch of `baseline` over epoch of `run`")
    usd_ratio_2021: float | None = Field(description="ratio of preemptible cost of 2020/21")
    usd_ratio: float | None = Field(description="ratio of current spot cost")


class Replay(Result):
    """The runs of arXiv:2111.04628 at the prices of 2020/21 and of today, and their comparisons."""

    statement: Text = RECOMPUTED
    source: Text = SOURCE
    basis: Text = BASIS
    runs: tuple[ReplayedRun, ...]
    prefetch: tuple[RunComparison, ...] = Field(description="with and without prefetching")
    layouts: tuple[RunComparison, ...] = Field(description="32 GPUs on different nodes and workers")
    batches: tuple[RunComparison, ...] = Field(description="32 GPUs, batch 96 against smaller ones")
    tpu_against_gpu: tuple[RunComparison, ...] = Field(description="one TPU device against 8 V100")

    def view(self) -> View:
        """Returns the fastest run of each size; the basis has all runs with their efficiencies."""
        slowest_first = sorted(self.runs, key=lambda run: -run.steady_epoch_seconds)
        fastest = {(run.accelerator, run.accelerators): run for run in slowest_first}
        table = Table.of(
            (
                {
                    "on": f"{run.accelerators} {run.accelerator}",
                    "batch, input": f"{run.batch_per_replica} {_input(run)}",
                    "s/epoch": run.steady_epoch_seconds,
                    "speed-up": run.scaling.speed_up if run.scaling else "",
                    "USD 2020/21": run.usd_per_epoch["on_demand_2021"],
                    "spot now": run.usd_per_epoch["spot"],
                }
                for _, run in sorted(fastest.items())
            ),
            align="llrrrr",
        )
        statement, *rest = self.statement.split(". ")
        return View(
            line=statement,
            table=table,
            notes=(
                *rest,
                "USD of an epoch: on demand in 2020/21, and spot nodes now",
                "speed-up: over the smallest run with this batch and input, which -v shows",
                f"-v shows all {len(self.runs)} runs, their efficiencies and the comparisons",
            ),
            basis=(
                f"Basis: {self.basis}.",
                *self._tables(),
                self._findings(),
            ),
        )

    def page(self) -> Page:
        """Returns the page of `--report`."""
        return Page(
            "The paper, replayed",
            self.statement,
            (
                Section("Time and cost of an epoch", (self._cost_plot(),)),
                Section("Scaling", (self._scaling_plot(),)),
                Section("Runs", (Paragraph(f"Basis: {self.basis}."), *self._tables())),
                Section("Findings", (self._findings(),)),
                Section("Source", (Paragraph(self.source),)),
            ),
        )

    def _tables(self) -> tuple[Table, Table]:
        """Returns times and costs of the paper's runs as two tables for a terminal of 120 columns."""
        runs = sorted(self.runs, key=lambda run: (run.accelerator, run.accelerators))
        times = Table.of(
            (
                {
                    "on": f"{run.accelerators} {run.accelerator}",
                    "nodes": f"{run.nodes} x {run.accelerators // run.nodes}",
                    "workers": run.workers or "",
                    "batch": run.batch_per_replica,
                    "input": _input(run),
                    "s/epoch": run.steady_epoch_seconds,
                    "showers/s": run.showers_per_second,
                    "speed-up": run.scaling.speed_up if run.scaling else "",
                    "time": run.scaling.time_efficiency if run.scaling else "",
                    "samples": run.scaling.sample_efficiency if run.scaling else "",
                    "end to end": run.scaling.end_to_end_time_efficiency if run.scaling else "",
                }
                for run in runs
            ),
            "Time, samples, end to end: efficiencies. They and the speed-up are over the smallest run with"
            " fewer accelerators and the same batch and input.",
        )
        costs = Table.of(
            (
                {
                    "on": f"{run.accelerators} {run.accelerator}",
                    "nodes": f"{run.nodes} x {run.node_type}",
                    "input": f"{run.batch_per_replica} {_input(run)}",
                    **{head: run.usd_per_epoch[name] for name, (head, *_) in _PRICES.items()},
                    "day": run.date,
                }
                for run in runs
            ),
            "USD per epoch: the steady time of an epoch times whole nodes, on demand and preemptible in"
            " 2020/21, on demand and spot now.",
        )
        return times, costs

    def _findings(self) -> Table:
        """Returns the comparisons of the paper."""
        found = (
            *self.prefetch,
            *self.layouts,
            *self.batches,
            *self.tpu_against_gpu,
        )
        return Table.of(
            (
                {
                    "comparison": one.title,
                    "time": one.seconds_ratio,
                    "preemptible cost 2020/21": one.usd_ratio_2021,
                    "spot cost now": one.usd_ratio,
                }
                for one in found
            ),
            "Ratios of the second over the first: above 1 the first is faster, or cheaper.",
        )

    def _cost_plot(self) -> Plot:
        kinds = sorted({run.accelerator for run in self.runs})
        return Plot(
            "An epoch on each of the paper's machines, at preemptible prices of 2020/21",
            Axis("time of an epoch (s)", log=True),
            Axis("cost of an epoch (USD)", log=True),
            tuple(
                PointSeries(
                    kind,
                    tuple(
                        Point(run.steady_epoch_seconds, usd, run.name, _detail(run))
                        for run in self.runs
                        if run.accelerator == kind
                        and (usd := run.usd_per_epoch["preemptible_2021"]) is not None
                    ),
                )
                for kind in kinds
            ),
            caption="Left is faster, below is cheaper. A V100 that waits for its input costs more for the"
            " same epoch.",
        )

    def _scaling_plot(self) -> Plot:
        runs = scaling_runs(self.runs)
        fitted = fit_scaling(
            [
                Timing(run.accelerators, run.steady_epoch_seconds)
                for run in runs
                if run.accelerators in _FITTED_GPUS
            ],
            EpochSteps(PAPER_SHOWERS, PAPER_BATCH),
        )
        points = tuple(
            Point(run.accelerators, run.steady_epoch_seconds, run.name, _detail(run))
            for run in runs
        )
        return Plot(
            "Time of an epoch on V100, fitted to 2 to 16 GPUs",
            Axis("GPUs", log=True, ticks=tuple(map(float, _SIZES))),
            Axis("time of an epoch (s)", log=True),
            (PointSeries("measured, one worker a node", points),),
            (prediction_line({n: fitted.predict(n) for n in _SIZES}),),
            band_label="90 % band",
            extrapolated_from=float(max(_FITTED_GPUS)),
            caption="Runs on 32, 64 and 128 GPUs were not fitted: they test the extrapolation.",
        )


def _input(run: ReplayedRun) -> str:
    """Returns how the input is read, without the market of the run's nodes."""
    return run.options.partition(";")[0].removeprefix("no-prefetch+")


def _detail(run: ReplayedRun) -> str:
    costs = (f"{name.replace('_', ' ')}: {run.usd_per_epoch[name]}" for name in _PRICES)
    return f"{run.steady_epoch_seconds:.4g} s per epoch\n" + "\n".join(costs)


def replay(catalog: Catalog) -> Replay:
    """Prices the paper's runs at prices of 2020/21 and of today, and compares them."""
    replayed = replayed_runs(catalog)
    return Replay(
        runs=replayed,
        prefetch=_compared(_prefetch(replayed)),
        layouts=_compared(_layouts(replayed)),
        batches=_compared(_batches(replayed)),
        tpu_against_gpu=_compared(_tpu_against_gpu(replayed)),
    )


def scaling_runs(replayed: Sequence[ReplayedRun]) -> tuple[ReplayedRun, ...]:
    """Returns the runs on V100 with prefetching, batch 96 and a worker per node, by size."""
    runs = _of(replayed, accelerator="V100", options=PREFETCH, batch_per_replica=PAPER_BATCH)
    return tuple(
        sorted((run for run in runs if run.workers == run.nodes), key=lambda run: run.accelerators)
    )


def replayed_runs(catalog: Catalog) -> tuple[ReplayedRun, ...]:
    """Prices an epoch of the paper's runs, at 2020/21 and at current prices."""
    return tuple(_replayed(run, catalog) for run in paper_runs())


def _replayed(run: PaperRun, catalog: Catalog) -> ReplayedRun:
    rate = run.showers_per_epoch / run.steady_epoch_seconds
    job_epochs = run.first_epoch_seconds + (_JOB_EPOCHS - 1) * run.wall_epoch_seconds
    steady = run.steady_epoch_seconds
    rows = {name: _row(run, name, catalog) for name in _PRICES}
    usd = {name: row.cost_usd(steady, run.nodes) if row else None for name, row in rows.items()}
    return ReplayedRun(
        name=run.title,
        **dict(run),
        showers_per_second=rate,
        showers_per_second_per_accelerator=rate / run.accelerators,
        scaling=_scaling(run),
        usd_per_epoch=usd,
        usd_per_60_epochs={
            name: None if each is None else each / steady * job_epochs for name, each in usd.items()
        },
        price_rows={name: row.row_id if row else None for name, row in rows.items()},
    )


def _scaling(run: PaperRun) -> ScalingEfficiency | None:
    """Compares a run with the smallest one on fewer accelerators of the same kind, batch and options."""
    same = {name: getattr(run, name) for name in ("accelerator", "batch_per_replica", "options")}
    smaller = [
        other for other in _of(paper_runs(), **same) if other.accelerators < run.accelerators
    ]
    if not smaller:
        return None
    base = min(smaller, key=lambda other: (other.accelerators, other.steady_epoch_seconds))
    size = run.accelerators / base.accelerators
    samples = run.showers_per_epoch / base.showers_per_epoch
    speed_up = base.steady_epoch_seconds / run.steady_epoch_seconds
    wall = base.wall_epoch_seconds / run.wall_epoch_seconds
    return ScalingEfficiency(
        baseline=base.title,
        speed_up=speed_up,
        time_efficiency=speed_up / size,
        sample_efficiency=speed_up * samples / size,
        end_to_end_time_efficiency=wall / size,
        end_to_end_sample_efficiency=wall * samples / size,
    )


_Pairs = Iterator[tuple[str, ReplayedRun, ReplayedRun]]
"""Title, run and baseline of comparisons."""


def _prefetch(runs: Sequence[ReplayedRun]) -> _Pairs:
    for without in sorted(_of(runs, options=NO_PREFETCH), key=lambda run: run.accelerators):
        same = {
            name: getattr(without, name)
            for name in ("accelerator", "accelerators", "nodes", "workers", "batch_per_replica")
        }
        # Prefer a similar number of epochs: longer runs are from another day.
        alike = sorted(
            _of(runs, options=PREFETCH, **same), key=lambda run: abs(run.epochs - without.epochs)
        )
        for fastest in alike[:1]:
            title = f"{fastest.accelerators} GPUs: {PREFETCH} against {NO_PREFETCH}"
            yield title, fastest, without


def _layouts(runs: Sequence[ReplayedRun]) -> _Pairs:
    alike = _of(runs, **_MANY_GPUS, batch_per_replica=PAPER_BATCH)
    ranked = sorted(alike, key=lambda run: run.steady_epoch_seconds)
    for run in ranked[1:]:
        title = f"{_LAYOUT_GPUS} GPUs: {_layout(ranked[0])} against {_layout(run)}"
        yield title, ranked[0], run


def _layout(run: ReplayedRun) -> str:
    return f"{run.nodes} nodes x {run.accelerators // run.nodes}, {run.workers} workers"


def _batches(runs: Sequence[ReplayedRun]) -> _Pairs:
    alike = [run for run in _of(runs, **_MANY_GPUS, nodes=4) if run.workers == run.nodes]
    full = [run for run in alike if run.batch_per_replica == PAPER_BATCH]
    others = [run for run in alike if run.batch_per_replica != PAPER_BATCH]
    for run in sorted(others, key=lambda run: -run.batch_per_replica):
        sizes = f"batch {PAPER_BATCH} against {run.batch_per_replica}"
        if full:
            yield f"{_LAYOUT_GPUS} GPUs: {sizes}, {run.date}", full[0], run


def _tpu_against_gpu(runs: Sequence[ReplayedRun]) -> _Pairs:
    gpus = _of(runs, accelerator="V100", accelerators=_ONE_HOST_GPUS, options=PREFETCH)
    tpus = _of(runs, nodes=1, replicas=_ONE_HOST_GPUS)
    for tpu in sorted(tpus, key=lambda run: run.steady_epoch_seconds):
        if tpu.accelerator.startswith("TPU") and gpus:
            yield f"one {tpu.accelerator} device against 8 V100", tpu, gpus[0]


def _of(runs: Sequence[_Run], **values: object) -> list[_Run]:
    return [
        run for run in runs if all(getattr(run, name) == value for name, value in values.items())
    ]


def _compared(pairs: _Pairs) -> tuple[RunComparison, ...]:
    return tuple(
        RunComparison(
            title=title,
            run=run.name,
            baseline=baseline.name,
            seconds_ratio=baseline.steady_epoch_seconds / run.steady_epoch_seconds,
            usd_ratio_2021=_ratio(baseline, run, "preemptible_2021"),
            usd_ratio=_ratio(baseline, run, "spot"),
        )
        for title, run, baseline in pairs
    )


def _ratio(above: ReplayedRun, below: ReplayedRun, price: str) -> float | None:
    one, other = above.usd_per_epoch[price], below.usd_per_epoch[price]
    return None if one is None or other is None else one / other
