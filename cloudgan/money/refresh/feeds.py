"""Price feeds of the clouds, and the refresh of one cloud's prices from its feeds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import Field

from cloudgan.core.clouds import CLOUDS, load
from cloudgan.core.document import Document
from cloudgan.core.errors import CloudganError, CredentialsError, DataError
from cloudgan.core.progress import Progress
from cloudgan.money.catalog import (
    Catalog,
    merge,
    read_refreshed,
    shipped_catalog,
    write_refreshed,
)
from cloudgan.money.refresh.quote import PriceFeed, Quote, RejectedQuote, refresh_request, validate
from cloudgan.money.refresh.web import Web


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
        progress: Reports the progress.
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
