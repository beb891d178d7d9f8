"""A run's forecast beside what it took: seconds of an epoch, of all epochs, and USD."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cloudgan.core.comparison import Compared
from cloudgan.cost.processes import CHECKPOINTS, FIRST, STEADY, VALIDATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.cost_report import CostPart, CostReport
    from cloudgan.core.plan import Forecast

PER_EPOCH = "seconds per epoch"
ALL_EPOCHS = "seconds of all epochs"
USD = "USD"
_FORETOLD = (FIRST, STEADY, VALIDATION, CHECKPOINTS)
"""Parts that a forecast counts: epochs and what is between them."""


def compared(report: CostReport, forecast: Forecast, epochs: int) -> tuple[Compared, ...]:
    """Returns the figures that were foretold, with what became of them.

    Args:
        report: On the run.
        forecast: Of its plan.
        epochs: How many were trained and count.
    """
    steady = report.durations.steady_epoch_seconds
    trained = [part for part in report.parts if _is_foretold(part)]
    known = [part.seconds for part in trained if part.seconds is not None]
    seconds = math.fsum(known) if known else None
    usd = report.totals.known_usd if any(part.usd is not None for part in report.parts) else None
    rows = (
        Compared(
            what=PER_EPOCH,
            low=forecast.low_epoch_seconds,
            predicted=forecast.epoch_seconds,
            high=forecast.high_epoch_seconds,
            measured=steady,
            why=_band(steady, forecast.low_epoch_seconds, forecast.high_epoch_seconds),
        ),
        Compared(
            what=ALL_EPOCHS,
            low=forecast.low_seconds,
            high=forecast.high_seconds,
            measured=seconds,
            why=_too_few(forecast, epochs)
            or _band(seconds, forecast.low_seconds, forecast.high_seconds),
        ),
        Compared(
            what=USD,
            low=forecast.low_usd,
            high=forecast.high_usd,
            measured=usd,
            why=_why_usd(report, forecast, epochs, usd),
        ),
    )
    return tuple(row for row in rows if row.low is not None or row.predicted is not None)


def _why_usd(report: CostReport, forecast: Forecast, epochs: int, usd: float | None) -> str:
    low, high = forecast.low_usd, forecast.high_usd
    if usd is None or low is None or high is None:
        return ""
    unknown = f"; not counted: {', '.join(report.totals.unknown)}" if report.totals.unknown else ""
    if usd <= high:
        why = _too_few(forecast, epochs) or "its epochs took less than was foretold"
        inside = usd >= low and epochs >= forecast.epochs
        return f"{'inside the band' if inside else why}{unknown}"
    return f"{_largest(report.parts, usd - high, high)}{unknown}"


def _largest(parts: Iterable[CostPart], over: float, high: float) -> str:
    """The part that explains most of what it cost beyond the band."""
    parts = tuple(parts)
    epochs = math.fsum(part.usd or 0.0 for part in parts if _is_foretold(part)) - high
    beside = {part.name: part.usd for part in parts if part.usd and not _is_foretold(part)}
    causes = {"epochs that were slower than the band": epochs} | beside
    name, usd = max(causes.items(), key=lambda one: one[1])
    if usd <= 0:
        return ""
    return f"{over:.4g} USD above the band, most of it by: {name}, {usd:.4g} USD"


def _band(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return ""
    if low <= value <= high:
        return "inside the band"
    edge, where = (high, "above") if value > high else (low, "below")
    return f"{abs(value / edge - 1):.0%} {where} the band" if edge else f"{where} the band"


def _too_few(forecast: Forecast, epochs: int) -> str:
    if epochs >= forecast.epochs:
        return ""
    return f"{epochs} of {forecast.epochs} epochs were trained"


def _is_foretold(part: CostPart) -> bool:
    return part.name.startswith(_FORETOLD)
