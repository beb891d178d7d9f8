"""Cost of a launched run by the ledger of its launch.json, whatever its program did."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.money.billing import folder_ledger
from cloudgan.money.ledger import Ledger
from cloudgan.money.price_file import catalog_with
from cloudgan.reports.table import usd_text
from cloudgan.schema import launch
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RunFolder


class LaunchCost(NamedTuple):
    """What a launched run cost.

    Attributes:
        seconds: Sum of the program times of all attempts that ended.
        ledger: Of all attempts.
        row: Price of a node; None: unknown.
    """

    seconds: float
    ledger: Ledger
    row: PriceRow | None

    @property
    def node_seconds(self) -> float:
        """Billed time of the nodes, start-up included, summed over the nodes."""
        return self.ledger.node_seconds

    @property
    def usd(self) -> float | None:
        """The known cost; None: the nodes have no price."""
        return self.ledger.known_usd if self.row else None

    @property
    def least(self) -> str:
        """``at least`` if an item is unknown."""
        return "at least " if self.ledger.total().unknown else ""


def cost_text(usd: float | None, price_row: str | None, least: str = "") -> str:
    """Returns such as ``0.12 USD, as gcp/n1-standard-8+1xT4/us-central1/spot``."""
    if usd is None:
        return "unknown: its nodes have no price; give --price-as=OFFER"
    as_row = f", as {price_row.removeprefix('node/').removesuffix('/current')}" if price_row else ""
    return f"{least}{usd_text(usd)} USD{as_row}"


def launch_cost(
    folder: RunFolder, *, offer: str | None = None, price_file: Path | None = None
) -> LaunchCost:
    """Prices the attempts of a launched run.

    Args:
        folder: Of the run.
        offer: Offer that prices nodes without a price of their own.
        price_file: File with the prices of your own nodes, for `offer`.

    Raises:
        DataError: The run has not ended, or its launch.json is missing or damaged.
        UnknownNameError: No offer has this name.
    """
    known = launch.read(folder.launch_file)
    times = [
        (one.program_ended_at - one.program_started_at).total_seconds()
        for one in known.attempts
        if one.program_started_at and one.program_ended_at
    ]
    if not times:
        raise DataError(
            f"{folder.path} has no attempt that ended; run `cloudgan status {folder.path.name}`"
        )
    given = catalog_with(price_file).row(offer) if offer else None
    rows = [one.price for one in known.attempts if one.price]
    ledger = folder_ledger(folder.launch_file, folder.record_file, given)
    return LaunchCost(sum(times), ledger, rows[-1] if rows else given)
