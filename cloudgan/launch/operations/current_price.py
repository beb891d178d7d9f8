"""The current price of an offer, fetched from its cloud before a run is approved."""

from __future__ import annotations

from cloudgan.core import settings
from cloudgan.core.clock import parse_time, utc_now, utc_today
from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Progress
from cloudgan.money.catalog import Catalog
from cloudgan.schema.price_row import PriceRow


def refresh_price(row: PriceRow, progress: Progress) -> bool:
    """Fetches the price of an offer from its cloud, once; returns whether it was refreshed.

    AWS' list prices are one file of hundreds of megabytes per region, which is fetched only if the
    known price is stale.
    """
    today = utc_today()
    if row.age_days(today) == 0:
        return False
    if (row.provider, row.market) == ("aws", "on_demand") and not row.is_stale(today):
        return False
    from cloudgan.money.refresh.feeds import feeds_by_provider, refresh
    from cloudgan.money.refresh.web import Web

    now, folder = parse_time(utc_now()), settings.data_folder() / "prices"
    try:
        parts = feeds_by_provider(progress, now, Web(attempts=1), Catalog((row,)))[row.provider]
        outcome = refresh(
            row.provider, [part for part in parts if row.market in part.markets], folder
        )
    except CloudganError as error:
        progress.say(f"the price was not refreshed: {error}")
        return False
    if outcome.state != "refreshed":
        for reason in outcome.messages:
            progress.say(f"the price was not refreshed: {reason}")
    return outcome.state == "refreshed"


def price_warning(row: PriceRow | None) -> str:
    """Returns a warning if a price is stale or undated; else an empty string."""
    if row is None or not row.is_stale(utc_today()):
        return ""
    return f"the price of {row.offer} is of {row.age_text(utc_today())}"
