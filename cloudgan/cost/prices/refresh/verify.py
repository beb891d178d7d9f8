"""Compares the catalog with a second source, gpuhunt (MPL-2.0).

gpuhunt: https://github.com/dstackai/gpuhunt
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, ConfigError, install_command, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cloudgan.schema.price_row import Market, PriceRow

TOLERANCE = 0.05
_SUMS_TPU_SPOT = frozenset({"TPU-v2", "TPU-v3", "TPU-v4"})
_LOCAL_GIB_PER_GPU = {"a2-ultragpu": 375, "a3-highgpu": 750, "a3-megagpu": 750, "a3-ultragpu": 1500}
"""https://docs.cloud.google.com/compute/docs/gpus (read 2026-11-22)"""
_MOST_USD_PER_LOCAL_GIB_HOUR = 0.12 / 730
"""A local disk is 0.08 USD per GiB and month in us-central1, and at most half as much again elsewhere."""


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
            found.append(Disagreement(row, usd, _remark(row, usd)))
    found.sort(key=lambda one: (-abs(one.difference), one.row.row_id))
    return Verification(agreed, tuple(found), unknown)


def _remark(row: PriceRow, usd: float) -> str:
    """Returns the known reason of a difference of this size, or ""."""
    times = usd / row.usd_per_hour / row.accelerator_count if row.accelerator_count else 0.0
    if (
        row.accelerator in _SUMS_TPU_SPOT
        and row.market == "spot"
        and math.isclose(times, 1, rel_tol=0.5)
    ):
        return "gpuhunt multiplies spot prices of TPU v2 to v4 by chips although they are per slice"
    family = row.node_type.rpartition("-")[0]
    gib = _LOCAL_GIB_PER_GPU.get(family, 0) * row.accelerator_count
    if 0 < usd - row.usd_per_hour <= gib * _MOST_USD_PER_LOCAL_GIB_HOUR:
        return "gpuhunt includes local disks, cloudgan does not"
    return ""


_HOW = f"prices verify requires gpuhunt; run {install_command('verify')}"


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
    with _captured_log() as reasons:
        try:
            catalog = gpuhunt.Catalog(auto_reload=False)
            if not settings.variable("GPUHUNT_CATALOG_DIR"):
                catalog.load()
            items = catalog.query(provider=list(providers))
        except Exception as error:  # noqa: BLE001  of any library that gpuhunt uses
            reasons.append(str(error))
            items = []
    if not items:
        why = f" ({shorten(reasons[0])})" if reasons and reasons[0] else ""
        raise CloudganError(f"gpuhunt returned no prices{why}; check the network connection")
    return tuple(_seconds(items))


@contextlib.contextmanager
def _captured_log() -> Iterator[list[str]]:
    """Keeps the warnings of gpuhunt, which logs a traceback for each catalog that it cannot read."""
    reasons: list[str] = []

    class Handler(logging.Handler):
        def emit(self, line: logging.LogRecord) -> None:
            if line.levelno >= logging.WARNING:
                error = line.exc_info[1] if line.exc_info else None
                reasons.append(" ".join(str(error or line.getMessage()).split()))

    logger, handler = logging.getLogger("gpuhunt"), Handler()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield reasons
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


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
