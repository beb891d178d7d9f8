"""The report page of `cloudgan offers`, and the lines below its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan import __version__
from cloudgan.api.offers_report import OFFERS_CAPTION, assumed, decision, price_age
from cloudgan.cost.accounting.carbon import COVERS
from cloudgan.reports.page import Bullets, Page, Paragraph, Section
from cloudgan.reports.plot_frame import Axis
from cloudgan.reports.scatter import Point, PointSeries, Scatter
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from cloudgan.api.offer_choice import JobChoice, JobOption
    from cloudgan.api.offers_report import Offer, OffersReport

_HEADS = (
    ("offer", "l"),
    ("accelerators", "l"),
    ("USD/h", "r"),
    ("s/epoch, low", "r"),
    ("s/epoch, high", "r"),
    ("USD/epoch, low", "r"),
    ("USD/epoch, high", "r"),
    ("throughput", "l"),
    ("g CO2e/epoch, high", "r"),
    ("price of", "l"),
)
_OPTION_HEADS = (
    ("offer", "l"),
    ("nodes", "r"),
    ("global batch", "r"),
    ("hours, low", "r"),
    ("hours, high", "r"),
    ("USD, low", "r"),
    ("USD, high", "r"),
    ("throughput", "l"),
    ("spot pays above (h per preemption)", "r"),
    ("risk", "l"),
)
_HOUR_SECONDS = 3600


def offers_page(found: OffersReport) -> Page:
    """Returns the report page."""
    sections = []
    if found.choice is not None:
        text = decision(found.choice)
        lead = f"{text[0].upper()}{text[1:]}."
        blocks = (
            _plot(found.choice),
            _front_table(found.choice),
            Paragraph(assumed(found.choice)),
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
    names = sorted({_cloud(option) for option in choice.options})
    return Scatter(
        f"Time and cost of {choice.epochs} epochs, upper bounds",
        Axis("time for the job (h)", log=True),
        Axis("cost of the job (USD)", log=True),
        tuple(
            PointSeries(
                name, tuple(_point(option) for option in choice.options if _cloud(option) == name)
            )
            for name in names
        ),
        tuple((option.seconds / _HOUR_SECONDS, option.usd) for option in choice.pareto_front),
        caption="The cheapest offer per accelerator, number of nodes and market, at the upper bounds of"
        " time and cost.",
    )


def _point(option: JobOption) -> Point:
    detail = (
        f"{option.seconds / _HOUR_SECONDS:.3g} h, {option.usd:.4g} USD, high;"
        f" {option.low_seconds / _HOUR_SECONDS:.3g} h, {option.low_usd:.4g} USD, low\n{option.grade}"
    )
    return Point(
        option.seconds / _HOUR_SECONDS, option.usd, f"{option.nodes} x {option.offer}", detail
    )


def _cloud(option: JobOption) -> str:
    provider, market = option.offer.split("/")[0], option.offer.rsplit("/", 1)[-1]
    return f"{provider}, {market.replace('_', ' ')}"


def _offers_table(found: OffersReport) -> Table:
    rows = tuple(map(_offer_row, found.offers))
    return Table(_texts(_HEADS), rows, OFFERS_CAPTION, _sides(_HEADS), interactive=True)


def _front_table(choice: JobChoice) -> Table:
    rows = tuple(map(_option_row, choice.pareto_front))
    return Table(
        _texts(_OPTION_HEADS),
        rows,
        f"Pareto front for {choice.epochs} epochs: none of {choice.considered} options is both faster and cheaper,"
        " by upper bounds.",
        _sides(_OPTION_HEADS),
        interactive=True,
    )


def _offer_row(one: Offer) -> tuple[str | float | None, ...]:
    return (
        one.offer,
        f"{one.accelerator_count} x {one.accelerator}",
        one.usd_per_hour,
        one.epoch.low_seconds if one.epoch else None,
        one.epoch.high_seconds if one.epoch else None,
        one.usd_per_epoch_low,
        one.usd_per_epoch_high,
        one.epoch.grade if one.epoch else one.why_unknown,
        one.carbon_g_per_epoch,
        price_age(one),
    )


def _option_row(option: JobOption) -> tuple[str | float | None, ...]:
    losses = option.break_even_losses_per_node_hour
    on_demand = option.offer.endswith("/on_demand")
    return (
        option.offer,
        option.nodes,
        option.global_batch,
        option.low_seconds / _HOUR_SECONDS,
        option.seconds / _HOUR_SECONDS,
        option.low_usd,
        option.usd,
        option.grade,
        "" if on_demand else (1 / losses if losses else None),
        option.risk,
    )


def _texts(heads: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(text for text, _ in heads)


def _sides(heads: tuple[tuple[str, str], ...]) -> str:
    return "".join(side for _, side in heads)
