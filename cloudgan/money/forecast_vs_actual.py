"""Compares a run's forecast with its measured time and cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cloudgan.core.errors import number_text
from cloudgan.money.processes import TRAINED
from cloudgan.schema.cost_report import CostReport, ForecastVsActual, LineItem, Totals
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Forecast, ForecastPart, JobCost

PER_EPOCH = "seconds per epoch"
ALL_EPOCHS = "seconds of all epochs"
USD = "USD"
_ROUNDING = 1e-9
"""A forecast and a record add the same seconds and the same money in another order."""
_PLANNED_AS = {
    **dict.fromkeys((*TRAINED, Item.OTHER), Item.TRAINING),
    **dict.fromkeys((Item.PROVISIONING, Item.SET_UP), Item.STARTUP),
    **dict.fromkeys((Item.INSTALL, Item.SMOKE_STEP, Item.START_UP), Item.STAGING),
}
"""Parts of a plan by the line items of a report; other items are parts of their own."""
_NOT_PLANNED = (Item.STORAGE, Item.EGRESS)
"""Items that no forecast includes, see `money.forecast`."""


def forecast_vs_actual(
    report: CostReport, forecast: Forecast, epochs: int, cost: JobCost | None = None
) -> tuple[ForecastVsActual, ...]:
    """Returns each metric of the forecast with its measured value.

    Args:
        report: Cost report of the run.
        forecast: Forecast of the training, of its plan.
        epochs: Trained epochs that count.
        cost: Forecast of the whole job; None: the plan has only that of the training.
    """
    steady = report.durations.steady_epoch_seconds
    trained = [item for item in report.line_items if item.item in TRAINED]
    known = [item.seconds for item in trained if item.seconds is not None]
    seconds = math.fsum(known) if known else None
    items = [item for item in report.line_items if item.item not in _NOT_PLANNED]
    low, high = forecast.low_usd, forecast.high_usd
    parts: Sequence[ForecastPart] = (_training(forecast),)
    if cost is None:
        items = trained
    elif low is not None:
        low, high, parts = cost.known_low_usd, cost.known_usd, cost.parts
    usd = Totals.of(items).known_usd if any(item.usd is not None for item in items) else None
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
            low=low,
            high=high,
            measured=usd,
            explanation=_explain_usd(items, parts, (low, usd, high), _too_few(forecast, epochs)),
        ),
    )
    return tuple(row for row in rows if row.low is not None or row.predicted is not None)


def _training(forecast: Forecast) -> ForecastPart:
    usd = forecast.high_usd
    return ForecastPart(
        item=Item.TRAINING,
        low_usd=forecast.low_usd,
        usd=usd,
        why_unknown="" if usd is not None else forecast.why_unknown or "no price",
    )


def _explain_usd(
    items: Sequence[LineItem],
    parts: Sequence[ForecastPart],
    edges: tuple[float | None, float | None, float | None],
    too_few: str,
) -> str:
    low, usd, high = edges
    if low is None or usd is None or high is None:
        return ""
    names = Totals.of(items).unknown
    unknown = f"; not counted: {', '.join(names)}" if names else ""
    if usd <= high * (1 + _ROUNDING):
        why = too_few or "the epochs took less than the forecast"
        is_inside = usd >= low * (1 - _ROUNDING) and not too_few
        return f"{'inside the band' if is_inside else why}{unknown}"
    return f"{_largest(items, parts, usd - high)}{unknown}"


def _largest(items: Iterable[LineItem], parts: Iterable[ForecastPart], over: float) -> str:
    """Returns the item that exceeds its part of the plan by most."""
    measured: dict[Item, float] = {}
    for item in items:
        key = _PLANNED_AS.get(item.item, item.item)
        measured[key] = measured.get(key, 0.0) + (item.usd or 0.0)
    planned = {part.item: part.usd or 0.0 for part in parts}
    causes = {item: usd - planned.get(item, 0.0) for item, usd in measured.items()}
    cause, usd = max(causes.items(), key=lambda one: one[1])
    name = "epochs slower than the band" if cause is Item.TRAINING else cause.display
    return (
        f"{number_text(over)} USD above the band; largest cause: {name}, {number_text(usd)} USD more than"
        " planned"
    )


def _band(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return ""
    if low * (1 - _ROUNDING) <= value <= high * (1 + _ROUNDING):
        return "inside the band"
    edge, where = (high, "above") if value > high else (low, "below")
    return f"{abs(value / edge - 1):.0%} {where} the band" if edge else f"{where} the band"


def _too_few(forecast: Forecast, epochs: int) -> str:
    return f"{epochs} of {forecast.epochs} epochs were trained" if epochs < forecast.epochs else ""
