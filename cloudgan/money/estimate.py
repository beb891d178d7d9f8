"""Cost of a measured run on an offer: times of this machine, prices of a cloud."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from cloudgan.schema.cost_report import PricedOffer
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.record import RunRecord

NOT_MEASURED_THERE = (
    "not measured on this node: its price for the times of the machine that was measured; a bound,"
    " not a forecast"
)
_MILLION = 1e6


@dataclass(frozen=True)
class RunTimes:
    """Durations of a run; None is unknown.

    Attributes:
        measured_on: The machine, in words.
        steady_epoch_seconds: Median training time of the epochs after tracing.
        program_seconds: Start to end, all processes; None if one did not record its end.
        showers_per_second: Median over the epochs, without tracing.
    """

    measured_on: str
    epochs: int
    steady_epoch_seconds: float | None
    program_seconds: float | None
    showers_per_second: float | None


def run_times(record: RunRecord) -> RunTimes:
    """Returns the durations of a record."""
    epochs, started = record.epochs(), record.started()
    return RunTimes(
        measured_on=started.hardware.describe() if started else "an unknown machine",
        epochs=len(epochs),
        steady_epoch_seconds=record.steady_epoch_seconds(),
        program_seconds=record.program_seconds() if record.every_process_ended() else None,
        showers_per_second=record.samples_per_second(),
    )


def price_run(
    times: RunTimes, offers: Iterable[PriceRow], today: dt.date
) -> tuple[PricedOffer, ...]:
    """Prices a run on each offer as if each node were as fast as the machine it ran on.

    Args:
        times: Measured durations.
        offers: Rows of the catalog.
        today: Day for the age of prices.

    Returns:
        One for each offer, in order; values of unknown duration are None, with the reason.
    """
    return tuple(_priced(times, row, today) for row in offers)


def _priced(times: RunTimes, row: PriceRow, today: dt.date) -> PricedOffer:
    rate = times.showers_per_second
    seconds = {
        "usd_per_epoch": times.steady_epoch_seconds,
        "usd_per_run": times.program_seconds,
        "usd_per_million_showers": _MILLION / rate if rate else None,
    }
    reasons = {
        "usd_per_epoch": "no complete epoch after tracing",
        "usd_per_run": "a process did not record its end",
        "usd_per_million_showers": "no throughput was recorded",
    }
    return PricedOffer(
        row=row,
        age_days=row.age_days(today),
        unknown=tuple(f"{name}: {reasons[name]}" for name, time in seconds.items() if time is None),
        basis=NOT_MEASURED_THERE,
        **{name: row.cost_usd(time) for name, time in seconds.items()},
    )
