"""Runs beside each other: what each was, how fast, for how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.hint import Hint
from cloudgan.core.price_row import PriceRow, Text
from cloudgan.cost.hints_batch import batch_hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.core.cost_report import CostReport
    from cloudgan.core.record import RunRecord


class RunSummary(BaseModel):
    """One run in one line; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: Text
    measured_on: Text
    strategy: str | None
    loop: str | None
    replicas: int | None
    global_batch_size: int | None
    epochs: int = Field(ge=0, description="that count: repeated ones stand once")
    steady_epoch_seconds: float | None
    first_epoch_seconds: float | None
    showers_per_second: float | None
    program_seconds: float | None
    billed_seconds: float | None
    priced_as: str | None
    known_usd: float = Field(ge=0)
    unknown: tuple[str, ...] = Field(description="parts of the cost that nobody knows")
    total: Text
    hints: tuple[Hint, ...] = Field(description="what would save money, by all these runs")


def summarise(
    record: RunRecord, report: CostReport, same_network: Sequence[RunRecord] = ()
) -> RunSummary:
    """Puts a record and its cost into one line; other runs of its network tell of its batch."""
    priced_as = next((row for row in report.rows if row.row_id == report.priced_as), None)
    row = priced_as if isinstance(priced_as, PriceRow) else None
    batch = batch_hint(record, same_network, row=row)
    started = record.started()
    numerics = started.numerics if started else None
    return RunSummary(
        run=report.run,
        measured_on=started.hardware.describe() if started else "an unknown machine",
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
        hints=(*report.hints, *((batch,) if batch else ())),
    )
