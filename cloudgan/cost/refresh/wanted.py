"""What a refresh asks for: every node that the catalogue knows, in every region it knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.catalog import Catalog


@dataclass(frozen=True)
class Wanted:
    """Nodes by their type, and regions, of one cloud."""

    nodes: dict[str, PriceRow]
    regions: tuple[str, ...]


def wanted(catalog: Catalog, provider: str) -> Wanted:
    """Returns the nodes and regions of a cloud that have a present price."""
    rows = [row for row in catalog.find() if row.provider == provider]
    return Wanted(
        {row.node_type: row for row in sorted(rows, key=lambda row: row.row_id)},
        tuple(sorted({row.region for row in rows})),
    )
