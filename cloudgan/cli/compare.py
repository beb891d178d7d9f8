"""`cloudgan compare`: runs side by side, or those of the paper."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.output import show_json
from cloudgan.cli.pricing import price
from cloudgan.cli.report_file import check_report, write_report_file
from cloudgan.cli.table_view import show_table
from cloudgan.core import record
from cloudgan.core.errors import ConfigError
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.side_by_side import RunSummary, summarise
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.cost.replay import Comparison, Replay
    from cloudgan.reports.page import Page, Table


def compare(
    runs: str | None = None,
    *,
    paper: bool = False,
    as_: str | None = None,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Shows runs side by side, or the paper's own at prices of then and now.

    Args:
        runs: Folders of runs: a comma list or a quoted glob, such as 'runs/*'.
        paper: The runs of arXiv:2111.04628 instead, recomputed from their published times.
        as_: Price runs of machines that nobody bills as this node (see `cloudgan offers`).
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
    if bool(runs) == paper:
        raise ConfigError("compare what? Give folders of runs, such as 'runs/*', or --paper")
    check_report(report)
    if paper:
        _compare_paper(report, as_json=json)
        return
    summaries = [_summary(folder, as_) for folder in _folders(runs or "")]
    table = runs_table(summaries)
    if report:
        from cloudgan.reports.page import Page, Section

        title = f"{len(summaries)} runs side by side"
        write_report_file(Page(title, sections=(Section("Runs", (table,)),)), Path(report))
    if json:
        show_json({"runs": [one.model_dump(mode="json") for one in summaries]})
    else:
        show_table(table)


def _folders(named: str) -> list[RunFolder]:
    paths: list[str] = []
    for part in named.split(","):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        paths += [path for path in found if part == path or RunFolder(path).record_file.exists()]
    if not paths:
        raise ConfigError(f"{named}: no folder there holds a run (no record.jsonl)")
    return [RunFolder(path) for path in dict.fromkeys(paths)]


def _summary(folder: RunFolder, offer: str | None) -> RunSummary:
    return summarise(record.read(folder.record_file), price(folder, offer=offer).report)


def runs_table(runs: Sequence[RunSummary]) -> Table:
    """The runs as one table."""
    from cloudgan.reports.page import Table

    return Table(
        (
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
        ),
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
            for one in runs
        ),
        "s/epoch: median of the complete epochs after the first. Program: process start to end.",
        interactive=True,
    )


def _compare_paper(report: str | None, *, as_json: bool) -> None:
    from cloudgan.cost.replay import replay

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
    from cloudgan.reports.page import Table

    return Table(
        (
            "run",
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
        ),
        tuple(
            (
                run.name,
                run.steady_epoch_seconds,
                run.showers_per_second,
                run.scaling.speed_up,
                run.scaling.time_efficiency,
                run.scaling.sample_efficiency,
                run.scaling.end_to_end_time_efficiency,
                *(run.usd_per_epoch[name] for name in _PRICES),
            )
            for run in sorted(replayed.runs, key=lambda run: (run.accelerator, run.accelerators))
        ),
        "Speed-up and efficiencies are over the smallest run with the same accelerator, batch and"
        " input. Costs: the steady time of an epoch times whole nodes.",
        interactive=True,
    )


def findings_table(replayed: Replay) -> Table:
    """What the paper compared."""
    from cloudgan.reports.page import Table

    found: list[Comparison] = [
        *replayed.prefetch,
        *replayed.layouts,
        *replayed.batches,
        *replayed.tpu_against_gpu,
    ]
    return Table(
        (
            "comparison",
            "epoch time, ratio",
            "preemptible cost 2020/21, ratio",
            "spot cost now, ratio",
        ),
        tuple((one.title, one.seconds_ratio, one.usd_ratio_2021, one.usd_ratio) for one in found),
        "Each ratio is the second over the first: above 1 the first is faster, or cheaper.",
    )


_PRICES = ("on_demand_2021", "preemptible_2021", "on_demand", "spot")


def paper_page(replayed: Replay) -> Page:
    """The replay as a page."""
    from cloudgan.reports.page import Page, Paragraph, Section

    return Page(
        "The paper, replayed",
        f"{replayed.statement} Basis: {replayed.basis}.",
        (
            Section("Runs", (paper_table(replayed),)),
            Section("Findings", (findings_table(replayed),)),
            Section("Source", (Paragraph(replayed.source),)),
        ),
    )
