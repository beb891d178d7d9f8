"""What a measured run would cost on an offer: times of this machine, prices of a cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.core.cost_report import PricedOffer

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable

    from cloudgan.core.price_row import PriceRow
    from cloudgan.core.record import RunRecord

NOT_MEASURED_THERE = (
    "not measured there: what this node costs if it ran as fast as the machine it was measured on;"
    " a bound, not a forecast"
)
_HOUR_SECONDS = 3600
_MILLION = 1e6


@dataclass(frozen=True)
class RunTimes:
    """How long a run took, in seconds; None is unknown.

    Attributes:
        measured_on: The machine, in words.
        epochs: How many epochs were begun and count.
        steady_epoch_seconds: Median training time of the epochs after the tracing one.
        program_seconds: From start to end, all processes; None where one did not say its end.
        showers_per_second: Median over the epochs, without first calls.
    """

    measured_on: str
    epochs: int
    steady_epoch_seconds: float | None
    program_seconds: float | None
    showers_per_second: float | None


def run_times(record: RunRecord) -> RunTimes:
    """Takes the times out of a record."""
    epochs, started = record.epochs(), record.started()
    return RunTimes(
        measured_on=started.hardware.describe() if started else "an unknown machine",
        epochs=len(epochs),
        steady_epoch_seconds=record.steady_epoch_seconds(),
        program_seconds=record.program_seconds() if record.every_process_ended() else None,
        showers_per_second=record.samples_per_second(),
    )


def usd(seconds: float | None, row: PriceRow, nodes: int = 1) -> float | None:
    """Returns what `nodes` nodes cost for a time; None where the time is unknown."""
    return None if seconds is None else seconds / _HOUR_SECONDS * row.usd_per_hour * nodes


def price_run(
    times: RunTimes, offers: Iterable[PriceRow], today: dt.date
) -> tuple[PricedOffer, ...]:
    """Prices one run on each offer as if each node were as fast as the machine it ran on.

    Args:
        times: The run's, measured.
        offers: Rows of the catalogue.
        today: The day to which ages of prices are counted.

    Returns:
        One for each offer, in their order; figures whose time is unknown are None and say why.
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
        "usd_per_epoch": "no complete epoch after the tracing one",
        "usd_per_run": "a process did not record its end",
        "usd_per_million_showers": "no throughput was recorded",
    }
    return PricedOffer(
        row=row,
        age_days=row.age_days(today),
        unknown=tuple(f"{name}: {reasons[name]}" for name, time in seconds.items() if time is None),
        basis=NOT_MEASURED_THERE,
        **{name: usd(time, row) for name, time in seconds.items()},
    )
