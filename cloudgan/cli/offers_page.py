"""How `cloudgan offers` is shown: tables in a terminal, a page with a plot in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan import __version__
from cloudgan.cli.durations import shown
from cloudgan.cli.pricing_tables import age
from cloudgan.cost.carbon import COVERS
from cloudgan.reports.page import Bullets, Page, Paragraph, Section, Table
from cloudgan.reports.plots import Axis, Point, PointSeries, Scatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.cli.offers_report import Choice, Offer, OffersReport, Way

_HEADS = (
    ("offer", "l"),
    ("accelerators", "l"),
    ("USD/h", "r"),
    ("s/epoch, at best", "r"),
    ("s/epoch, at worst", "r"),
    ("USD/epoch, at best", "r"),
    ("USD/epoch, at worst", "r"),
    ("speed", "l"),
    ("g CO2e/epoch, at worst", "r"),
    ("price of", "l"),
)
_WAY_HEADS = (
    ("offer", "l"),
    ("nodes", "r"),
    ("hours, at best", "r"),
    ("hours, at worst", "r"),
    ("USD, at best", "r"),
    ("USD, at worst", "r"),
    ("speed", "l"),
    ("pays while lost less than every (h)", "r"),
    ("risk", "l"),
)
_OFFERS = "Offers, one node each, cheapest epoch at worst first."
_HOUR_SECONDS = 3600


def table(found: OffersReport, most: int) -> Table:
    """Returns what fits a terminal: for a job the front, else at most so many of the offers."""
    if found.choice is not None:
        return _brief_front(found.choice)
    rows = tuple(
        (
            one.offer,
            f"{one.accelerator_count} x {one.accelerator}",
            one.usd_per_hour,
            _range(one.epoch.low_seconds, one.epoch.high_seconds) if one.epoch else None,
            _range(one.usd_per_epoch_low, one.usd_per_epoch_high),
            one.epoch.grade if one.epoch else "no run, no peaks",
            _age(one),
        )
        for one in found.offers[:most]
    )
    left = len(found.offers) - len(rows)
    more = f" {left} more are left out; --json and --report have all." if left else ""
    heads = ("offer", "accelerators", "USD/h", "s/epoch", "USD/epoch", "speed", "price of")
    return Table(heads, rows, f"{_OFFERS}{more}", "llrrrll")


def carbon_table(found: OffersReport, most: int) -> Table:
    """What an epoch emits on each offer, least first, unknown last."""
    ranked = sorted(
        found.offers,
        key=lambda one: (one.carbon_g_per_epoch is None, one.carbon_g_per_epoch or 0.0),
    )
    rows = tuple(
        (
            one.offer,
            f"{one.accelerator_count} x {one.accelerator}",
            one.carbon_g_per_epoch,
            one.usd_per_epoch_high,
            one.why_carbon_unknown,
        )
        for one in ranked[:most]
    )
    heads = ("offer", "accelerators", "g CO2e/epoch", "USD/epoch", "why unknown")
    return Table(heads, rows, f"At worst speed. Carbon of {COVERS}.", "llrrl")


def _brief_front(choice: Choice) -> Table:
    rows = tuple(
        (
            way.nodes,
            way.offer,
            _range(way.low_seconds / _HOUR_SECONDS, way.seconds / _HOUR_SECONDS),
            _range(way.low_usd, way.usd),
            way.grade,
        )
        for way in choice.front
    )
    return Table(("nodes", "offer", "hours", "USD", "speed"), rows, _front_says(choice), "rlrrl")


def shown_lines(found: OffersReport) -> Iterator[str]:
    """Yields what is said under the tables."""
    if found.choice is not None:
        yield decision(found.choice)
        if found.choice.unknown:
            yield f"no candidates, since nothing is known of them: {_unknown(found.choice)}"
        yield _assumed(found.choice)
    yield from found.notes


def decision(choice: Choice) -> str:
    """Says what is chosen, in words."""
    way = choice.chosen
    if way is None:
        return choice.why_none
    limits = [f"within {shown(choice.deadline_seconds)}"] if choice.deadline_seconds else []
    limits += [f"for at most {choice.budget_usd:.4g} USD"] if choice.budget_usd else []
    which = "fastest" if choice.budget_usd and not choice.deadline_seconds else "cheapest"
    risk = f"; {way.risk}" if way.risk else ""
    return (
        f"{which} for {choice.epochs} epochs{' ' if limits else ''}{' and '.join(limits)}:"
        f" {way.nodes} x {way.offer}, {way.usd:.4g} USD in {shown(way.seconds)} at worst speed"
        f" ({way.grade}: {way.basis}){risk}"
    )


def offers_page(found: OffersReport) -> Page:
    """Returns the page; it needs no network."""
    sections = []
    if found.choice is not None:
        said = decision(found.choice)
        lead = f"{said[0].upper()}{said[1:]}."
        blocks = (
            _plot(found.choice),
            _front_table(found.choice),
            Paragraph(_assumed(found.choice)),
        )
        sections.append(Section("Time against cost", blocks))
    else:
        lead = f"{len(found.offers)} offers; an epoch has {found.showers:,} showers."
    sections.append(Section("Offers", (_offers_table(found),)))
    told = (
        *found.notes,
        f"carbon: {COVERS}",
        *(f"speed from: {name}" for name in found.measured_runs),
    )
    sections.append(Section("What this rests on", (Bullets(told),)))
    return Page("Offers", lead, tuple(sections), f"cloudgan {__version__}")


def _plot(choice: Choice) -> Scatter:
    names = sorted({_cloud(way) for way in choice.ways})
    return Scatter(
        f"Time and cost of {choice.epochs} epochs, at worst",
        Axis("time for the job (h)", log=True),
        Axis("cost of the job (USD)", log=True),
        tuple(
            PointSeries(name, tuple(_point(way) for way in choice.ways if _cloud(way) == name))
            for name in names
        ),
        tuple((way.seconds / _HOUR_SECONDS, way.usd) for way in choice.front),
        caption="Of each accelerator, number of nodes and market the cheapest offer. Each stands at"
        " the slow edge of what is known of its speed.",
    )


def _point(way: Way) -> Point:
    detail = (
        f"{way.seconds / _HOUR_SECONDS:.3g} h, {way.usd:.4g} USD at worst;"
        f" {way.low_seconds / _HOUR_SECONDS:.3g} h, {way.low_usd:.4g} USD at best\n{way.grade}"
    )
    return Point(way.seconds / _HOUR_SECONDS, way.usd, f"{way.nodes} x {way.offer}", detail)


def _cloud(way: Way) -> str:
    provider, market = way.offer.split("/")[0], way.offer.rsplit("/", 1)[-1]
    return f"{provider}, {market.replace('_', ' ')}"


def _offers_table(found: OffersReport) -> Table:
    rows = tuple(map(_offer_row, found.offers))
    return Table(_texts(_HEADS), rows, _OFFERS, _sides(_HEADS), interactive=True)


def _front_table(choice: Choice) -> Table:
    rows = tuple(map(_way_row, choice.front))
    return Table(
        _texts(_WAY_HEADS), rows, _front_says(choice), _sides(_WAY_HEADS), interactive=True
    )


def _front_says(choice: Choice) -> str:
    return (
        f"Best in time and cost for {choice.epochs} epochs: nothing else of {choice.considered}"
        " ways is both faster and cheaper, each at its worst speed."
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
        _age(one),
    )


def _way_row(way: Way) -> tuple[str | float | None, ...]:
    losses = way.break_even_losses_per_node_hour
    on_demand = way.offer.endswith("/on_demand")
    return (
        way.offer,
        way.nodes,
        way.low_seconds / _HOUR_SECONDS,
        way.seconds / _HOUR_SECONDS,
        way.low_usd,
        way.usd,
        way.grade,
        "" if on_demand else (1 / losses if losses else None),
        way.risk,
    )


def _age(one: Offer) -> str:
    told = age(one.age_days)
    return f"{told}, not confirmed" if one.confidence == "C" else told


def _range(low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    return f"{high:.4g}" if low == high else f"{low:.3g} to {high:.3g}"


def _assumed(choice: Choice) -> str:
    given = choice.assumed
    return (
        "assumed of spot nodes, since nobody measured it:"
        f" one is lost {given['per_node_hour']:.3g} times an hour,"
        f" {given['restart_seconds']:g} s to train again, {given['checkpoint_seconds']:g} s to save;"
        " --losses_per_node_hour, --restart_seconds and --checkpoint_seconds change that"
    )


def _unknown(choice: Choice) -> str:
    return "; ".join(f"{one.offer} ({one.why})" for one in choice.unknown)


def _texts(heads: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(text for text, _ in heads)


def _sides(heads: tuple[tuple[str, str], ...]) -> str:
    return "".join(side for _, side in heads)
