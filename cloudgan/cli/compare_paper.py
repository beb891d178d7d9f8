"""`cloudgan compare --paper`: the runs of arXiv:2111.04628 at prices of then and now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.output import show_json
from cloudgan.cli.report_file import write_report_file
from cloudgan.cli.table_view import show_table
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.replay import FED, Replay, replay
from cloudgan.cost.scaling import fit_scaling
from cloudgan.cost.timings import Timing
from cloudgan.reports.page import Page, Paragraph, Section, Table
from cloudgan.reports.plots import Axis, BandLine, BandPlot, Point, PointSeries, Scatter

if TYPE_CHECKING:
    from cloudgan.cost.replay import ReplayedRun

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
_BATCH = 96


def compare_paper(report: str | None, *, as_json: bool) -> None:
    """Shows the replay, and writes it to the file `report` if there is one."""
    replayed = replay(load_catalog())
    if report:
        write_report_file(paper_page(replayed), Path(report))
    if as_json:
        show_json(replayed.model_dump(mode="json"))
        return
    print(replayed.statement)
    print(f"Basis: {replayed.basis}.")
    show_table(paper_table(replayed))
    show_table(findings_table(replayed))


def paper_table(replayed: Replay) -> Table:
    """The paper's runs: times, both efficiencies, costs."""
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
                run.scaling.speed_up,
                run.scaling.time_efficiency,
                run.scaling.sample_efficiency,
                run.scaling.end_to_end_time_efficiency,
                *(run.usd_per_epoch[name] for name in _PRICES),
                run.date,
            )
            for run in sorted(replayed.runs, key=lambda run: (run.accelerator, run.accelerators))
        ),
        "Speed-up and efficiencies are over the smallest run with the same accelerator, batch and"
        " input. Costs: the steady time of an epoch times whole nodes.",
        interactive=True,
    )


def findings_table(replayed: Replay) -> Table:
    """What the paper compared."""
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
    """The replay as a page."""
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
                    Point(run.steady_epoch_seconds, usd, run.name, _told(run))
                    for run in replayed.runs
                    if run.accelerator == kind
                    and (usd := run.usd_per_epoch["preemptible_2021"]) is not None
                ),
            )
            for kind in kinds
        ),
        caption="Left is faster, below is cheaper. V100 that wait for their input cost more for"
        " the same epoch.",
    )


def _told(run: ReplayedRun) -> str:
    costs = (f"{name.replace('_', ' ')}: {run.usd_per_epoch[name]}" for name in _PRICES)
    return f"{run.steady_epoch_seconds:.4g} s per epoch\n" + "\n".join(costs)


def _scaling_plot(replayed: Replay) -> BandPlot:
    runs = [
        run
        for run in replayed.runs
        if run.accelerator == "V100"
        and run.options == FED
        and run.batch_per_replica == _BATCH
        and run.workers == run.nodes
    ]
    fitted = fit_scaling(
        [
            Timing(run.accelerators, run.steady_epoch_seconds)
            for run in runs
            if run.accelerators in _FITTED_GPUS
        ]
    )
    known = [fitted.predict(n) for n in _SIZES]
    points = tuple(
        Point(run.accelerators, run.steady_epoch_seconds, run.name, _told(run)) for run in runs
    )
    line = BandLine(
        "A/n + C + B log2 n",
        tuple(map(float, _SIZES)),
        tuple(one.seconds for one in known),
        tuple(one.low_seconds for one in known),
        tuple(one.high_seconds for one in known),
    )
    return BandPlot(
        "Time of an epoch on V100, fitted to 2 to 16 of them",
        Axis("GPUs", log=True, ticks=tuple(map(float, _SIZES))),
        Axis("time of an epoch (s)", log=True),
        (PointSeries("measured, one worker a node", points),),
        (line,),
        band_label="90 % band",
        extrapolated_from=float(max(_FITTED_GPUS)),
        caption="Runs on 32, 64 and 128 GPUs were not fitted: they show how well the curve foretells.",
    )
