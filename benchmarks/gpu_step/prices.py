"""What an epoch costs at a speed, from the rows of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.money.catalog import load_catalog
from cloudgan.speed.measured import load_accelerator_specs, name_of_device

if TYPE_CHECKING:
    from cloudgan.money.catalog import Catalog
    from cloudgan.schema.price_row import PriceRow

EPOCH_SHOWERS = 124_987  # of the paper's data set
PUBLISHED_USD = 0.2775  # arXiv:2111.04628, its cheapest epoch: a preemptible TPU v3-8
GOAL_USD = 0.05


def spot_rows(device: str, catalog: Catalog | None = None) -> tuple[PriceRow, ...]:
    """Returns the cheapest spot row of each provider that rents this device, cheapest first.

    Args:
        device: As its driver calls it, or as the catalogue does.
        catalog: Without one the package's.
    """
    catalog = catalog or load_catalog()
    name = name_of_device(device, load_accelerator_specs())
    if name is None or name not in catalog.accelerators():
        return ()
    rows = [row for row in catalog.find(accelerator=name, market="spot") if row.accelerator == name]
    rows.sort(key=usd_per_gpu_hour)
    return tuple({row.provider: row for row in reversed(rows)}.values())[::-1]


def usd_per_gpu_hour(row: PriceRow) -> float:
    """Returns one GPU's share of its node."""
    return row.usd_per_hour / row.accelerator_count


def epoch_usd(samples_per_second: float, row: PriceRow) -> float:
    """Returns what an epoch's steps cost on one GPU: no start-up, no input, no validation.

    The GPU is charged its share of the node, as if the others were as busy.
    """
    hours = EPOCH_SHOWERS / samples_per_second / 3600
    return hours * usd_per_gpu_hour(row)
