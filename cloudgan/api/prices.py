"""The price catalogue: lists and refreshes prices; the use cases of `cloudgan prices`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core import settings
from cloudgan.core.clock import parse_time, utc_now
from cloudgan.core.errors import CloudganError, CredentialsError
from cloudgan.core.progress import Silent
from cloudgan.cost.prices.catalog import (
    load_catalog,
    shipped_catalog,
    updated,
    write_catalog,
)
from cloudgan.cost.prices.fees import load_fees
from cloudgan.schema.price_row import ANY_REGION

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.cost.prices.refresh.feeds import RefreshResult
    from cloudgan.schema.price_row import FeeRow, Market, PriceRow

_MAX_REJECTED = 10


def price_folder() -> Path:
    """Returns the folder of refreshed prices (CLOUDGAN_DATA)."""
    return settings.data_folder() / "prices"


def node_prices(
    *,
    provider: str | None = None,
    accelerator: str | None = None,
    region: str | None = None,
    market: Market | None = None,
) -> tuple[PriceRow, ...]:
    """Returns the price rows of nodes, of all clouds by default.

    Args:
        provider: One cloud.
        accelerator: Name or family of the accelerator, such as a100.
        region: One region.
        market: on_demand or spot.

    Raises:
        UnknownNameError: A name is not in the catalogue.
    """
    return load_catalog().find(
        provider=provider, accelerator=accelerator, region=region, market=market
    )


def fee_prices(*, provider: str | None = None, region: str | None = None) -> tuple[FeeRow, ...]:
    """Returns the prices of storage, egress and clusters, of all clouds by default."""
    return tuple(
        row
        for row in load_fees().rows
        if provider in {None, row.provider}
        and (region is None or row.region in {region, ANY_REGION})
    )


def refresh_prices(
    *, provider: str | None = None, progress: Progress | None = None
) -> tuple[RefreshResult, ...]:
    """Downloads the clouds' price lists into the data folder; the package is unchanged.

    Args:
        provider: One cloud. Default: all.
        progress: Receives each task and its progress.

    Returns:
        Result of each cloud; one that failed or was skipped keeps its old prices.

    Raises:
        CredentialsError: All clouds were skipped for lack of credentials.
        CloudganError: No cloud was refreshed.
    """
    from cloudgan.cost.prices.refresh.feeds import feeds_by_provider, refresh

    now = parse_time(utc_now())
    results = tuple(
        refresh(name, feeds, price_folder())
        for name, feeds in feeds_by_provider(progress or Silent(), now).items()
        if provider in {None, name}
    )
    if any(result.state == "refreshed" for result in results):
        return results
    reasons = "\n".join(line for result in results for line in refresh_lines(result))
    if all(result.state == "skipped" for result in results):
        raise CredentialsError(f"no prices were refreshed\n{reasons}")
    raise CloudganError(f"no prices were refreshed\n{reasons}")


def write_prices(path: Path) -> int:
    """Writes the prices of the package with the refreshed ones as a new nodes.csv.

    Returns:
        The number of prices that differ from those of the package.

    Raises:
        StoreError: The file cannot be written.
    """
    old = shipped_catalog()
    new = updated(old, load_catalog())
    write_catalog(path, new.rows)
    return len(set(new.rows) - set(old.rows))


def refresh_lines(result: RefreshResult) -> Iterator[str]:
    """Yields the result of one cloud as lines."""
    count = f", {result.rows} prices" if result.rows else ""
    yield f"{result.provider}: {result.state}{count}"
    yield from (f"  {line}" for line in result.messages)
    if result.rejected:
        yield f"  {len(result.rejected)} implausible prices rejected:"
        for quote in result.rejected[:_MAX_REJECTED]:
            yield f"    {quote.name}: {quote.why}"
        more = len(result.rejected) - _MAX_REJECTED
        if more > 0:
            yield f"    and {more} more, listed by --json"


def age_facts(row: PriceRow | FeeRow, today: dt.date) -> dict[str, Any]:
    """Returns the identifier and the age of a row."""
    return {
        "id": row.row_id,
        "age": row.age_text(today),
        "age_days": row.age_days(today),
        "stale": row.is_stale(today),
    }
