"""Reconciles a cloud's bill with the measured cost by category, and explains differences."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from cloudgan.core.errors import number_text
from cloudgan.money.focus import BillSummary
from cloudgan.schema.cost_report import (
    BilledCategory,
    CostReport,
    ProviderBill,
    Totals,
)
from cloudgan.schema.item import BillCategory
from cloudgan.schema.launch import Launch
from cloudgan.schema.price_row import FeeRow

_SHARED = "shared by all runs, so its lines do not have this run's label"
_CLOSE = 0.02
_SMALL_USD = 0.005


def reconcile(
    read: BillSummary, files: Iterable[Path], report: CostReport, launch: Launch | None
) -> ProviderBill:
    """Returns the bill of a run with the measured cost of each category.

    Args:
        read: Sums of the exports.
        files: Files of the exports.
        report: Measured cost.
        launch: Times of the nodes; None: unknown.
    """
    ends = [node.terminated_at for one in (launch.attempts if launch else ()) for node in one.nodes]
    last = max((end for end in ends if end), default=None)
    is_complete = read.until >= last if read.until and last and all(ends) else None
    categories = []
    for name in get_args(BillCategory):
        items = [item for item in report.line_items if item.item.category == name]
        counted, billed = Totals.of(items), read.usd(name)
        usd = counted.known_usd if any(item.usd is not None for item in items) else None
        why = _why(name, billed, usd, counted.unknown, is_complete=is_complete)
        if name == "compute" and not why and usd is not None:
            why = _why_compute(billed, usd, report, launch)
        categories.append(
            BilledCategory(name=name, billed_usd=billed, measured_usd=usd, explanation=why)
        )
    return ProviderBill(
        files=tuple(path.name for path in files),
        lines=read.lines,
        total_lines=read.total_lines,
        categories=tuple(one for one in categories if one.billed_usd or one.measured_usd),
        billed_usd=math.fsum(one.billed_usd for one in categories),
        credits_usd=math.fsum(read.credits),
        other_currencies={name: math.fsum(sums) for name, sums in read.others.items()},
        until=read.until,
        is_complete=is_complete,
        notes=tuple(_notes(read, report.run, last, is_complete=is_complete)),
    )


def _why(
    name: BillCategory,
    billed: float,
    counted: float | None,
    unknown: tuple[str, ...],
    *,
    is_complete: bool | None,
) -> str:
    """Explains a difference by what is unknown, missing in the export or shared; "" if none of these."""
    if counted is None:
        nothing = "not measured by cloudgan" if billed else ""
        return f"unknown to cloudgan: {', '.join(unknown)}" if unknown else nothing
    if _is_close(billed, counted):
        return ""
    if is_complete is False and billed < counted:
        return "the export is incomplete"
    if not billed and name in ("control plane", "storage"):
        return _SHARED
    return f"not measured: {', '.join(unknown)}" if unknown else ""


def _why_compute(billed: float, counted: float, report: CostReport, launch: Launch | None) -> str:
    """Explains the difference by times without observation, else by prices."""
    if _is_close(billed, counted):
        return ""
    if not counted:
        return "by the times of the nodes and the cloud's billing rule they cost nothing"
    over = counted - billed
    unseen = _unseen_usd(launch)
    if over > 0 and unseen >= over / 2:
        return (
            f"up to {number_text(unseen)} USD of the measured cost are times in which the nodes were not"
            " observed"
        )
    ages = sorted({row.date for row in report.rows if not isinstance(row, FeeRow)}, key=str)
    dates = ", ".join(str(date) for date in ages if date) or "unknown date"
    side = "above" if over < 0 else "below"
    return (
        f"{abs(over / counted):.0%} {side} the measured cost at prices of {dates}: prices changed, or"
        " nodes were up outside the observed times"
    )


def _unseen_usd(launch: Launch | None) -> float:
    total = 0.0
    for attempt in launch.attempts if launch else ():
        if attempt.price:
            total += attempt.price.cost_usd(sum(node.unseen_seconds() for node in attempt.nodes))
    return total


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= max(_SMALL_USD, _CLOSE * max(abs(one), abs(other)))


def _minute(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def _notes(
    read: BillSummary, run: str, last: dt.datetime | None, *, is_complete: bool | None
) -> Iterable[str]:
    if not read.lines:
        yield (
            f"none of {read.total_lines} lines has the label cloudgan-run={run}: labels appear a day"
            " later, and on AWS only after the tag is activated for cost allocation in the billing"
            " console"
        )
    if is_complete is False and read.until and last:
        yield (
            f"the export ends at {_minute(read.until)}, the nodes were up until {_minute(last)}: export"
            " again a day later"
        )
    elif is_complete is None and read.lines:
        yield "the export may be incomplete: the termination of the nodes was not recorded"
    elif is_complete and read.lines:
        yield "clouds may correct lines for some days"
    for currency in sorted(read.others):
        yield f"lines in {currency} are neither converted nor added"
