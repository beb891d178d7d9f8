"""Compares the catalog with a second source, gpuhunt (MPL-2.0).

gpuhunt: https://github.com/dstackai/gpuhunt
"""

from __future__ import annotations

import importlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cloudgan.schema.price_row import Market, PriceRow

TOLERANCE = 0.05
_SUMS_TPU_SPOT = frozenset({"TPU-v2", "TPU-v3", "TPU-v4"})
_WITH_LOCAL_DISKS = ("a2-ultragpu", "a3-")


class ReferencePrice(NamedTuple):
    """Price of an offer in another source."""

    provider: str
    node_type: str
    region: str
    market: Market
    usd_per_hour: float


class Disagreement(NamedTuple):
    """An offer with different prices in the two sources."""

    row: PriceRow
    other_usd_per_hour: float
    remark: str

    @property
    def difference(self) -> float:
        """Relative difference of the other price."""
        return self.other_usd_per_hour / self.row.usd_per_hour - 1


@dataclass(frozen=True)
class Verification:
    """Comparison of two sources.

    Attributes:
        agreed: Number of offers with the same price within the tolerance.
        disagreements: Other offers, largest difference first.
        missing: Number of offers that are not in the other source.
    """

    agreed: int
    disagreements: tuple[Disagreement, ...]
    missing: int


def verify(
    rows: Iterable[PriceRow], others: Iterable[ReferencePrice], tolerance: float = TOLERANCE
) -> Verification:
    """Compares current prices; of several zones, the cheapest of the other source counts.

    Args:
        rows: Rows of the catalog; other snapshots are ignored.
        others: Prices of the other source.
        tolerance: Relative tolerance.
    """
    theirs: dict[tuple[str, ...], float] = {}
    for other in others:
        name = other[:4]
        theirs[name] = min(other.usd_per_hour, theirs.get(name, other.usd_per_hour))
    agreed = unknown = 0
    found = []
    for row in rows:
        if row.snapshot != "current":
            continue
        usd = theirs.get((row.provider, row.node_type, row.region, row.market))
        if usd is None:
            unknown += 1
        elif abs(usd - row.usd_per_hour) <= tolerance * row.usd_per_hour:
            agreed += 1
        else:
            found.append(Disagreement(row, usd, _remark(row)))
    found.sort(key=lambda one: (-abs(one.difference), one.row.row_id))
    return Verification(agreed, tuple(found), unknown)


def _remark(row: PriceRow) -> str:
    """Returns the known reason of a difference, or ""."""
    if row.accelerator in _SUMS_TPU_SPOT and row.market == "spot":
        return "gpuhunt multiplies spot prices of TPU v2 to v4 by chips although they are per slice"
    if row.provider == "gcp" and row.node_type.startswith(_WITH_LOCAL_DISKS):
        return "gpuhunt includes local disks, cloudgan does not"
    return ""


_HOW = "prices verify requires gpuhunt; run `pip install 'cloudgan[verify]'`"


def gpuhunt_prices(providers: Iterable[str]) -> tuple[ReferencePrice, ...]:
    """Returns gpuhunt's prices of some clouds; gpuhunt downloads its catalogs.

    Raises:
        ConfigError: gpuhunt is not installed.
        CloudganError: Its catalogs are unreachable.
    """
    try:
        gpuhunt: Any = importlib.import_module("gpuhunt")
    except ModuleNotFoundError as error:
        raise ConfigError(_HOW) from error
    try:
        catalog = gpuhunt.Catalog(auto_reload=False)
        if not settings.variable("GPUHUNT_CATALOG_DIR"):
            catalog.load()
        items = catalog.query(provider=list(providers))
    except Exception as error:
        raise CloudganError(
            f"gpuhunt returned no prices ({error}); check the network connection"
        ) from error
    if not items:
        raise CloudganError("gpuhunt returned no prices; check the network connection")
    return tuple(_seconds(items))


def _seconds(items: Iterable[Any]) -> Iterator[ReferencePrice]:
    for item in items:
        if not math.isfinite(item.price) or item.price <= 0:
            continue
        market: Market = "spot" if item.spot else "on_demand"
        yield ReferencePrice(item.provider, _node_type(item), _region(item), market, item.price)


def _node_type(item: Any) -> str:
    """Returns the node type of the catalog, where N1 nodes of Google name their GPUs."""
    if item.provider == "gcp" and item.instance_name.startswith("n1-"):
        return f"{item.instance_name}+{item.gpu_count}x{item.gpu_name}"
    return str(item.instance_name)


def _region(item: Any) -> str:
    return re.sub(r"-[a-z]$", "", item.location) if item.provider == "gcp" else str(item.location)
