"""Price feeds of the clouds: quotes, their validation before they become price rows, and the refresh of one cloud."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from cloudgan.core.clouds import CLOUDS, load
from cloudgan.core.document import Document
from cloudgan.core.documents import validated
from cloudgan.core.errors import CloudganError, CredentialsError, DataError, counted
from cloudgan.core.progress import Progress
from cloudgan.money.catalog import (
    Catalog,
    merge,
    read_refreshed,
    shipped_catalog,
    write_refreshed,
)
from cloudgan.money.refresh.web import Web
from cloudgan.schema.price_row import Market, PriceRow

HOUR = "hour"
_CURRENCY = "USD"
_MOST_USD_PER_ACCELERATOR_HOUR = 50.0
_LEAST_USD_PER_HOUR = 0.001
_DECIMALS = 6
_FLOOR = 0.1  # of the on-demand price: what AWS reports for spot without capacity


class Readings(NamedTuple):
    """Lowest and highest price in USD per hour since a day."""

    low: float
    high: float
    since: str


class Quote(NamedTuple):
    """One price as a cloud reports it."""

    node: PriceRow
    """A row of the same node type, which describes the node."""
    region: str
    market: Market
    usd_per_hour: float
    currency: str
    source: str
    date: str
    unit: str = HOUR
    readings: Readings | None = None
    """Of a spot price; None: there is one reading."""

    @property
    def name(self) -> str:
        """For example ``aws/g5.xlarge/us-east-1/spot``."""
        return f"{self.node.provider}/{self.node.node_type}/{self.region}/{self.market}"


class RejectedQuote(Document):
    """An implausible price and the reason."""

    offer: str
    why: str


def parse_price(value: object) -> float:
    """Returns a price as a number; NaN, which validation rejects, if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan


def validate(
    quotes: Iterable[Quote],
) -> tuple[tuple[PriceRow, ...], tuple[RejectedQuote, ...]]:
    """Returns the rows of valid prices, and those not positive, not in USD, ambiguous, or not lower on spot.

    If one price of a pair must be wrong, both are rejected.

    Raises:
        DataError: A price is no row of the catalog, such as one of a day in another form.
    """
    rejected: list[RejectedQuote] = []
    found: dict[str, Quote] = {}
    ambiguous: set[str] = set()
    for raw in quotes:
        quote = raw._replace(usd_per_hour=round(raw.usd_per_hour, _DECIMALS))
        why = _why_not(quote)
        if why is None and quote.name in found:
            if found[quote.name].usd_per_hour == quote.usd_per_hour:
                continue
            ambiguous.add(quote.name)
            why = f"two prices: {quote.usd_per_hour} and {found[quote.name].usd_per_hour} USD/h"
        if why is None:
            found[quote.name] = quote
        else:
            rejected.append(RejectedQuote(offer=quote.name, why=why))
    for name, why in _wrong_pairs(found).items():
        rejected.append(RejectedQuote(offer=name, why=why))
        ambiguous.add(name)
    kept = (_row(quote) for name, quote in sorted(found.items()) if name not in ambiguous)
    return tuple(kept), tuple(rejected)


def _why_not(quote: Quote) -> str | None:
    usd, count = quote.usd_per_hour, max(1, quote.node.accelerator_count)
    if quote.currency != _CURRENCY:
        return f"in {quote.currency or 'no currency'}, not in {_CURRENCY}"
    if quote.unit != HOUR:
        return f"per {quote.unit or 'nothing'}, not per {HOUR}"
    if not math.isfinite(usd) or usd < _LEAST_USD_PER_HOUR:
        return f"{usd} USD/h is not a valid price"
    if usd > count * _MOST_USD_PER_ACCELERATOR_HOUR:
        return f"{usd} USD/h is implausibly high for {counted(count, 'accelerator')}"
    return None


def _wrong_pairs(found: dict[str, Quote]) -> dict[str, str]:
    """Returns the prices that contradict their other market, and why."""
    wrong = {}
    for name, spot in found.items():
        full = found.get(spot._replace(market="on_demand").name)
        if spot.market == "on_demand" or full is None:
            continue
        if spot.usd_per_hour == full.usd_per_hour:
            wrong[name] = "spot costs as much as on demand: no capacity"
        elif spot.usd_per_hour > full.usd_per_hour:
            why = f"spot {spot.usd_per_hour} USD/h, above {full.usd_per_hour} on demand"
            wrong[name] = wrong[full.name] = why
        elif spot.node.provider != "azure" and math.isclose(  # which sells at up to 90 % less
            spot.usd_per_hour, _FLOOR * full.usd_per_hour, rel_tol=1e-4
        ):
            wrong[name] = "spot is exactly a tenth of on demand: a floor, no capacity"
    return wrong


def _row(quote: Quote) -> PriceRow:
    low, high, since = quote.readings or (None, None, None)
    read = {
        "region": quote.region,
        "market": quote.market,
        "usd_per_hour": quote.usd_per_hour,
        "source": quote.source,
        "date": quote.date,
        "confidence": "A" if quote.node.unit_sold == "node" else "B",
        "snapshot": "current",
        "note": "",
        "low_usd_per_hour": low and round(low, _DECIMALS),
        "high_usd_per_hour": high and round(high, _DECIMALS),
        "range_since": since,
    }
    return validated(PriceRow, quote.node.model_dump() | read, quote.name)


@dataclass(frozen=True)
class PriceFeed:
    """One price list of a cloud, such as its on-demand or its spot prices."""

    name: str
    read: Callable[[], Iterable[Quote]]
    markets: tuple[Market, ...] = ("on_demand", "spot")


@dataclass(frozen=True)
class RefreshRequest:
    """Node types and regions of one cloud to query."""

    nodes: dict[str, PriceRow]
    regions: tuple[str, ...]


def refresh_request(catalog: Catalog, provider: str) -> RefreshRequest:
    """Returns the nodes and regions of a cloud that have a current price."""
    rows = [row for row in catalog.find() if row.provider == provider]
    return RefreshRequest(
        {row.node_type: row for row in sorted(rows, key=lambda row: row.row_id)},
        tuple(sorted({row.region for row in rows})),
    )


class RefreshResult(Document):
    """Result of the refresh of one cloud."""

    source: str = Field(description="cloud")
    state: Literal["refreshed", "skipped", "failed"] = Field(
        description="skipped and failed leave the old prices unchanged"
    )
    rows: int = 0
    rejected: tuple[RejectedQuote, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="feeds that were skipped, and errors")


def refresh(provider: str, feeds: Iterable[PriceFeed], folder: Path) -> RefreshResult:
    """Reads the feeds of one cloud and replaces its file if any price is valid.

    A feed without credentials is skipped; a feed that fails fails the cloud. Prices of an older
    refresh that are not in this one are kept with their date.
    """
    quotes: list[Quote] = []
    skipped: list[str] = []
    read = 0
    try:
        for feed in feeds:
            try:
                quotes += feed.read()
                read += 1
            except CredentialsError as error:
                skipped.append(f"{feed.name}: skipped, {error}")
        if not read:
            return RefreshResult(source=provider, state="skipped", notes=tuple(skipped))
        rows, rejected = validate(quotes)
        if not rows:
            why = f"none of {len(quotes)} prices is valid; the previous prices are kept"
            return RefreshResult(
                source=provider, state="failed", rejected=rejected, notes=(*skipped, why)
            )
        kept = merge(_before(provider, folder), Catalog(rows))
        write_refreshed(folder, provider, kept.rows)
    except CloudganError as error:
        why = f"{error}; the previous prices are kept"
        return RefreshResult(source=provider, state="failed", notes=(*skipped, why))
    return RefreshResult(
        source=provider,
        state="refreshed",
        rows=len(rows),
        rejected=rejected,
        notes=tuple(skipped),
    )


def _before(provider: str, folder: Path) -> Catalog:
    try:
        rows = tuple(row for _, row in read_refreshed(folder, (provider,)))
    except DataError:  # the refresh replaces an invalid file
        return Catalog(())
    return Catalog(rows)


def feeds_by_provider(
    progress: Progress, now: dt.datetime, web: Web | None = None, known: Catalog | None = None
) -> dict[str, tuple[PriceFeed, ...]]:
    """Returns the feeds of each cloud; nothing is read yet.

    CLOUDGAN_AWS_PRICES_URL, CLOUDGAN_AZURE_PRICES_URL and CLOUDGAN_GCP_PRICES_URL set other
    addresses, such as a mirror.

    Args:
        progress: Of all feeds.
        now: Time of the prices.
        web: HTTP client; default: with retries.
        known: Catalog of the nodes and regions to query; default: that of the package.
    """
    web, known = web or Web(), known or shipped_catalog()
    return {
        name: load(name, cloud.price_feeds)(web, refresh_request(known, name), now, progress)
        for name, cloud in CLOUDS.items()
        if cloud.price_feeds
    }
