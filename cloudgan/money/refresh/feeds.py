"""Price feeds of the clouds, and the refresh of one cloud's prices from its feeds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cloudgan.core.clouds import CLOUDS, load
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


@dataclass(frozen=True)
class RefreshResult:
    """Result of the refresh of one cloud.

    Attributes:
        provider: For example ``aws``.
        state: ``skipped`` and ``failed`` leave the old prices unchanged.
        messages: Feeds that were skipped, and errors.
    """

    provider: str
    state: Literal["refreshed", "skipped", "failed"]
    rows: int = 0
    rejected: tuple[RejectedQuote, ...] = ()
    messages: tuple[str, ...] = ()


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
            return RefreshResult(provider, "skipped", messages=tuple(skipped))
        valid = validate(quotes)
        if not valid.rows:
            why = f"none of {len(quotes)} prices is valid; the previous prices are kept"
            return RefreshResult(provider, "failed", 0, valid.rejected, (*skipped, why))
        kept = merge(_before(provider, folder), Catalog(valid.rows))
        write_refreshed(folder, provider, kept.rows)
    except CloudganError as error:
        why = f"{error}; the previous prices are kept"
        return RefreshResult(provider, "failed", messages=(*skipped, why))
    return RefreshResult(provider, "refreshed", len(valid.rows), valid.rejected, tuple(skipped))


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
