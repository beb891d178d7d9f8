"""Carbon of an epoch: power of its accelerators times the carbon in the region's electricity.

Only accelerators count, mostly at their rated power. Hosts, networks and cooling are not in it, and
neither is what a cloud buys elsewhere to make up for it: an order of magnitude to compare places by.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.cost.carbon_rows import GridRow, PowerRow
from cloudgan.cost.table import read_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from cloudgan.core.price_row import PriceRow

COVERS = (
    "accelerators only, without hosts, network and cooling; the local grid as it is, without what"
    " the cloud buys elsewhere"
)
_JOULES_PER_KWH = 3.6e6
_Row = TypeVar("_Row", bound=BaseModel)


@dataclass(frozen=True)
class Carbon:
    """Grams of CO2 equivalent, or why nobody knows.

    Attributes:
        grams: None where a part is unknown.
        why_unknown: Empty where it is known.
        power: The row that was used, where there is one.
        grid: The row that was used, where there is one.
    """

    grams: float | None
    why_unknown: str
    power: PowerRow | None
    grid: GridRow | None


@dataclass(frozen=True)
class CarbonFacts:
    """Power by accelerator, and grids by provider and region."""

    power: dict[str, PowerRow]
    grid: dict[tuple[str, str], GridRow]


def carbon_g_per_epoch(
    row: PriceRow, seconds: float | None, nodes: int, facts: CarbonFacts | None = None
) -> Carbon:
    """Returns what an epoch on some nodes emits.

    Args:
        row: The node, for its accelerators and its region.
        seconds: Of the epoch; None where nobody knows.
        nodes: How many of them.
        facts: Other than those in the package.

    Raises:
        ConfigError: Time or number of nodes cannot be.
    """
    if nodes < 1 or (seconds is not None and (not math.isfinite(seconds) or seconds < 0)):
        raise ConfigError(f"an epoch of {seconds} s on {nodes} nodes cannot be")
    facts = facts or load_carbon_facts()
    power = facts.power.get(row.accelerator)
    grid = facts.grid.get((row.provider, row.region))
    reasons = []
    if seconds is None:
        reasons.append("the time of an epoch is unknown")
    if power is None:
        reasons.append(f"no source says what one {row.accelerator} draws")
    if grid is None:
        reasons.append(f"no source says how much carbon is in {row.provider} {row.region}")
    if seconds is None or power is None or grid is None:
        return Carbon(None, "; ".join(reasons), power, grid)
    kwh = power.watts * row.accelerator_count * nodes * seconds / _JOULES_PER_KWH
    return Carbon(kwh * grid.g_per_kwh, "", power, grid)


@functools.cache
def load_carbon_facts(folder: Path | None = None) -> CarbonFacts:
    """Reads and checks power.csv and grid.csv; without a folder those in the package.

    Raises:
        DataError: A row is wrong or stands twice; the message names file and line.
    """
    place: Path | Traversable = folder or resources.files("cloudgan.cost") / "prices"
    return CarbonFacts(
        _by(place / "power.csv", PowerRow, lambda row: row.accelerator),
        _by(place / "grid.csv", GridRow, lambda row: (row.provider, row.region)),
    )


_Name = TypeVar("_Name")


def _by(
    path: Path | Traversable, model: type[_Row], name_of: Callable[[_Row], _Name]
) -> dict[_Name, _Row]:
    found: dict[_Name, _Row] = {}
    for line, row in read_table(path, model):
        name = name_of(row)
        if name in found:
            raise DataError(f"{path}:{line}: {name} stands there already")
        found[name] = row
    return found
