"""`cloudgan compare`: runs side by side, or those of the paper."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.compare_paper import compare_paper
from cloudgan.cli.output import show_json
from cloudgan.cli.pricing import priced
from cloudgan.cli.report_file import check_report, write_report_file
from cloudgan.cli.table_view import show_table
from cloudgan.core import record
from cloudgan.core.errors import ConfigError
from cloudgan.cost.side_by_side import RunSummary, summarise
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        compare_paper(report, as_json=json)
        return
    summaries = _summaries(_folders(runs or ""), as_)
    told = tuple(f"{one.run}: {hint.describe()}" for one in summaries for hint in one.hints)
    if report:
        write_report_file(_page(summaries, told), Path(report))
    if json:
        show_json({"runs": [one.model_dump(mode="json") for one in summaries]})
        return
    show_table(runs_table(summaries))
    for line in told:
        print(f"hint for {line}")


def _page(summaries: Sequence[RunSummary], told: tuple[str, ...]) -> Page:
    from cloudgan.reports.page import Bullets, Page, Section

    sections = [Section("Runs", (runs_table(summaries),))]
    if told:
        sections.append(Section("What would save money", (Bullets(told),)))
    return Page(f"{len(summaries)} runs side by side", sections=tuple(sections))


def _folders(named: str) -> list[RunFolder]:
    paths: list[str] = []
    for part in named.split(","):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        paths += [path for path in found if part == path or RunFolder(path).record_file.exists()]
    if not paths:
        raise ConfigError(f"{named}: no folder there holds a run (no record.jsonl)")
    return [RunFolder(path) for path in dict.fromkeys(paths)]


def _summaries(folders: Sequence[RunFolder], offer: str | None) -> tuple[RunSummary, ...]:
    """A larger batch is advised by runs of the same network only."""
    records = [record.read(folder.record_file) for folder in folders]
    configs = [folder.read_config() for folder in folders]
    networks = [config.model.networks if config else None for config in configs]
    return tuple(
        summarise(
            own,
            priced(folder, offer=offer).report,
            [other for other, name in zip(records, networks, strict=True) if name == network],
        )
        for folder, own, network in zip(folders, records, networks, strict=True)
    )


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
