"""Daily cost of resources by the price lists; an unknown price is never zero."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cloudgan.core.clouds import region_of
from cloudgan.money.catalog import Catalog
from cloudgan.money.fees import Fees
from cloudgan.schema.cost_report import Totals
from cloudgan.schema.price_row import FeeKind
from cloudgan.schema.resource import Resource

_HOURS: Final = 24.0
_BY_THE_HOUR: Final[tuple[FeeKind, ...]] = ("control_plane", "system_node", "public_ip")


@dataclass(frozen=True)
class DailyCostModel:
    """The price lists."""

    catalog: Catalog
    fees: Fees

    def usd_per_day(self, provider: str, resource: Resource) -> float | None:
        """Returns the cost of a resource per day in USD; None: unknown.

        A resource without nodes and fee is free.
        """
        if resource.is_free:
            return 0.0
        region = region_of(provider, resource.region)
        parts: list[float | None] = []
        if (
            resource.fee and resource.fee != resource.node_type
        ):  # a fee per node is included in the node
            parts.append(self._fee(provider, region, resource.fee))
        if resource.nodes:
            one = self._node(provider, region, resource)
            parts.append(None if one is None else one * resource.nodes)
        known = [part for part in parts if part is not None]
        return _HOURS * math.fsum(known) if len(known) == len(parts) else None

    def usd_per_month(self, provider: str, region: str, size_bytes: int) -> float | None:
        """Returns the storage cost per month in USD; None: unknown."""
        fee = self.fees.find("storage_gib_month", provider, region)
        return size_bytes / 2**30 * fee.usd if fee else (0.0 if size_bytes == 0 else None)

    def _fee(self, provider: str, region: str, name: str) -> float | None:
        for kind in _BY_THE_HOUR:
            found = self.fees.find(kind, provider, region, name)
            if found:
                return found.usd
        return None

    def _node(self, provider: str, region: str, resource: Resource) -> float | None:
        """Hourly price of one node; a missing market counts as on demand."""
        for row in self.catalog.rows:
            if (
                row.node_type == resource.node_type
                and (row.provider, row.region) == (provider, region)
                and row.market == (resource.market or "on_demand")
                and row.snapshot == "current"
            ):
                return row.usd_per_hour
        return self._fee(provider, region, resource.node_type) if resource.node_type else None


def total(costs: Iterable[tuple[str, float | None]]) -> Totals:
    """Returns the sum of known costs and the names of unknown ones."""
    costs = tuple(costs)
    return Totals(
        known_usd=math.fsum(usd for _, usd in costs if usd is not None),
        unknown=tuple(name for name, usd in costs if usd is None),
    )
