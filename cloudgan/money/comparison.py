"""Summarizes a run in one row, to compare runs with each other."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.money.advice import batch_recommendation
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


def summarize(
    record: RunRecord, report: CostReport, same_network: Sequence[RunRecord] = ()
) -> RunSummary:
    """Returns the summary of a run; other runs of its network show the gain of a larger batch."""
    batch = batch_recommendation(record, same_network, report.line_items)
    started = record.started()
    numerics = started.numerics if started else None
    return RunSummary(
        run=report.run,
        measured_on=report.provenance.measured_on,
        strategy=started.strategy if started else None,
        loop=started.loop if started else None,
        replicas=numerics.replicas if numerics else None,
        global_batch_size=numerics.global_batch_size if numerics else None,
        epochs=len(record.epochs()),
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
