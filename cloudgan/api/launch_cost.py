"""Cost of a launched run by the times of its attempts in launch.json, whatever its program did."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.cost.prices.price_file import catalog_with
from cloudgan.launch.provisioning.launch_log import spent_usd
from cloudgan.reports.table import usd_text
from cloudgan.schema import launch
from cloudgan.schema.price_row import PriceRow

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.schema.launch import Attempt
    from cloudgan.schema.run_folder import RunFolder


class LaunchCost(NamedTuple):
    """What the nodes of a launched run cost; None is unknown.

    Attributes:
        seconds: Sum of the times of all attempts that ended.
        node_seconds: Sum over nodes of the time of all attempts that ended.
        usd: At the price of the nodes.
        row: Price of a node.
    """

    seconds: float
    node_seconds: float
    usd: float | None
    row: PriceRow | None


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
    ended = [one for one in known.attempts if one.program_started_at and one.program_ended_at]
    if not ended:
        raise DataError(
            f"{folder.path} has no attempt that ended; run `cloudgan status {folder.path.name}`"
        )
    times = [
        ((one.program_ended_at - one.program_started_at).total_seconds(), _nodes(one))
        for one in ended
        if one.program_started_at and one.program_ended_at
    ]
    seconds = sum(time * nodes for time, nodes in times)
    rows = [one.price_rows[0] for one in known.attempts if one.price_rows]
    row = catalog_with(price_file).row(offer) if offer else rows[-1] if rows else None
    usd = None
    if row is not None:
        usd = spent_usd(known) if rows and not offer else row.cost_usd(seconds)
    return LaunchCost(sum(time for time, _ in times), seconds, usd, row)


def _nodes(attempt: Attempt) -> int:
    """Number of machines: the workers of a local run share one."""
    return 1 if attempt.provider == launch.LOCAL else attempt.node_count or 1
