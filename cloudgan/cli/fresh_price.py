"""The price of an offer as its cloud says it today, and what is asked where nobody knows that."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from cloudgan.core import settings
from cloudgan.core.clock import utc_now, utc_today
from cloudgan.core.errors import CloudganError
from cloudgan.cost.age import age_text, is_stale
from cloudgan.cost.catalog import Catalog

if TYPE_CHECKING:
    from cloudgan.core.price_row import PriceRow
    from cloudgan.core.progress import Progress


def refresh_price(row: PriceRow, progress: Progress) -> bool:
    """Asks an offer's cloud for its price, once; whether it was told.

    AWS' list prices are one file of hundreds of megabytes for a region, so that one is asked for
    only where the price at hand is too old to be believed.
    """
    today = utc_today()
    if row.age_days(today) == 0:
        return False
    if (row.provider, row.market) == ("aws", "on_demand") and not is_stale(row, today):
        return False
    from cloudgan.cost.refresh.refreshing import refresh
    from cloudgan.cost.refresh.sources import parts_by_source
    from cloudgan.cost.refresh.web import Web

    now, folder = datetime.fromisoformat(utc_now()), settings.data_folder() / "prices"
    known = Catalog((row,))
    try:
        parts = parts_by_source(progress, now, Web(attempts=1), known)[row.provider]
        wanted = [part for part in parts if row.market in part.markets]
        outcome = refresh(row.provider, wanted, folder)
    except CloudganError as error:
        progress.say(f"the price stays as it is: {error}")
        return False
    if outcome.state != "refreshed":
        for told in outcome.told:
            progress.say(f"the price stays as it is: {told}")
    return outcome.state == "refreshed"


def doubt(row: PriceRow | None) -> str:
    """Returns why a price should not be believed unasked; empty where it may be."""
    if row is None or not is_stale(row, utc_today()):
        return ""
    return f"the price of {row.offer} is of {age_text(row, utc_today())}"
