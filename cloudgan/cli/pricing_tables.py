"""A cost report as tables, for a terminal and for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli import bill_tables
from cloudgan.core.fee_row import FeeRow
from cloudgan.reports.page import Bullets, Page, Paragraph, Section, Table
from cloudgan.reports.palette import COLOURS
from cloudgan.reports.plots import Axis, Bar, StackedBars

if TYPE_CHECKING:
    from cloudgan.core.cost_report import CostPart, CostReport, MeasuredRun, PricedOffer
    from cloudgan.core.price_row import PriceRow

_CLOUDS = {"aws": "AWS", "azure": "Azure", "gcp": "GCP"}
_BOUND = (
    "Each line is the price of a whole node times the seconds that this machine took: what an epoch"
    " costs there if the node were just as fast. Nothing was measured there, and a node with an"
    " accelerator is faster, so it is a bound and no forecast."
)
_BY_RUNS = (
    "By measured runs of this network: on as many nodes as keep to this run's steady epoch."
    " Where the grade is 'not measured', low and high are bounds by memory bandwidth and arithmetic"
    " peak, and no forecast."
)
_USD_HEADS = ("s/epoch", "showers/s", "USD/epoch 2020", "spot 2020", "now", "spot now")


def cloud_name(provider: str) -> str:
    """Such as ``Azure``."""
    return _CLOUDS.get(provider, provider)


def short_usd(value: float | None) -> str:
    """Three digits, or ``unknown``."""
    return "unknown" if value is None else f"{value:.3g}"


def age(days: int | None) -> str:
    """How old a price is."""
    return "undated" if days is None else f"{days} days ago"


def parts_table(report: CostReport) -> Table:
    """The parts, then the total."""
    rows = [
        (
            part.name,
            part.seconds,
            part.node_seconds,
            part.duration.replace("_seconds", "").replace("_", " "),
            part.usd,
            part.price_row or part.why_unknown or "",
        )
        for part in report.parts
    ]
    return Table(
        ("part", "seconds", "node seconds", "of", "USD", "price row, or why unknown"),
        tuple(rows),
        f"Cost of this run: {report.total()}. Basis: {report.basis}.",
        "lrrlrl",
        interactive=True,
    )


def figures_table(report: CostReport) -> Table:
    """What a unit of work cost, and program time beside billed time."""
    figures, times = report.figures, report.durations
    named = (
        ("USD per epoch", figures.per_epoch),
        ("USD per million showers", figures.per_million_showers),
        ("USD per accepted model", figures.per_accepted_model),
    )
    costs = [
        (name, one.usd, one.why_unknown or _at_least(one.without) + one.basis)
        for name, one in named
    ]
    seconds = (
        ("steady epoch (s)", times.steady_epoch_seconds, "median of the complete ones"),
        ("program time (s)", times.program_seconds, "process start to end, all processes"),
        ("billed time (s)", times.billed_seconds, "nodes up to nodes gone, the provider's clock"),
        *(
            (
                f"billed node seconds, attempt {one.attempt}",
                one.billed_node_seconds,
                one.why_unknown or f"{one.nodes} nodes; {one.rule or 'no node'}",
            )
            for one in report.billed
        ),
    )
    return Table(("figure", "value", "basis, or why unknown"), (*costs, *seconds), "", "lrl")


def rows_table(report: CostReport) -> Table:
    """The prices that the parts name, with their ages counted to the day of the report."""
    import datetime as dt

    today = dt.date.fromisoformat(report.provenance.today)
    return Table(
        ("price row", "USD", "per", "price of", "source"),
        tuple(
            (row.row_id, *_price(row), age(row.age_days(today)), row.source) for row in report.rows
        ),
        "Prices that the parts name.",
        "lrlll",
    )


def elsewhere_table(report: CostReport, most: int | None = None) -> Table | None:
    """The same epoch on offers: by measured runs where there are, else as a bound."""
    if report.elsewhere_measured:
        return _by_runs(report, most)
    return _as_bound(report) if report.elsewhere else None


def cost_page(report: CostReport, own_cost: str) -> Page:
    """The report as a page."""
    known = [part for part in report.parts if part.usd is not None]
    plots = (_stacked(report, known),) if known else ()
    elsewhere = elsewhere_table(report)
    prices = (rows_table(report),) if report.rows else ()
    sections = [
        Section("Parts", (*plots, parts_table(report), *prices)),
        Section("Per unit of work", (figures_table(report),)),
    ]
    beside = bill_tables.tables(report)
    if beside:
        told = tuple(bill_tables.notes(report))
        notes = (Bullets(told),) if told else ()
        sections.append(Section("Foretold, measured, billed", (*beside, *notes)))
    if elsewhere is not None:
        sections.append(Section("What would it cost elsewhere", (elsewhere,)))
    sections.append(Section("Measured by others", (measured_table(report.measured_runs),)))
    if report.hints:
        told = tuple(hint.describe() for hint in report.hints)
        sections.insert(2, Section("What would save money", (Bullets(told),)))
    if report.warnings:
        sections.append(Section("About the record", (Bullets(report.warnings),)))
    made = report.provenance
    return Page(
        f"Cost of {report.run}",
        f"{own_cost[:1].upper()}{own_cost[1:]}.",
        tuple(sections),
        f"cloudgan {made.cloudgan}, {made.today}; measured on {made.measured_on}",
    )


def demo_section(report: CostReport, own_cost: str) -> Section:
    """What stands on the page of a demo."""
    sources = list(dict.fromkeys(offer.row.source for offer in report.elsewhere))
    offers = Table(
        ("cloud", "node", "region", "market", "USD/h", "USD/epoch", "USD/run", "priced [source]"),
        tuple(
            (
                *_offer_cells(one),
                f"{age(one.age_days)} [{sources.index(one.row.source) + 1}]",
            )
            for one in report.elsewhere
        ),
        "Real offers of three clouds, the cheapest region of each. Prices without a date are as old"
        " as their source.",
        "llllrrrl",
    )
    named = Bullets(tuple(f"[{number}] {source}" for number, source in enumerate(sources, 1)))
    by_runs = elsewhere_table(report, 30) if report.elsewhere_measured else None
    shown = (by_runs,) if by_runs else (Paragraph(_BOUND), offers, named)
    return Section(
        "What an epoch costs",
        (Paragraph(f"This run: {own_cost}."), *shown, measured_table(report.measured_runs)),
    )


def measured_table(runs: tuple[MeasuredRun, ...]) -> Table:
    """The paper's runs at prices of then and now."""
    keys = ("on_demand_2021", "preemptible_2021", "on_demand", "spot")
    return Table(
        ("run", *_USD_HEADS),
        tuple(
            (
                f"{run.accelerators} x {run.accelerator}",
                f"{run.steady_epoch_seconds:.1f}",
                f"{run.showers_per_second:.0f}",
                *(short_usd(run.usd_per_epoch.get(key)) for key in keys),
            )
            for run in runs
        ),
        "Measured: the runs of arXiv:2111.04628, the full 51x51x25 network on 124,987 showers,"
        " at prices of then and now.",
        "lrrrrrr",
    )


def _by_runs(report: CostReport, most: int | None) -> Table:
    found = report.elsewhere_measured[:most]
    left = len(report.elsewhere_measured) - len(found)
    more = f" {left} more are left out; --json and --report have all." if left else ""
    return Table(
        ("offer", "nodes", "s/epoch", "USD/epoch", "low", "high", "grade", "priced", "basis"),
        tuple(
            (
                one.row.offer,
                one.nodes,
                one.epoch_seconds,
                one.usd_per_epoch,
                one.usd_per_epoch_low,
                one.usd_per_epoch_high,
                one.grade or "unknown",
                age(one.age_days),
                one.why_unknown or one.basis or "",
            )
            for one in found
        ),
        _BY_RUNS + more,
        "lrrrrrlll",
        interactive=True,
    )


def _as_bound(report: CostReport) -> Table:
    return Table(
        ("cloud", "node", "region", "market", "USD/h", "USD/epoch", "USD/run", "priced"),
        tuple((*_offer_cells(one), age(one.age_days)) for one in report.elsewhere),
        f"If a node were as fast as this machine (a bound: not measured there). {_BOUND}",
        "llllrrrl",
        interactive=True,
    )


def _offer_cells(
    offer: PricedOffer,
) -> tuple[str, str, str, str, float, float | None, float | None]:
    row = offer.row
    return (
        cloud_name(row.provider),
        row.node_type,
        row.region,
        row.market.replace("_", " "),
        row.usd_per_hour,
        offer.usd_per_epoch,
        offer.usd_per_run,
    )


def _stacked(report: CostReport, known: list[CostPart]) -> StackedBars:
    """The known parts, largest first; more than there are colours for stand together."""
    parts = sorted(((part.usd or 0.0, part.name) for part in known), reverse=True)
    parts = [part for part in parts if part[0] > 0]
    if len(parts) > len(COLOURS):
        rest = parts[len(COLOURS) - 1 :]
        parts = [*parts[: len(COLOURS) - 1], (sum(cost for cost, _ in rest), "all other parts")]
    return StackedBars(
        "Where the money went",
        Axis("cost (USD)"),
        tuple(name for _, name in parts),
        (Bar(report.run, tuple(cost for cost, _ in parts), report.basis),),
        f"{report.total()}. What is unknown has no length here.",
    )


def _price(row: PriceRow | FeeRow) -> tuple[float, str]:
    if isinstance(row, FeeRow):
        return row.usd, row.unit.replace("_", " ")
    return row.usd_per_hour, "node hour"


def _at_least(without: tuple[str, ...]) -> str:
    return f"at least, without {', '.join(without)}; " if without else ""
