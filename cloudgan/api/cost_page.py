"""A cost report as tables, for the terminal, a notebook and a page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from cloudgan.core.clouds import title_of
from cloudgan.core.durations import duration_text
from cloudgan.money.forecast_vs_actual import USD
from cloudgan.reports.charts import COLOURS, Axis, Bar, StackedBars
from cloudgan.reports.page import Block, Bullets, Page, Paragraph, Section
from cloudgan.reports.table import Cell, Table, usd_cell, usd_range, usd_text
from cloudgan.schema.cost_report import (
    CostReport,
    LineItem,
    PricedOffer,
    ProviderBill,
    PublishedRun,
)
from cloudgan.schema.price_row import FeeRow

_BOUND = (
    "Each row is the price of a whole node times the seconds of this machine: the cost of an epoch if the"
    " node were equally fast. Nothing was measured there; a node with an accelerator is faster, so the"
    " cost is an upper bound, not a forecast."
)
_BY_RUNS = (
    "Estimated from measured runs of this network, or of the paper's, on the number of nodes that keeps"
    " this run's steady epoch, each replica with this run's batch. Where the grade is 'modelled' and"
    " s/epoch is unknown, low and high are bounds from memory bandwidth, arithmetic peak and the work of the"
    " network, not a forecast."
)
_MOST_ITEMS, _SMALL_SHARE = 9, 0.01
_USD_HEADS = {
    "USD/epoch 2020": "on_demand_2021",
    "spot 2020": "preemptible_2021",
    "now": "on_demand",
    "spot now": "spot",
}


def short_usd(value: float | None) -> str:
    """Returns a cost with three digits, or ``unknown``."""
    return "unknown" if value is None else f"{value:.3g}"


def tables(report: CostReport, most_offers: int) -> Iterator[Table]:
    """Yields all tables of the report that have rows."""
    yield items_table(report)
    if report.shares:
        yield shares_table(report)
    yield unit_costs_table(report)
    if report.rows:
        yield rows_table(report)
    yield from comparison_tables(report)
    offers = offers_table(report, most_offers)
    if offers is not None:
        yield offers


def largest_items(report: CostReport) -> Table:
    """Returns the largest known items, the small ones as one row, at most ten rows in all."""
    known = sorted(
        ((part.usd, part) for part in report.line_items if part.usd), key=lambda one: -one[0]
    )
    least = _SMALL_SHARE * sum(usd for usd, _ in known)
    shown = [part for usd, part in known[:_MOST_ITEMS] if usd >= least]
    rows = [(part.name, _quantity(part), usd_cell(part.usd)) for part in shown]
    small = known[len(shown) :]
    if len(small) == 1:
        rows.append((small[0][1].name, _quantity(small[0][1]), usd_cell(small[0][0])))
    elif small:
        rows.append((f"{len(small)} others", "", usd_cell(sum(usd for usd, _ in small))))
    return Table(("item", "time", "USD"), tuple(rows), align="lrr")


def _quantity(part: LineItem) -> str:
    if part.quantity is not None:
        return f"{part.quantity:.3g} {(part.unit or '').replace('_', ' ')}".strip()
    seconds = part.node_seconds if part.node_seconds is not None else part.seconds
    return "" if seconds is None else duration_text(seconds)


def notes(report: CostReport) -> Iterator[str]:
    """Yields the lines below the items: unit costs, forecast, bill, ages of the prices, advice."""
    if report.totals.unknown:
        yield f"unknown: {', '.join(report.totals.unknown)}"
    figures = report.unit_costs
    units = ((figures.per_epoch, "epoch"), (figures.per_million_showers, "million showers"))
    each = [f"{usd_text(one.usd)} USD per {name}" for one, name in units if one.usd is not None]
    if each:
        yield ", ".join(each)
    for one in report.forecast_vs_actual:
        if one.metric == USD and one.low is not None and one.high is not None:
            yield f"forecast {usd_range(one.low, one.high)} USD"
    if report.bill is not None:
        billed = usd_text(report.bill.billed_usd)
        yield f"billed {billed} USD in {report.bill.lines} lines of {report.bill.total_lines}; more with -v"
    today = dt.date.fromisoformat(report.provenance.today)
    ages = [row.age_days(today) for row in report.rows]
    if ages:
        oldest = max((days for days in ages if days is not None), default=None)
        yield f"prices up to {oldest} days old" if None not in ages else "prices of unknown age"
    if report.priced_as:
        yield f"as {report.priced_as.removeprefix('node/').removesuffix('/current')}"
    for advice in report.recommendations:
        yield f"recommendation: {advice.describe()}"


def items_table(report: CostReport) -> Table:
    """Returns a row per cost item; the caption holds the total."""
    return Table.of(
        (
            {
                "item": part.name,
                "seconds": part.seconds,
                "node seconds": part.node_seconds,
                "of": part.duration.replace("_seconds", "").replace("_", " "),
                "USD": part.usd,
                "price row, or why unknown": part.price_row or part.why_unknown or "",
            }
            for part in report.line_items
        ),
        f"Cost of this run: {report.total()}. Basis: {report.basis}.",
        align="lrrlrl",
        interactive=True,
    )


def shares_table(report: CostReport) -> Table:
    """Returns a row per part of the cost, by what ranks or cells did."""
    rows = tuple((part.name, part.node_seconds, part.usd) for part in report.shares)
    return Table(("part", "node seconds", "USD"), rows, "The same cost by what was done", "lrr")


def unit_costs_table(report: CostReport) -> Table:
    """Returns the unit costs, and program time beside billed time."""
    figures, times = report.unit_costs, report.durations
    named = (
        ("USD per epoch", figures.per_epoch),
        ("USD per million showers", figures.per_million_showers),
        ("USD per accepted model", figures.per_accepted_model),
    )
    costs = [
        (name, one.usd, one.why_unknown or _at_least(one.unknown) + one.basis)
        for name, one in named
    ]
    seconds = (
        ("steady epoch (s)", times.steady_epoch_seconds, "median of the complete epochs"),
        ("program time (s)", times.program_seconds, "process start to end, all processes"),
        (
            "billed time (s)",
            times.billed_seconds,
            "from node start to node termination, by the provider's timestamps",
        ),
        *(
            (
                f"billed node seconds, attempt {one.attempt}",
                one.billed_node_seconds,
                one.why_unknown or f"{one.nodes} nodes; {one.rule or 'no node'}",
            )
            for one in report.billed_attempts
        ),
    )
    return Table(("figure", "value", "basis, or why unknown"), (*costs, *seconds), "", "lrl")


def rows_table(report: CostReport) -> Table:
    """Returns the price rows of the cost items, with their ages on the day of the report."""
    today = dt.date.fromisoformat(report.provenance.today)
    return Table.of(
        (
            {
                "price row": row.row_id,
                "USD": row.usd if isinstance(row, FeeRow) else row.usd_per_hour,
                "per": row.unit.replace("_", " ") if isinstance(row, FeeRow) else "node hour",
                "price of": row.ago_text(row.age_days(today)),
                "source": row.source,
            }
            for row in report.rows
        ),
        "Price rows of the cost items.",
        align="lrlll",
    )


def offers_table(report: CostReport, most: int | None = None) -> Table | None:
    """Returns the cost of an epoch on offers: estimated from runs, else as fast as this machine."""
    if report.offer_estimates:
        return _by_runs(report, most)
    return _as_bound(report) if report.priced_offers else None


def cost_page(report: CostReport, own_cost: str) -> Page:
    """Returns the report as a page."""
    known = [part for part in report.line_items if part.usd is not None]
    plots = (_stacked(report, known),) if known else ()
    offers = offers_table(report)
    shares = (shares_table(report),) if report.shares else ()
    prices = (rows_table(report),) if report.rows else ()
    sections = [
        Section("Cost items", (*plots, items_table(report), *shares, *prices)),
        Section("Per unit of work", (unit_costs_table(report),)),
    ]
    comparisons = comparison_tables(report)
    if comparisons:
        texts = tuple(bill_notes(report))
        notes = (Bullets(texts),) if texts else ()
        sections.append(Section("Forecast, measured, billed", (*comparisons, *notes)))
    if offers is not None:
        sections.append(Section("Cost on other offers", (offers,)))
    sections.append(Section("Published runs", (published_runs_table(report.published_runs),)))
    if report.recommendations:
        advice = tuple(each.describe() for each in report.recommendations)
        sections.insert(2, Section("Recommendations", (Bullets(advice),)))
    if report.warnings:
        sections.append(Section("Warnings about the record", (Bullets(report.warnings),)))
    provenance = report.provenance
    return Page(
        f"Cost of {report.run}",
        f"{own_cost[:1].upper()}{own_cost[1:]}.",
        tuple(sections),
        f"cloudgan {provenance.cloudgan}, {provenance.today}; measured on {provenance.measured_on}",
    )


def demo_section(report: CostReport, own_cost: str) -> Section:
    """Returns the cost section of the page of a demo."""
    shown: tuple[Block, ...] = ()
    if report.priced_offers:
        sources = list(dict.fromkeys(offer.row.source for offer in report.priced_offers))
        offers = Table.of(
            (
                _offer_cells(one)
                | {
                    "priced [source]": f"{one.row.ago_text(one.age_days)} [{sources.index(one.row.source) + 1}]"
                }
                for one in report.priced_offers
            ),
            "Offers of each cloud, in its cheapest region. Undated prices are as old as their source.",
            align="llllrrrl",
        )
        named = Bullets(tuple(f"[{number}] {source}" for number, source in enumerate(sources, 1)))
        shown = (Paragraph(_BOUND), offers, named)
    elif by_runs := offers_table(report, 30):
        shown = (by_runs,)
    return Section(
        "Cost of an epoch",
        (Paragraph(f"This run: {own_cost}."), *shown, published_runs_table(report.published_runs)),
    )


def published_runs_table(runs: tuple[PublishedRun, ...]) -> Table:
    """Returns the paper's runs at the prices of 2020/21 and of today."""
    return Table.of(
        (
            {
                "run": f"{run.accelerators} x {run.accelerator}",
                "s/epoch": f"{run.steady_epoch_seconds:.1f}",
                "showers/s": f"{run.showers_per_second:.0f}",
                **{head: short_usd(run.usd_per_epoch.get(key)) for head, key in _USD_HEADS.items()},
            }
            for run in runs
        ),
        "Measured: the runs of arXiv:2111.04628, the full 51x51x25 network on 124,987 showers,"
        " at the prices of 2020/21 and of today.",
        align="lrrrrrr",
    )


def comparison_tables(report: CostReport) -> tuple[Table, ...]:
    """Returns the comparisons with the forecast of the plan and with the bill, if there are any."""
    found = []
    if report.forecast_vs_actual:
        found.append(_forecast(report))
    if report.bill is not None:
        found.append(_bill(report.bill))
    return tuple(found)


def bill_notes(report: CostReport) -> Iterator[str]:
    """Yields credits, other currencies and notes of the bill."""
    bill = report.bill
    if bill is None:
        return
    if bill.credits_usd:
        yield f"credits and discounts: {bill.credits_usd:.2f} USD, not in the sum above"
    for currency, amount in bill.other_currencies.items():
        yield f"billed in {currency}: {amount:.2f}"
    for note in bill.notes:
        yield f"bill: {note}"


def _by_runs(report: CostReport, most: int | None) -> Table:
    found = report.offer_estimates[:most]
    left = len(report.offer_estimates) - len(found)
    today = dt.date.fromisoformat(report.provenance.today)
    more = f" {left} more offers: see --json or --report." if left else ""
    return Table.of(
        (
            {
                "offer": one.row.offer,
                "nodes": None if one.why_not else one.nodes,
                "s/epoch": one.expected_seconds,
                "USD/epoch": one.expected_usd,
                "low": one.low_usd,
                "high": one.high_usd,
                "grade": one.grade or "unknown",
                "priced": one.row.ago_text(one.row.age_days(today)),
                "basis": one.why_not or one.basis,
            }
            for one in found
        ),
        _BY_RUNS + more,
        align="lrrrrrlll",
        interactive=True,
    )


def _as_bound(report: CostReport) -> Table:
    return Table.of(
        (
            _offer_cells(one) | {"priced": one.row.ago_text(one.age_days)}
            for one in report.priced_offers
        ),
        f"If a node were as fast as this machine (an upper bound, not measured there). {_BOUND}",
        align="llllrrrl",
        interactive=True,
    )


def _offer_cells(offer: PricedOffer) -> dict[str, Cell]:
    row = offer.row
    return {
        "cloud": title_of(row.provider),
        "node": row.node_type,
        "region": row.region,
        "market": row.market.replace("_", " "),
        "USD/h": row.usd_per_hour,
        "USD/epoch": offer.usd_per_epoch,
        "USD/run": offer.usd_per_run,
    }


def _stacked(report: CostReport, known: list[LineItem]) -> StackedBars:
    """Returns the known cost items, largest first; the smallest share one bar."""
    parts = sorted(((part.usd or 0.0, part.name) for part in known), reverse=True)
    parts = [part for part in parts if part[0] > 0]
    if len(parts) > len(COLOURS):
        rest = parts[len(COLOURS) - 1 :]
        parts = [*parts[: len(COLOURS) - 1], (sum(cost for cost, _ in rest), "all other items")]
    return StackedBars(
        "Cost by item",
        Axis("cost (USD)"),
        tuple(name for _, name in parts),
        (Bar(report.run, tuple(cost for cost, _ in parts), report.basis),),
        f"{report.total()}. Unknown costs are not shown.",
    )


def _at_least(without: tuple[str, ...]) -> str:
    return f"at least, without {', '.join(without)}; " if without else ""


def _forecast(report: CostReport) -> Table:
    return Table.of(
        (
            {
                "figure": one.metric,
                "forecast, low": one.low,
                "forecast": one.predicted,
                "forecast, high": one.high,
                "measured": one.measured,
                "billed": one.billed,
                "why": one.explanation,
            }
            for one in report.forecast_vs_actual
        ),
        "Forecast of the plan, and measured values.",
        align="lrrrrrl",
    )


def _bill(bill: ProviderBill) -> Table:
    rows: list[tuple[str, float, float | None, str]] = [
        (one.name, one.billed_usd, one.measured_usd, one.explanation) for one in bill.categories
    ]
    measured = [one.measured_usd for one in bill.categories if one.measured_usd is not None]
    rows.append(("sum, before credits", bill.billed_usd, sum(measured) if measured else None, ""))
    return Table(
        ("part", "billed (USD)", "measured (USD)", "why they differ"),
        tuple(rows),
        f"Bill of the cloud: {bill.lines} lines of this run among {bill.total_lines}.",
        "lrrl",
    )
