"""The runs of arXiv:2111.04628 at the prices of 2020/21 and of today: `cloudgan compare --paper`."""

from __future__ import annotations

from typing import Any

from cloudgan.money.catalog import load_catalog
from cloudgan.money.paper_replay import Replay, ReplayedRun, replay, scaling_runs
from cloudgan.reports.charts import Axis, Plot, Point, PointSeries
from cloudgan.reports.page import Page, Paragraph, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table
from cloudgan.speed.measured import PAPER_BATCH, PAPER_SHOWERS
from cloudgan.speed.scaling import EpochSteps, Timing, fit_scaling, prediction_line

_PRICES = {
    "on_demand_2021": "2020/21",
    "preemptible_2021": "preempt.",
    "on_demand": "now",
    "spot": "spot",
}
_FITTED_GPUS = (2, 4, 8, 16)
_SIZES = (2, 4, 8, 16, 32, 64, 128)


class PaperComparison(Result):
    """The runs of arXiv:2111.04628 at the prices of 2020/21 and of today."""

    replay: Replay

    def as_json(self) -> dict[str, Any]:
        """Returns the runs and the comparisons of the paper."""
        return {"schema_version": self.schema_version, **self.replay.model_dump(mode="json")}

    def view(self) -> View:
        """Returns the fastest run of each size; the basis has all runs with their efficiencies."""
        slowest_first = sorted(self.replay.runs, key=lambda run: -run.steady_epoch_seconds)
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
        statement, *rest = self.replay.statement.split(". ")
        return View(
            line=statement,
            table=table,
            notes=(
                *rest,
                "USD of an epoch: on demand in 2020/21, and spot nodes now",
                f"-v shows all {len(self.replay.runs)} runs, their efficiencies and the comparisons",
            ),
            basis=(
                f"Basis: {self.replay.basis}.",
                *_tables(self.replay),
                _findings_table(self.replay),
            ),
        )

    def page(self) -> Page:
        """Returns the page of `--report`."""
        return Page(
            "The paper, replayed",
            self.replay.statement,
            (
                Section("Time and cost of an epoch", (_cost_plot(self.replay),)),
                Section("Scaling", (_scaling_plot(self.replay),)),
                Section("Runs", (Paragraph(f"Basis: {self.replay.basis}."), *_tables(self.replay))),
                Section("Findings", (_findings_table(self.replay),)),
                Section("Source", (Paragraph(self.replay.source),)),
            ),
        )


def replay_paper() -> PaperComparison:
    """Returns the runs of arXiv:2111.04628 at the prices of 2020/21 and of today."""
    return PaperComparison(replay=replay(load_catalog()))


def _tables(replayed: Replay) -> tuple[Table, Table]:
    """Returns times and costs of the paper's runs as two tables for a terminal of 120 columns."""
    runs = sorted(replayed.runs, key=lambda run: (run.accelerator, run.accelerators))
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
                **{head: run.usd_per_epoch[name] for name, head in _PRICES.items()},
                "day": run.date,
            }
            for run in runs
        ),
        "USD per epoch: the steady time of an epoch times whole nodes, on demand and preemptible in"
        " 2020/21, on demand and spot now.",
    )
    return times, costs


def _input(run: ReplayedRun) -> str:
    """Returns how the input is read, without the market of the run's nodes."""
    return run.options.partition(";")[0].removeprefix("no-prefetch+")


def _findings_table(replayed: Replay) -> Table:
    """Returns the comparisons of the paper."""
    found = (
        *replayed.prefetch,
        *replayed.layouts,
        *replayed.batches,
        *replayed.tpu_against_gpu,
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


def _cost_plot(replayed: Replay) -> Plot:
    kinds = sorted({run.accelerator for run in replayed.runs})
    return Plot(
        "An epoch on each of the paper's machines, at preemptible prices of 2020/21",
        Axis("time of an epoch (s)", log=True),
        Axis("cost of an epoch (USD)", log=True),
        tuple(
            PointSeries(
                kind,
                tuple(
                    Point(run.steady_epoch_seconds, usd, run.name, _detail(run))
                    for run in replayed.runs
                    if run.accelerator == kind
                    and (usd := run.usd_per_epoch["preemptible_2021"]) is not None
                ),
            )
            for kind in kinds
        ),
        caption="Left is faster, below is cheaper. A V100 that waits for its input costs more for the"
        " same epoch.",
    )


def _detail(run: ReplayedRun) -> str:
    costs = (f"{name.replace('_', ' ')}: {run.usd_per_epoch[name]}" for name in _PRICES)
    return f"{run.steady_epoch_seconds:.4g} s per epoch\n" + "\n".join(costs)


def _scaling_plot(replayed: Replay) -> Plot:
    runs = scaling_runs(replayed.runs)
    fitted = fit_scaling(
        [
            Timing(run.accelerators, run.steady_epoch_seconds)
            for run in runs
            if run.accelerators in _FITTED_GPUS
        ],
        EpochSteps(PAPER_SHOWERS, PAPER_BATCH),
    )
    points = tuple(
        Point(run.accelerators, run.steady_epoch_seconds, run.name, _detail(run)) for run in runs
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
