"""The report page of `cloudgan offers`."""

from __future__ import annotations

import datetime as dt

from cloudgan import __version__
from cloudgan.api.cost_page import cloud_name
from cloudgan.api.offer_choice import JobChoice, assumed, decision
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.money.carbon import COVERS
from cloudgan.reports.charts import Axis, Plot, Point, PointSeries, Style
from cloudgan.reports.page import Bullets, Page, Section
from cloudgan.reports.table import Cell, Mark, Number, Table, time_cell
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.price_row import PriceRow

_HEADS = (
    *("USD/epoch at most", "offer", "accelerators", "epoch at most", "USD/h", "USD/epoch at least"),
    *("epoch at least", "throughput", "g CO2e/epoch at most", "price of"),
)
_OPTION_HEADS = (
    *("USD at most", "time at most", "nodes", "offer", "USD at least", "time at least"),
    *("chance of a preemption", "throughput", "global batch", "spot pays above (h per preemption)"),
)
_CAPTION = "Offers, one node each, by the upper bound of the cost of an epoch."


def offers_page(
    choice: JobChoice | None,
    offers: tuple[Candidate, ...],
    day: dt.date,
    showers: int,
    notes: tuple[str, ...],
    *,
    runs: tuple[str, ...],
) -> Page:
    """Returns the report page; `runs` are the measured ones, and on `day` the ages of prices are counted."""
    sections = []
    lead = f"{len(offers)} offers; an epoch has {showers:,} showers."
    if choice is not None:
        text, chosen = decision(choice), choice.chosen
        is_marked = chosen in choice.pareto_front
        lead = f"{text[0].upper()}{text[1:]}.{' It is marked in the table.' if is_marked else ''}"
        risk = chosen.spot.text if chosen and chosen.spot else ""
        risks = Bullets(tuple(filter(None, (risk, assumed(choice)))))
        front = Table(
            _OPTION_HEADS,
            tuple(_option_row(option, option == chosen) for option in choice.pareto_front),
            f"Pareto front for {choice.epochs} epochs: none of {choice.considered} options is both faster"
            " and cheaper, by upper bounds.",
            "rrrlrrrlrr",
            interactive=True,
        )
        sections.append(Section("Time against cost", (_plot(choice), front, risks)))
    rows = tuple(_offer_row(one, day) for one in offers)
    table = Table(_HEADS, rows, _CAPTION, "rllrrrrlrl", interactive=True)
    measured = (f"throughput from: {name}" for name in runs)
    basis = Bullets((*notes, f"carbon: {COVERS}", *measured))
    sections += [Section("Offers", (table,)), Section("Basis", (basis,))]
    return Page("Offers", lead, tuple(sections), f"cloudgan {__version__}")


def _plot(choice: JobChoice) -> Plot:
    """Returns time and cost of all options; those of the front have the numbers of their rows."""
    kinds = sorted({_kind(option) for option in choice.options})
    clouds = list(dict.fromkeys(cloud for cloud, _ in kinds))
    places = [(option.seconds / HOUR_SECONDS, option.usd) for option in choice.pareto_front]
    numbers = {place: str(number) for number, place in enumerate(places, 1)}

    def point(option: Candidate) -> Point:
        hours = option.seconds / HOUR_SECONDS
        low = f"{(option.low_seconds or 0) / HOUR_SECONDS:.3g} h, {option.low_usd:.4g} USD, low"
        return Point(
            hours,
            option.usd,
            f"{option.nodes} x {option.row.offer}",
            f"{hours:.3g} h, {option.usd:.4g} USD, high; {low}\n{option.grade}",
            numbers.get((hours, option.usd), ""),
        )

    return Plot(
        f"Time and cost of {choice.epochs} epochs, upper bounds",
        Axis("time for the job (h)", log=True),
        Axis("cost of the job (USD)", log=True),
        tuple(
            PointSeries(
                f"{cloud_name(kind[0])}, {kind[1].replace('_', ' ')}",
                tuple(point(option) for option in choice.options if _kind(option) == kind),
                Style(clouds.index(kind[0]), second=kind[1] != "on_demand"),
            )
            for kind in kinds
        ),
        front=tuple(places),
        caption="The cheapest offer per accelerator, number of nodes and market, at the upper bounds of"
        " time and cost. Colour: cloud; filled: on demand, hollow: spot. Numbers: rows of the table of the"
        " Pareto front.",
    )


def _kind(option: Candidate) -> tuple[str, str]:
    """Cloud and market."""
    return option.row.provider, option.row.market


def _offer_row(one: Candidate, day: dt.date) -> tuple[Cell, ...]:
    row = one.row
    return (
        _usd(one.high_usd),
        row.offer,
        f"{row.accelerator_count} x {row.accelerator}",
        time_cell(one.high_seconds),
        _usd(row.usd_per_hour),
        _usd(one.low_usd),
        time_cell(one.low_seconds),
        one.grade or one.why_not,
        one.carbon_g,
        price_age(row, day),
    )


def _option_row(option: Candidate, is_chosen: bool) -> tuple[Cell, ...]:
    spot, offer = option.spot, option.row.offer
    chance = spot.interruption if spot else 0.0
    losses = spot.break_even_losses_per_node_hour if spot else None
    return (
        _usd(option.usd),
        time_cell(option.seconds),
        option.nodes,
        Mark(True, offer) if is_chosen else offer,
        _usd(option.low_usd),
        time_cell(option.low_seconds),
        Number(chance, f"{chance:.0%}"),
        option.grade,
        option.global_batch,
        (1 / losses if losses else None) if spot else "",
    )


def _usd(value: float | None) -> Number:
    return Number(value, "" if value is None else f"{value:,.2f}" if value >= 1 else f"{value:.3g}")


def price_age(row: PriceRow, day: dt.date) -> str:
    """Returns the age of an offer's price."""
    age = row.age_days(day)
    if age is None:
        return "undated"
    text = f"{'≤' if row.has_earliest_date else ''}{age} days ago"
    return f"{text}, not confirmed" if row.confidence == "C" else text
