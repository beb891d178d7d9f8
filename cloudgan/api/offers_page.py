"""The report page of `cloudgan offers`."""

from __future__ import annotations

from cloudgan import __version__
from cloudgan.api.cost_page import cloud_name
from cloudgan.api.offer_choice import JobChoice, JobOption
from cloudgan.api.offers_report import (
    OFFERS_CAPTION,
    Offer,
    OffersReport,
    assumed,
    decision,
    price_age,
)
from cloudgan.cost.accounting.carbon import COVERS
from cloudgan.reports.page import Bullets, Page, Section
from cloudgan.reports.plot_frame import Axis, Style
from cloudgan.reports.scatter import Point, PointSeries, Scatter
from cloudgan.reports.table import Cell, Mark, Number, Table, time_cell

_HEADS = (
    ("USD/epoch at most", "r"),
    ("offer", "l"),
    ("accelerators", "l"),
    ("epoch at most", "r"),
    ("USD/h", "r"),
    ("USD/epoch at least", "r"),
    ("epoch at least", "r"),
    ("throughput", "l"),
    ("g CO2e/epoch at most", "r"),
    ("price of", "l"),
)
_OPTION_HEADS = (
    ("USD at most", "r"),
    ("time at most", "r"),
    ("nodes", "r"),
    ("offer", "l"),
    ("USD at least", "r"),
    ("time at least", "r"),
    ("chance of a preemption", "r"),
    ("throughput", "l"),
    ("global batch", "r"),
    ("spot pays above (h per preemption)", "r"),
)
_HOUR_SECONDS = 3600


def offers_page(found: OffersReport) -> Page:
    """Returns the report page."""
    sections = []
    if found.choice is not None:
        text = decision(found.choice)
        chosen = found.choice.chosen
        is_marked = chosen in found.choice.pareto_front
        lead = f"{text[0].upper()}{text[1:]}.{' It is marked in the table.' if is_marked else ''}"
        notes = (chosen.risk if chosen else "", assumed(found.choice))
        blocks = (
            _plot(found.choice),
            _front_table(found.choice),
            Bullets(tuple(filter(None, notes))),
        )
        sections.append(Section("Time against cost", blocks))
    else:
        lead = f"{len(found.offers)} offers; an epoch has {found.showers:,} showers."
    sections.append(Section("Offers", (_offers_table(found),)))
    basis = (
        *found.notes,
        f"carbon: {COVERS}",
        *(f"throughput from: {name}" for name in found.measured_runs),
    )
    sections.append(Section("Basis", (Bullets(basis),)))
    return Page("Offers", lead, tuple(sections), f"cloudgan {__version__}")


def _plot(choice: JobChoice) -> Scatter:
    kinds = sorted({_kind(option) for option in choice.options})
    clouds = list(dict.fromkeys(cloud for cloud, _ in kinds))
    return Scatter(
        f"Time and cost of {choice.epochs} epochs, upper bounds",
        Axis("time for the job (h)", log=True),
        Axis("cost of the job (USD)", log=True),
        tuple(
            PointSeries(
                f"{cloud_name(cloud)}, {market.replace('_', ' ')}",
                tuple(
                    _point(option) for option in choice.options if _kind(option) == (cloud, market)
                ),
                Style(clouds.index(cloud), hollow=market != "on_demand"),
            )
            for cloud, market in kinds
        ),
        tuple((option.seconds / _HOUR_SECONDS, option.usd) for option in choice.pareto_front),
        caption="The cheapest offer per accelerator, number of nodes and market, at the upper bounds of"
        " time and cost. Colour: cloud; filled: on demand, hollow: spot.",
    )


def _point(option: JobOption) -> Point:
    detail = (
        f"{option.seconds / _HOUR_SECONDS:.3g} h, {option.usd:.4g} USD, high;"
        f" {option.low_seconds / _HOUR_SECONDS:.3g} h, {option.low_usd:.4g} USD, low\n{option.grade}"
    )
    return Point(
        option.seconds / _HOUR_SECONDS, option.usd, f"{option.nodes} x {option.offer}", detail
    )


def _kind(option: JobOption) -> tuple[str, str]:
    """Cloud and market."""
    return option.offer.split("/")[0], option.offer.rsplit("/", 1)[-1]


def _offers_table(found: OffersReport) -> Table:
    rows = tuple(map(_offer_row, found.offers))
    return Table(_texts(_HEADS), rows, OFFERS_CAPTION, _sides(_HEADS), interactive=True)


def _front_table(choice: JobChoice) -> Table:
    rows = tuple(_option_row(option, choice) for option in choice.pareto_front)
    return Table(
        _texts(_OPTION_HEADS),
        rows,
        f"Pareto front for {choice.epochs} epochs: none of {choice.considered} options is both faster and cheaper,"
        " by upper bounds.",
        _sides(_OPTION_HEADS),
        interactive=True,
    )


def _offer_row(one: Offer) -> tuple[Cell, ...]:
    return (
        _usd(one.usd_per_epoch_high),
        one.offer,
        f"{one.accelerator_count} x {one.accelerator}",
        time_cell(one.epoch.high_seconds if one.epoch else None),
        _usd(one.usd_per_hour),
        _usd(one.usd_per_epoch_low),
        time_cell(one.epoch.low_seconds if one.epoch else None),
        one.epoch.grade if one.epoch else one.why_unknown,
        one.carbon_g_per_epoch,
        price_age(one),
    )


def _option_row(option: JobOption, choice: JobChoice) -> tuple[Cell, ...]:
    losses = option.break_even_losses_per_node_hour
    on_demand = option.offer.endswith("/on_demand")
    return (
        _usd(option.usd),
        time_cell(option.seconds),
        option.nodes,
        Mark(True, option.offer) if option == choice.chosen else option.offer,
        _usd(option.low_usd),
        time_cell(option.low_seconds),
        Number(option.interruption, f"{option.interruption:.0%}"),
        option.grade,
        option.global_batch,
        "" if on_demand else (1 / losses if losses else None),
    )


def _usd(value: float | None) -> Number:
    return Number(value, "" if value is None else f"{value:,.2f}" if value >= 1 else f"{value:.3g}")


def _texts(heads: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(text for text, _ in heads)


def _sides(heads: tuple[tuple[str, str], ...]) -> str:
    return "".join(side for _, side in heads)
