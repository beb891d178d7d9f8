"""What an epoch would cost on each offer, on as many nodes as its time asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cloudgan.cost.estimate import usd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.elsewhere import EpochTime, Speeds

NODE_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


class PricedElsewhere(NamedTuple):
    """An epoch on an offer; None is unknown, and `why_unknown` says why.

    Attributes:
        row: The price.
        nodes: How many are needed.
        epoch: How long it takes there.
        usd: What it costs; None also where only bounds are known.
        usd_low: Not less than this.
        usd_high: Not more than this.
        why_unknown: Empty where there are figures.
    """

    row: PriceRow
    nodes: int | None
    epoch: EpochTime | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    why_unknown: str = ""


def node_counts(row: PriceRow) -> tuple[int, ...]:
    """Returns how many such nodes may work together: a TPU slice trains alone."""
    return (1,) if row.accelerator.startswith("TPU") else NODE_COUNTS


def price_epoch(row: PriceRow, nodes: int, speeds: Speeds) -> PricedElsewhere:
    """Prices an epoch on a number of nodes; it is unknown where its time is."""
    if row.accelerator_count == 0:
        return _unknown(row, nodes, "the node has no accelerator, and no processor was measured")
    epoch = speeds.epoch(row.accelerator, nodes * row.accelerator_count)
    if epoch is None:
        return _unknown(row, nodes, speeds.why_unknown(row.accelerator))
    return PricedElsewhere(
        row,
        nodes,
        epoch,
        usd(epoch.seconds, row, nodes),
        usd(epoch.low_seconds, row, nodes),
        usd(epoch.high_seconds, row, nodes),
    )


def price_elsewhere(
    rows: Iterable[PriceRow], speeds: Speeds, within_seconds: float | None = None
) -> tuple[PricedElsewhere, ...]:
    """Prices an epoch on each offer.

    Args:
        rows: The offers.
        speeds: Of the network.
        within_seconds: An epoch may take no longer, such as that of the run itself; each offer gets
            the least nodes that keep to it, slow edge of the band. None: one node.

    Returns:
        One for each offer, in their order.
    """
    return tuple(_priced(row, speeds, within_seconds) for row in rows)


def _priced(row: PriceRow, speeds: Speeds, within_seconds: float | None) -> PricedElsewhere:
    last = price_epoch(row, 1, speeds)
    if within_seconds is None:
        return last
    counts = node_counts(row)
    for nodes in counts:
        last = price_epoch(row, nodes, speeds)
        if last.epoch is None or last.epoch.high_seconds <= within_seconds:
            return last
    most = f"{counts[-1]} of these nodes" if len(counts) > 1 else "this slice"
    why = f"{most} may need up to {last.epoch.high_seconds:.4g} s" if last.epoch else ""
    return _unknown(row, None, f"{why}, more than {within_seconds:.4g} s")


def _unknown(row: PriceRow, nodes: int | None, why: str) -> PricedElsewhere:
    return PricedElsewhere(row, nodes, None, None, None, None, why)
