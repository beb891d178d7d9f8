"""Which offers stand for a cloud when there is room for a few: chosen by rule, not by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from cloudgan.core.price_row import Market, PriceRow
from cloudgan.cost.catalog import is_of

if TYPE_CHECKING:
    from cloudgan.cost.catalog import Catalog

FAMILIES = ("T4", "V100", "L4", "A100", "TPU-v3", "TPU-v5e")


def offers_for_demo(catalog: Catalog) -> tuple[PriceRow, ...]:
    """Returns a few offers of each cloud, by provider, family and market.

    Of each provider, family and market: nodes with one GPU (of a TPU the smallest slice that is
    sold), current prices that the source really states or that are derived from it (confidence A
    or B), and of these the cheapest, regions compared.
    """
    providers = sorted({row.provider for row in catalog.rows if row.snapshot == "current"})
    chosen = []
    for provider in providers:
        for family in FAMILIES:
            for market in get_args(Market):
                rows = [
                    row
                    for row in catalog.find(provider=provider, market=market)
                    if is_of(row, family) and row.confidence != "C"
                ]
                chosen += _cheapest(rows)
    return tuple(chosen)


def _cheapest(rows: list[PriceRow]) -> list[PriceRow]:
    is_tpu = any(row.accelerator.startswith("TPU") for row in rows)
    count = min((row.accelerator_count for row in rows), default=1) if is_tpu else 1
    return [row for row in rows if row.accelerator_count == count][:1]
