"""Compares a run's forecast with its measured time and cost."""

from __future__ import annotations

import math
from collections.abc import Iterable

from cloudgan.cost.accounting.processes import CHECKPOINTS, FIRST, STEADY, VALIDATION
from cloudgan.schema.cost_report import CostReport, ForecastVsActual, LineItem
from cloudgan.schema.plan import Forecast

PER_EPOCH = "seconds per epoch"
ALL_EPOCHS = "seconds of all epochs"
USD = "USD"
_ROUNDING = 1e-9
"""A forecast and a record add the same seconds in another order."""
_IN_FORECAST = (FIRST, STEADY, VALIDATION, CHECKPOINTS)
"""Line items that a forecast includes."""


def forecast_vs_actual(
    report: CostReport, forecast: Forecast, epochs: int
) -> tuple[ForecastVsActual, ...]:
    """Returns each metric of the forecast with its measured value.

    Args:
        report: Cost report of the run.
        forecast: Forecast of its plan.
        epochs: Trained epochs that count.
    """
    steady = report.durations.steady_epoch_seconds
    trained = [item.seconds for item in report.line_items if _is_in_forecast(item)]
    known = [seconds for seconds in trained if seconds is not None]
    seconds = math.fsum(known) if known else None
    any_known = any(item.usd is not None for item in report.line_items)
    usd = report.totals.known_usd if any_known else None
    rows = (
        ForecastVsActual(
            metric=PER_EPOCH,
            low=forecast.low_epoch_seconds,
            predicted=forecast.epoch_seconds,
            high=forecast.high_epoch_seconds,
            measured=steady,
            explanation=_band(steady, forecast.low_epoch_seconds, forecast.high_epoch_seconds),
        ),
        ForecastVsActual(
            metric=ALL_EPOCHS,
            low=forecast.low_seconds,
            high=forecast.high_seconds,
            measured=seconds,
            explanation=_too_few(forecast, epochs)
            or _band(seconds, forecast.low_seconds, forecast.high_seconds),
        ),
        ForecastVsActual(
            metric=USD,
            low=forecast.low_usd,
            high=forecast.high_usd,
            measured=usd,
            explanation=_explain_usd(report, forecast, epochs, usd),
        ),
    )
    return tuple(row for row in rows if row.low is not None or row.predicted is not None)


def _explain_usd(report: CostReport, forecast: Forecast, epochs: int, usd: float | None) -> str:
    low, high = forecast.low_usd, forecast.high_usd
    if usd is None or low is None or high is None:
        return ""
    unknown = f"; not counted: {', '.join(report.totals.unknown)}" if report.totals.unknown else ""
    if usd <= high:
        why = _too_few(forecast, epochs) or "the epochs took less than the forecast"
        inside = usd >= low and epochs >= forecast.epochs
        return f"{'inside the band' if inside else why}{unknown}"
    return f"{_largest(report.line_items, usd - high, high)}{unknown}"


def _largest(items: Iterable[LineItem], over: float, high: float) -> str:
    """Returns the line item that explains most of the cost above the band."""
    items = tuple(items)
    epochs = math.fsum(item.usd or 0.0 for item in items if _is_in_forecast(item)) - high
    others = {item.name: item.usd for item in items if item.usd and not _is_in_forecast(item)}
    causes = {"epochs slower than the band": epochs} | others
    name, usd = max(causes.items(), key=lambda cause: cause[1])
    if usd <= 0:
        return ""
    return f"{over:.4g} USD above the band; largest cause: {name}, {usd:.4g} USD"


def _band(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return ""
    if low * (1 - _ROUNDING) <= value <= high * (1 + _ROUNDING):
        return "inside the band"
    edge, where = (high, "above") if value > high else (low, "below")
    return f"{abs(value / edge - 1):.0%} {where} the band" if edge else f"{where} the band"


def _too_few(forecast: Forecast, epochs: int) -> str:
    return f"{epochs} of {forecast.epochs} epochs were trained" if epochs < forecast.epochs else ""


def _is_in_forecast(item: LineItem) -> bool:
    return item.name.startswith(_IN_FORECAST)
