"""Runs beside each other: what each was, how fast, for how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.price_row import Text

if TYPE_CHECKING:
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


def summarise(record: RunRecord, report: CostReport) -> RunSummary:
    """Puts a record and its cost into one line."""
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
    )
