"""The command `compare`: runs side by side, their scaling, their cost to a quality, or those of the paper."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from cloudgan.api.cost import price
from cloudgan.api.quality_comparison import cost_to_quality
from cloudgan.api.run import open_run
from cloudgan.api.scaling_comparison import compare_scaling, published_scaling
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.money.catalog import load_catalog
from cloudgan.money.comparison import RunSummary, summarize
from cloudgan.money.paper_replay import replay
from cloudgan.reports.page import Bullets, Page, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table, time_cell, usd_cell
from cloudgan.schema.options.money import CompareOptions
from cloudgan.schema.run_folder import RunFolder


class Comparison(Result):
    """Runs side by side."""

    runs: tuple[RunSummary, ...]

    def view(self) -> View:
        """Returns a row per run; the basis has machines, batches and unknown parts of the cost."""
        table = Table.of(
            (
                {
                    "run": one.run,
                    "epochs": one.epochs,
                    "time/epoch": time_cell(one.steady_epoch_seconds),
                    "showers/s": one.showers_per_second,
                    "whole run": time_cell(one.program_seconds),
                    "USD": usd_cell(one.known_usd if not one.unknown or one.known_usd else None),
                }
                for one in self.runs
            ),
            align="lrrrrr",
        )
        is_part = any(one.unknown and one.known_usd for one in self.runs)
        notes = ("USD: known part; -v names the unknown ones",) if is_part else ()
        return View(
            line=f"{len(self.runs)} run{'' if len(self.runs) == 1 else 's'} side by side",
            table=table,
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
        return Table.of(
            (
                {
                    "run": one.run,
                    "on": one.measured_on,
                    "strategy": one.strategy,
                    "loop": one.loop,
                    "replicas": one.replicas,
                    "global batch": one.global_batch_size,
                    "epochs": one.epochs,
                    "s/epoch": one.steady_epoch_seconds,
                    "first epoch s": one.first_epoch_seconds,
                    "showers/s": one.showers_per_second,
                    "program s": one.program_seconds,
                    "cost": one.total,
                }
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


@command
def compare(options: CompareOptions) -> Result:
    """Compares runs.

    Raises:
        ConfigError: The runs cannot be compared, or there is none.
        DataError: A folder holds no record.
        UnknownNameError: No offer or metric has this name.
    """
    offer = options.price_as
    if options.paper:
        return published_scaling() if options.scaling else replay(load_catalog())
    runs = [open_run(path) for path in _folders(options.runs)]
    if options.scaling:
        return compare_scaling(runs, price_as=offer)
    if options.to_quality:
        return cost_to_quality(runs, until=options.until, price_as=offer)
    records = [run.record for run in runs]
    configs = [run.folder.read_config() for run in runs]
    networks = [config.model.network_name if config else None for config in configs]
    return Comparison(
        runs=tuple(
            summarize(
                own,
                price(run.folder, offer=offer).report,
                # Runs of the same network can recommend a larger batch.
                [other for other, name in zip(records, networks, strict=True) if name == network],
            )
            for run, own, network in zip(runs, records, networks, strict=True)
        )
    )


def _folders(named: Sequence[str]) -> list[str]:
    """Returns folders of runs: what the shell expanded, comma lists, or quoted globs."""
    paths: list[str] = []
    for part in (word for name in named for word in name.split(",")):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        several = len(found) > 1 or len(named) > 1
        paths += [
            path
            for path in found
            if not several or RunFolder(path).record_file.exists() or not Path(path).exists()
        ]
    if not paths:
        raise ConfigError(f"{', '.join(named)}: no folder matches that holds a run (record.jsonl)")
    return list(dict.fromkeys(paths))
