"""The report page of `cloudgan offers`."""

from __future__ import annotations

import datetime as dt

from cloudgan import __version__
from cloudgan.api.offer_choice import JobChoice, assumed, decision
from cloudgan.core.clouds import title_of
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.money.carbon import COVERS
from cloudgan.reports.charts import Axis, Plot, Point, PointSeries, Style
from cloudgan.reports.page import Bullets, Page, Section
from cloudgan.reports.table import Cell, Mark, Number, Table, time_cell
from cloudgan.schema.candidate import Candidate
from cloudgan.schema.price_row import PriceRow

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
        front = Table.of(
            (_option_row(option, option == chosen) for option in choice.pareto_front),
            f"Pareto front for {choice.epochs} epochs: none of {choice.considered} options is both faster"
            " and cheaper, by upper bounds.",
            align="rrrlrrrlrr",
            interactive=True,
        )
        sections.append(Section("Time against cost", (_plot(choice), front, risks)))
    rows = (_offer_row(one, day) for one in offers)
    table = Table.of(rows, _CAPTION, align="rllrrrrlrl", interactive=True)
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
                f"{title_of(kind[0])}, {kind[1].replace('_', ' ')}",
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


def _offer_row(one: Candidate, day: dt.date) -> dict[str, Cell]:
    row = one.row
    return {
        "USD/epoch at most": _usd(one.high_usd),
        "offer": row.offer,
        "accelerators": f"{row.accelerator_count} x {row.accelerator}",
        "epoch at most": time_cell(one.high_seconds),
        "USD/h": _usd(row.usd_per_hour),
        "USD/epoch at least": _usd(one.low_usd),
        "epoch at least": time_cell(one.low_seconds),
        "throughput": one.grade or one.why_not,
        "g CO2e/epoch at most": one.carbon_g,
        "price of": price_age(row, day),
    }


def _option_row(option: Candidate, is_chosen: bool) -> dict[str, Cell]:
    spot, offer = option.spot, option.row.offer
    chance = spot.interruption if spot else 0.0
    losses = spot.break_even_losses_per_node_hour if spot else None
    return {
        "USD at most": _usd(option.usd),
        "time at most": time_cell(option.seconds),
        "nodes": option.nodes,
        "offer": Mark(True, offer) if is_chosen else offer,
        "USD at least": _usd(option.low_usd),
        "time at least": time_cell(option.low_seconds),
        "chance of a preemption": Number(chance, f"{chance:.0%}"),
        "throughput": option.grade,
        "global batch": option.global_batch,
        "spot pays above (h per preemption)": (1 / losses if losses else None) if spot else "",
    }


def _usd(value: float | None) -> Number:
    return Number(value, "" if value is None else f"{value:,.2f}" if value >= 1 else f"{value:.3g}")


def price_age(row: PriceRow, day: dt.date) -> str:
    """Returns the age of an offer's price."""
    text = row.ago_text(row.age_days(day))
    return f"{text}, not confirmed" if row.confidence == "C" and text != "undated" else text
