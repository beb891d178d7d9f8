"""Runs side by side: each summarized in one row, and their tables."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.errors import counted
from cloudgan.money.advice import batch_recommendation
from cloudgan.reports.page import Bullets, Page, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table, time_cell, usd_cell
from cloudgan.schema.cost_report import CostReport, Recommendation
from cloudgan.schema.price_row import Text
from cloudgan.schema.record import RunRecord


class RunSummary(Document):
    """One run in one row; None is unknown."""

    run: Text
    measured_on: Text
    strategy: str | None
    loop: str | None
    replicas: int | None
    global_batch_size: int | None
    epochs: int = Field(ge=0, description="without repetitions")
    steady_epoch_seconds: float | None
    first_epoch_seconds: float | None
    showers_per_second: float | None
    program_seconds: float | None
    billed_seconds: float | None
    priced_as: str | None
    known_usd: float = Field(ge=0)
    unknown: tuple[str, ...] = Field(description="line items with unknown cost")
    total: Text
    recommendations: tuple[Recommendation, ...] = Field(
        description="savings found in all compared runs"
    )


class OfRuns(Result):
    """What compares the named runs that have trained."""

    left_out: tuple[str, ...] = Field((), description="runs that never trained")

    def left_out_warnings(self) -> tuple[str, ...]:
        """Returns which runs are missing, and why."""
        names = ", ".join(self.left_out)
        return (f"never trained, and so left out: {names}",) if names else ()


class Comparison(OfRuns):
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
            line=f"{counted(len(self.runs), 'run')} side by side",
            table=table,
            notes=(*notes, *(f"recommendation for {one}" for one in self.recommendations())),
            warnings=self.left_out_warnings(),
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
        return Page(f"{counted(len(self.runs), 'run')} side by side", sections=tuple(sections))


def summarize(
    record: RunRecord, report: CostReport, same_network: Sequence[RunRecord] = ()
) -> RunSummary:
    """Returns the summary of a run; other runs of its network show the gain of a larger batch."""
    batch = batch_recommendation(
        record, same_network, report.line_items, report.durations.billed_seconds
    )
    started = record.started()
    numerics = started.numerics if started else None
    return RunSummary(
        run=report.run,
        measured_on=report.provenance.measured_on,
        strategy=started.strategy if started else None,
        loop=started.loop if started else None,
        replicas=numerics.replicas if numerics else None,
        global_batch_size=numerics.global_batch_size if numerics else None,
        epochs=record.finished_epochs(),
        steady_epoch_seconds=report.durations.steady_epoch_seconds,
        first_epoch_seconds=record.first_epoch_seconds(),
        showers_per_second=record.samples_per_second(),
        program_seconds=report.durations.program_seconds,
        billed_seconds=report.durations.billed_seconds,
        priced_as=report.priced_as,
        known_usd=report.totals.known_usd,
        unknown=report.totals.unknown,
        total=report.total(),
        recommendations=(*report.recommendations, *((batch,) if batch else ())),
    )
