"""Compares runs, and replays the runs of the paper: the use cases of `cloudgan compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.api.cost import price
from cloudgan.api.run import open_run
from cloudgan.core.durations import duration_text
from cloudgan.cost.accounting.comparison import RunSummary, summarize
from cloudgan.cost.estimation.measured_runs import PAPER_SHOWERS
from cloudgan.cost.estimation.scaling import EpochSteps, fit_scaling
from cloudgan.cost.estimation.step_time import PAPER_BATCH
from cloudgan.cost.estimation.timings import Timing
from cloudgan.cost.paper.replay import Replay, ReplayedRun, replay, scaling_runs
from cloudgan.cost.prices.catalog import load_catalog
from cloudgan.reports.page import Bullets, Page, Paragraph, Section
from cloudgan.reports.plot_frame import Axis
from cloudgan.reports.result import Result, View
from cloudgan.reports.scatter import BandLine, BandPlot, Point, PointSeries, Scatter
from cloudgan.reports.table import Number, Table, usd_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cloudgan.api.run import Run

_PRICES = ("on_demand_2021", "preemptible_2021", "on_demand", "spot")
_HEADS = (
    "GPUs or chips",
    "of",
    "nodes",
    "workers",
    "batch",
    "input",
    "s/epoch",
    "showers/s",
    "speed-up",
    "efficiency, time",
    "samples",
    "end to end",
    "USD/epoch 2020/21",
    "preemptible 2020/21",
    "on demand now",
    "spot now",
    "day",
)
_FITTED_GPUS = (2, 4, 8, 16)
_SIZES = (2, 4, 8, 16, 32, 64, 128)
_RUN_HEADS = (
    "run",
    "on",
    "strategy",
    "loop",
    "replicas",
    "global batch",
    "epochs",
    "s/epoch",
    "first epoch s",
    "showers/s",
    "program s",
    "cost",
)


class Comparison(Result):
    """Runs side by side."""

    runs: tuple[RunSummary, ...]

    def view(self) -> View:
        """Returns a row per run; the basis has machines, batches and unknown parts of the cost."""
        rows = tuple(
            (
                one.run,
                one.epochs,
                _time(one.steady_epoch_seconds),
                one.showers_per_second,
                _time(one.program_seconds),
                _usd(one),
            )
            for one in self.runs
        )
        heads = ("run", "epochs", "time/epoch", "showers/s", "whole run", "USD")
        is_part = any(one.unknown and one.known_usd for one in self.runs)
        notes = ("USD: known part; -v names the unknown ones",) if is_part else ()
        return View(
            line=f"{len(self.runs)} run{'' if len(self.runs) == 1 else 's'} side by side",
            table=Table(heads, rows, align="lrrrrr"),
            notes=(*notes, *(f"recommendation for {one}" for one in self.recommendations())),
            basis=(self.table(),),
        )

    def recommendations(self) -> tuple[str, ...]:
        """Returns what would save money, run by run."""
        return tuple(
            f"{one.run}: {each.describe()}" for one in self.runs for each in one.recommendations
        )

    def table(self) -> Table:
        """Returns a row per run."""
        return Table(
            _RUN_HEADS,
            tuple(
                (
                    one.run,
                    one.measured_on,
                    one.strategy,
                    one.loop,
                    one.replicas,
                    one.global_batch_size,
                    one.epochs,
                    one.steady_epoch_seconds,
                    one.first_epoch_seconds,
                    one.showers_per_second,
                    one.program_seconds,
                    one.total,
                )
                for one in self.runs
            ),
            "s/epoch: median of the complete epochs after the first. Program: process start to end.",
            interactive=True,
            priority="035643207120",
        )

    def page(self) -> Page:
        """Returns the table and the recommendations as a page."""
        sections = [Section("Runs", (self.table(),))]
        if advice := self.recommendations():
            sections.append(Section("Recommendations", (Bullets(advice),)))
        return Page(f"{len(self.runs)} runs side by side", sections=tuple(sections))


def _time(seconds: float | None) -> Number:
    return Number(seconds, "" if seconds is None else duration_text(seconds))


def _usd(one: RunSummary) -> Number:
    is_known = not one.unknown or one.known_usd > 0
    return Number(one.known_usd, usd_text(one.known_usd)) if is_known else Number(None, "")


def compare(runs: Sequence[Run | str | Path], *, price_as: str | None = None) -> Comparison:
    """Compares speed and cost of runs.

    Args:
        runs: Runs, or their folders.
        price_as: Offer that prices runs on your own machine; see `cost`.

    Raises:
        DataError: A folder holds no record.
        UnknownNameError: No offer has this name.
    """
    opened = [open_run(run) for run in runs]
    records = [run.record for run in opened]
    configs = [run.folder.read_config() for run in opened]
    networks = [config.model.network_name if config else None for config in configs]
    return Comparison(
        runs=tuple(
            summarize(
                own,
                price(run.folder, offer=price_as).report,
                # Runs of the same network can recommend a larger batch.
                [other for other, name in zip(records, networks, strict=True) if name == network],
            )
            for run, own, network in zip(opened, records, networks, strict=True)
        )
    )


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
        rows = tuple(
            (
                f"{run.accelerators} {run.accelerator}",
                f"{run.batch_per_replica} {_input(run)}",
                run.steady_epoch_seconds,
                run.scaling.speed_up if run.scaling else "",
                run.usd_per_epoch["on_demand_2021"],
                run.usd_per_epoch["spot"],
            )
            for _, run in sorted(fastest.items())
        )
        heads = ("on", "batch, input", "s/epoch", "speed-up", "USD 2020/21", "spot now")
        statement, *rest = self.replay.statement.split(". ")
        return View(
            line=statement,
            table=Table(heads, rows, align="llrrrr"),
            notes=(
                *rest,
                "USD of an epoch: on demand in 2020/21, and spot nodes now",
                f"-v shows all {len(self.replay.runs)} runs, their efficiencies and the comparisons",
            ),
            basis=(
                f"Basis: {self.replay.basis}.",
                *paper_screens(self.replay),
                findings_table(self.replay),
            ),
        )


def _ranked(replayed: Replay) -> list[ReplayedRun]:
    return sorted(replayed.runs, key=lambda run: (run.accelerator, run.accelerators))


def replay_paper() -> PaperComparison:
    """Returns the runs of arXiv:2111.04628 at the prices of 2020/21 and of today."""
    return PaperComparison(replay=replay(load_catalog()))


def paper_table(replayed: Replay) -> Table:
    """Returns the paper's runs: times, efficiencies, costs."""
    return Table(
        _HEADS,
        tuple(
            (
                run.accelerators,
                run.accelerator,
                f"{run.nodes} x {run.node_type}",
                run.workers or "",
                run.batch_per_replica,
                run.options,
                run.steady_epoch_seconds,
                run.showers_per_second,
                *_efficiencies(run),
                *(run.usd_per_epoch[name] for name in _PRICES),
                run.date,
            )
            for run in _ranked(replayed)
        ),
        "Speed-up and efficiencies are over the smallest run with fewer accelerators and the same"
        " batch and input. Costs: the steady time of an epoch times whole nodes.",
        interactive=True,
    )


def paper_screens(replayed: Replay) -> tuple[Table, Table]:
    """Returns times and costs of the paper's runs as two tables for a terminal of 120 columns."""
    runs = _ranked(replayed)
    times = Table(
        (
            "on",
            "nodes",
            "workers",
            "batch",
            "input",
            "s/epoch",
            "showers/s",
            "speed-up",
            "time",
            "samples",
            "end to end",
        ),
        tuple(
            (
                f"{run.accelerators} {run.accelerator}",
                f"{run.nodes} x {run.accelerators // run.nodes}",
                run.workers or "",
                run.batch_per_replica,
                _input(run),
                run.steady_epoch_seconds,
                run.showers_per_second,
                *_efficiencies(run),
            )
            for run in runs
        ),
        "Time, samples, end to end: efficiencies. They and the speed-up are over the smallest run with"
        " fewer accelerators and the same batch and input.",
    )
    costs = Table(
        ("on", "nodes", "input", "2020/21", "preempt.", "now", "spot", "day"),
        tuple(
            (
                f"{run.accelerators} {run.accelerator}",
                f"{run.nodes} x {run.node_type}",
                f"{run.batch_per_replica} {_input(run)}",
                *(run.usd_per_epoch[name] for name in _PRICES),
                run.date,
            )
            for run in runs
        ),
        "USD per epoch: the steady time of an epoch times whole nodes, on demand and preemptible in"
        " 2020/21, on demand and spot now.",
    )
    return times, costs


def _input(run: ReplayedRun) -> str:
    """Returns how the input is read, without the market of the run's nodes."""
    return run.options.partition(";")[0].removeprefix("no-prefetch+")


def _efficiencies(run: ReplayedRun) -> tuple[float | str, ...]:
    found = run.scaling
    if found is None:
        return ("",) * 4
    return (
        found.speed_up,
        found.time_efficiency,
        found.sample_efficiency,
        found.end_to_end_time_efficiency,
    )


def findings_table(replayed: Replay) -> Table:
    """Returns the comparisons of the paper."""
    found = (
        *replayed.prefetch,
        *replayed.layouts,
        *replayed.batches,
        *replayed.tpu_against_gpu,
    )
    return Table(
        ("comparison", "time", "preemptible cost 2020/21", "spot cost now"),
        tuple((one.title, one.seconds_ratio, one.usd_ratio_2021, one.usd_ratio) for one in found),
        "Ratios of the second over the first: above 1 the first is faster, or cheaper.",
    )


def paper_page(replayed: Replay) -> Page:
    """Returns the replay as a page."""
    return Page(
        "The paper, replayed",
        replayed.statement,
        (
            Section("Time and cost of an epoch", (_cost_plot(replayed),)),
            Section("Scaling", (_scaling_plot(replayed),)),
            Section("Runs", (Paragraph(f"Basis: {replayed.basis}."), paper_table(replayed))),
            Section("Findings", (findings_table(replayed),)),
            Section("Source", (Paragraph(replayed.source),)),
        ),
    )


def _cost_plot(replayed: Replay) -> Scatter:
    kinds = sorted({run.accelerator for run in replayed.runs})
    return Scatter(
        "An epoch on each of the paper's machines, at preemptible prices of 2020/21",
        Axis("time of an epoch (s)", log=True),
        Axis("cost of an epoch (USD)", log=True),
        tuple(
            PointSeries(
                kind,
                tuple(
                    Point(run.steady_epoch_seconds, usd, run.name, _tooltip(run))
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


def _tooltip(run: ReplayedRun) -> str:
    costs = (f"{name.replace('_', ' ')}: {run.usd_per_epoch[name]}" for name in _PRICES)
    return f"{run.steady_epoch_seconds:.4g} s per epoch\n" + "\n".join(costs)


def _scaling_plot(replayed: Replay) -> BandPlot:
    runs = scaling_runs(replayed)
    fitted = fit_scaling(
        [
            Timing(run.accelerators, run.steady_epoch_seconds)
            for run in runs
            if run.accelerators in _FITTED_GPUS
        ],
        EpochSteps(PAPER_SHOWERS, PAPER_BATCH),
    )
    known = [fitted.predict(n) for n in _SIZES]
    points = tuple(
        Point(run.accelerators, run.steady_epoch_seconds, run.name, _tooltip(run)) for run in runs
    )
    line = BandLine(
        "model",
        tuple(map(float, _SIZES)),
        tuple(one.seconds for one in known),
        tuple(one.low_seconds for one in known),
        tuple(one.high_seconds for one in known),
    )
    return BandPlot(
        "Time of an epoch on V100, fitted to 2 to 16 GPUs",
        Axis("GPUs", log=True, ticks=tuple(map(float, _SIZES))),
        Axis("time of an epoch (s)", log=True),
        (PointSeries("measured, one worker a node", points),),
        (line,),
        band_label="90 % band",
        extrapolated_from=float(max(_FITTED_GPUS)),
        caption="Runs on 32, 64 and 128 GPUs were not fitted: they test the extrapolation.",
    )
