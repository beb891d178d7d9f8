"""What was foretold, measured and billed, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.reports.page import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.comparison import ProviderBill
    from cloudgan.core.cost_report import CostReport


def tables(report: CostReport) -> tuple[Table, ...]:
    """Returns those for which there is something to show."""
    found = []
    if report.compared:
        found.append(_compared(report))
    if report.bill is not None:
        found.append(_bill(report.bill))
    return tuple(found)


def notes(report: CostReport) -> Iterator[str]:
    """Yields what else is to be said of a bill."""
    bill = report.bill
    if bill is None:
        return
    if bill.credits_usd:
        yield f"credits and discounts: {bill.credits_usd:.2f} USD, not in the sum above"
    for currency, amount in bill.other_currencies.items():
        yield f"billed in {currency}: {amount:.2f}"
    for note in bill.notes:
        yield f"about the bill: {note}"


def _compared(report: CostReport) -> Table:
    return Table(
        ("figure", "foretold from", "foretold", "foretold to", "measured", "billed", "why"),
        tuple(
            (one.what, one.low, one.predicted, one.high, one.measured, one.billed, one.why)
            for one in report.compared
        ),
        "What the plan foretold beside what was measured.",
        "lrrrrrl",
    )


def _bill(bill: ProviderBill) -> Table:
    rows: list[tuple[str, float, float | None, str]] = [
        (one.name, one.billed_usd, one.measured_usd, one.why) for one in bill.parts
    ]
    measured = [one.measured_usd for one in bill.parts if one.measured_usd is not None]
    rows.append(("sum, before credits", bill.billed_usd, sum(measured) if measured else None, ""))
    return Table(
        ("part", "billed (USD)", "measured (USD)", "why they differ"),
        tuple(rows),
        f"What the cloud billed: {bill.lines} lines of this run among {bill.lines_in_all}"
        f" ({', '.join(dict.fromkeys(bill.formats))}).",
        "lrrl",
    )
