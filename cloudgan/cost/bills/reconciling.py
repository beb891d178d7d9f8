"""A cloud's bill beside what cloudgan counted, part by part, with why they differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.comparison import BILL_PARTS, BilledPart, BillPart, ProviderBill
from cloudgan.core.fee_row import FeeRow
from cloudgan.cost.fee_parts import CLUSTER, EGRESS, STORAGE, SYSTEM_NODES

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable
    from pathlib import Path

    from cloudgan.core.cost_report import CostPart, CostReport
    from cloudgan.core.launch import Launch
    from cloudgan.cost.bills.reading import ReadBill

_BESIDE: dict[str, BillPart] = {
    CLUSTER: "control plane",
    SYSTEM_NODES: "compute",
    STORAGE: "storage",
    EGRESS: "network",
}
_SHARED = "all runs share it, so no line of it carries this run's label"
_CLOSE = 0.02
_SMALL_USD = 0.005
_HOUR_SECONDS = 3600


class Counted(NamedTuple):
    """What the report counts for a part of a bill.

    Attributes:
        usd: None where nothing of it is known.
        unknown: Names of its parts that are not.
    """

    usd: float | None
    unknown: tuple[str, ...]


def reconciled(
    read: ReadBill, files: Iterable[Path], report: CostReport, launch: Launch | None
) -> ProviderBill:
    """Returns the bill of a run beside what was counted.

    Args:
        read: What the exports say.
        files: They were.
        report: What was counted.
        launch: When machines were up; None: unknown.
    """
    ends = [node.down for one in (launch.attempts if launch else ()) for node in one.nodes]
    last = max((end for end in ends if end), default=None)
    is_complete = read.until >= last if read.until and last and all(ends) else None
    parts = tuple(_part(name, read, report, launch, is_complete=is_complete) for name in BILL_PARTS)
    return ProviderBill(
        files=tuple(path.name for path in files),
        formats=tuple(read.formats),
        lines=read.lines,
        lines_in_all=read.lines_in_all,
        parts=tuple(part for part in parts if part.billed_usd or part.measured_usd),
        billed_usd=math.fsum(part.billed_usd for part in parts),
        credits_usd=math.fsum(read.credits),
        other_currencies={name: math.fsum(sums) for name, sums in read.others.items()},
        until=read.until,
        is_complete=is_complete,
        notes=tuple(_notes(read, report.run, last, is_complete=is_complete)),
    )


def _part(
    name: BillPart,
    read: ReadBill,
    report: CostReport,
    launch: Launch | None,
    *,
    is_complete: bool | None,
) -> BilledPart:
    billed, counted = read.usd(name), _counted(name, report)
    why = _why(name, billed, counted, is_complete=is_complete)
    if name == "compute" and not why and counted.usd is not None:
        why = _why_compute(billed, counted.usd, report, launch)
    return BilledPart(name=name, billed_usd=billed, measured_usd=counted.usd, why=why)


def _counted(name: BillPart, report: CostReport) -> Counted:
    parts = [part for part in report.parts if _bill_part(part, report) == name]
    known = [part.usd for part in parts if part.usd is not None]
    unknown = tuple(part.name for part in parts if part.usd is None)
    return Counted(math.fsum(known) if known else None, unknown)


def _bill_part(part: CostPart, report: CostReport) -> BillPart:
    for start, name in _BESIDE.items():
        if part.name == start or part.name.startswith(f"{start} ("):
            return name
    fees = {row.row_id for row in report.rows if isinstance(row, FeeRow)}
    return "other" if part.price_row in fees else "compute"


def _why(name: BillPart, billed: float, counted: Counted, *, is_complete: bool | None) -> str:
    why = ""
    if counted.usd is None and counted.unknown:
        why = f"cloudgan does not know: {', '.join(counted.unknown)}"
    elif counted.usd is None:
        why = "cloudgan does not count it" if billed else ""
    elif _is_close(billed, counted.usd):
        why = ""
    elif is_complete is False and billed < counted.usd:
        why = "lines are still to come"
    elif not billed and name in ("control plane", "storage"):
        why = _SHARED
    elif counted.unknown:
        why = f"not counted: {', '.join(counted.unknown)}"
    return why


def _why_compute(billed: float, counted: float, report: CostReport, launch: Launch | None) -> str:
    """Times that nobody saw end, then prices: what else is there was measured."""
    if _is_close(billed, counted):
        return ""
    over = counted - billed
    unseen = _unseen_usd(launch)
    if over > 0 and unseen >= over / 2:
        return (
            f"up to {unseen:.4g} USD of what was counted are times in which nobody looked whether"
            " the machines were still there"
        )
    ages = sorted({row.date for row in report.rows if not isinstance(row, FeeRow)}, key=str)
    told = ", ".join(str(date) for date in ages if date) or "an unknown day"
    side = "above" if over < 0 else "below"
    return (
        f"{abs(over / counted):.0%} {side} what was counted, at prices of {told}: prices changed, or"
        " machines were up outside of the times that the launcher saw"
    )


def _unseen_usd(launch: Launch | None) -> float:
    total = 0.0
    for attempt in launch.attempts if launch else ():
        if attempt.price_rows:
            seconds = sum(node.unseen_seconds() for node in attempt.nodes)
            total += seconds / _HOUR_SECONDS * attempt.price_rows[0].usd_per_hour
    return total


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= max(_SMALL_USD, _CLOSE * max(abs(one), abs(other)))


def _notes(
    read: ReadBill, run: str, last: dt.datetime | None, *, is_complete: bool | None
) -> Iterable[str]:
    if not read.lines:
        yield (
            f"no line of {read.lines_in_all} carries the label cloudgan-run={run}: it comes a day"
            " later, and on AWS only once the tag is activated for cost allocation in the billing"
            " console"
        )
    if is_complete is False and read.until and last:
        yield (
            f"the export reaches until {read.until:%Y-%m-%d %H:%M} UTC, the machines were up until"
            f" {last:%Y-%m-%d %H:%M}: ask again when it is a day newer"
        )
    elif is_complete is None and read.lines:
        yield "whether lines are still to come is unknown: nobody noted when all machines were gone"
    elif is_complete and read.lines:
        yield "clouds correct their lines for some days more"
    for currency in sorted(read.others):
        yield f"lines in {currency} are neither converted nor added"
