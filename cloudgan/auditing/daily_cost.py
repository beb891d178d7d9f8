"""What a thing costs per day while it is there, by the price lists; unknown is never zero."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cloudgan.core.cost_report import Totals
from cloudgan.providers.clouds import region_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.fee_row import FeeKind
    from cloudgan.cost.catalog import Catalog
    from cloudgan.cost.fees import Fees
    from cloudgan.launching.cloud import Thing

_HOURS: Final = 24.0
_BY_THE_HOUR: Final[tuple[FeeKind, ...]] = ("control_plane", "system_node", "public_ip")


@dataclass(frozen=True)
class Tariff:
    """The price lists.

    Attributes:
        catalog: Of nodes.
        fees: Of what is charged beside nodes.
    """

    catalog: Catalog
    fees: Fees

    def usd_per_day(self, provider: str, thing: Thing) -> float | None:
        """Returns what a thing costs per day; None: nobody knows.

        What has neither nodes nor a fee costs nothing by itself.
        """
        if thing.is_free:
            return 0.0
        region = region_of(provider, thing.region)
        parts: list[float | None] = []
        if thing.fee and thing.fee != thing.node_type:  # of each node, where it is one's
            parts.append(self._fee(provider, region, thing.fee))
        if thing.nodes:
            one = self._node(provider, region, thing)
            parts.append(None if one is None else one * thing.nodes)
        known = [part for part in parts if part is not None]
        return _HOURS * math.fsum(known) if len(known) == len(parts) else None

    def usd_per_month(self, provider: str, region: str, size_bytes: int) -> float | None:
        """Returns what so much costs in a bucket; None: nobody knows."""
        fee = self.fees.find("storage_gib_month", provider, region)
        return size_bytes / 2**30 * fee.usd if fee else (0.0 if size_bytes == 0 else None)

    def _fee(self, provider: str, region: str, name: str) -> float | None:
        for kind in _BY_THE_HOUR:
            found = self.fees.find(kind, provider, region, name)
            if found:
                return found.usd
        return None

    def _node(self, provider: str, region: str, thing: Thing) -> float | None:
        """Of one machine; one whose market is not told counts as on demand."""
        for row in self.catalog.rows:
            if (
                row.node_type == thing.node_type
                and (row.provider, row.region) == (provider, region)
                and row.market == (thing.market or "on_demand")
                and row.snapshot == "current"
            ):
                return row.usd_per_hour
        return self._fee(provider, region, thing.node_type) if thing.node_type else None


def total(costs: Iterable[tuple[str, float | None]]) -> Totals:
    """Adds up what is known and names what is not."""
    costs = tuple(costs)
    return Totals(
        known_usd=math.fsum(usd for _, usd in costs if usd is not None),
        unknown=tuple(name for name, usd in costs if usd is None),
    )
