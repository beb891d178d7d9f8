"""What a price list says of one node in one place, before anybody believes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.price_row import Market, PriceRow

HOUR = "hour"
_CURRENCY = "USD"
_MOST_USD_PER_ACCELERATOR_HOUR = 50.0
_LEAST_USD_PER_HOUR = 0.001
_DECIMALS = 6
_FLOOR = 0.1  # of the list price: what AWS shows for spot where it has none


class Quote(NamedTuple):
    """One price as a cloud tells it."""

    node: PriceRow
    """A row of the same node type, for what the node is."""
    region: str
    market: Market
    usd_per_hour: float
    currency: str
    source: str
    date: str
    unit: str = HOUR

    @property
    def name(self) -> str:
        """Such as ``aws/p3.2xlarge/us-east-1/spot``."""
        return f"{self.node.provider}/{self.node.node_type}/{self.region}/{self.market}"


class Refusal(NamedTuple):
    """A price that nobody should believe, and why."""

    name: str
    why: str


class Sifted(NamedTuple):
    """Prices as rows of a catalogue, and those that were refused."""

    rows: tuple[PriceRow, ...]
    refused: tuple[Refusal, ...]


def price(told: object) -> float:
    """Returns what a list tells as a number; NaN, which is refused, where it is none."""
    if isinstance(told, bool) or not isinstance(told, int | float | str):
        return math.nan
    try:
        return float(told)
    except ValueError:
        return math.nan


def sift(quotes: Iterable[Quote]) -> Sifted:
    """Refuses prices that cannot be: not positive, not USD, doubled, spot no cheaper than listed.

    A pair of which one price must be wrong is refused whole, since nobody knows which.
    """
    refused: list[Refusal] = []
    found: dict[str, Quote] = {}
    doubled: set[str] = set()
    for told in quotes:
        quote = told._replace(usd_per_hour=round(told.usd_per_hour, _DECIMALS))
        why = _why_not(quote)
        if why is None and quote.name in found:
            if found[quote.name].usd_per_hour == quote.usd_per_hour:
                continue
            doubled.add(quote.name)
            why = f"{quote.usd_per_hour} USD/h, and {found[quote.name].usd_per_hour} USD/h too"
        if why is None:
            found[quote.name] = quote
        else:
            refused.append(Refusal(quote.name, why))
    for name, why in _wrong_pairs(found).items():
        refused.append(Refusal(name, why))
        doubled.add(name)
    kept = (_row(quote) for name, quote in sorted(found.items()) if name not in doubled)
    return Sifted(tuple(kept), tuple(refused))


def _why_not(quote: Quote) -> str | None:
    usd, count = quote.usd_per_hour, max(1, quote.node.accelerator_count)
    if quote.currency != _CURRENCY:
        return f"in {quote.currency or 'no currency'}, not in {_CURRENCY}"
    if quote.unit != HOUR:
        return f"per {quote.unit or 'nothing'}, not per {HOUR}"
    if not math.isfinite(usd) or usd < _LEAST_USD_PER_HOUR:
        return f"{usd} USD/h is no price"
    if usd > count * _MOST_USD_PER_ACCELERATOR_HOUR:
        return f"{usd} USD/h is more than any {count} accelerators cost"
    return None


def _wrong_pairs(found: dict[str, Quote]) -> dict[str, str]:
    """Names of prices that their other market gives the lie, and why."""
    wrong = {}
    for name, spot in found.items():
        full = found.get(spot._replace(market="on_demand").name)
        if spot.market == "on_demand" or full is None:
            continue
        if spot.usd_per_hour == full.usd_per_hour:
            wrong[name] = "spot as dear as on demand: none to be had"
        elif spot.usd_per_hour > full.usd_per_hour:
            why = f"spot {spot.usd_per_hour} USD/h, above {full.usd_per_hour} on demand"
            wrong[name] = wrong[full.name] = why
        elif math.isclose(spot.usd_per_hour, _FLOOR * full.usd_per_hour, rel_tol=1e-4):
            wrong[name] = "spot exactly a tenth of on demand: a floor, none to be had"
    return wrong


def _row(quote: Quote) -> PriceRow:
    return quote.node.model_copy(
        update={
            "region": quote.region,
            "market": quote.market,
            "usd_per_hour": quote.usd_per_hour,
            "source": quote.source,
            "date": quote.date,
            "confidence": "A" if quote.node.unit_sold == "node" else "B",
            "snapshot": "current",
            "note": "",
        }
    )
