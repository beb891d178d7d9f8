"""Carbon of an epoch: accelerator power times the carbon intensity of the region's grid.

Covers accelerators only, mostly at rated power; hosts, network, cooling and the cloud's offsets are
excluded. An order of magnitude to compare regions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.table import read_table
from cloudgan.schema.price_row import Date, Positive, PriceRow, SourcedRow, Text

COVERS = (
    "accelerators only, without hosts, network and cooling; local grid, without the cloud's offsets"
)
_JOULES_PER_KWH = 3.6e6
_Row = TypeVar("_Row", bound=BaseModel)
_Key = TypeVar("_Key")


class PowerRow(SourcedRow):
    """A row of `power.csv`: power of one accelerator, or one TPU chip."""

    accelerator: Text
    watts: Positive
    basis: Literal["rated", "measured average"] = Field(
        description="rated: maximum power, an upper bound"
    )
    source: Text
    date: Date
    confidence: Literal["A", "B"] = Field(description="A: in the source; B: partly derived")
    note: str = ""


class GridRow(SourcedRow):
    """A row of `grid.csv`: carbon intensity of the local grid, without offsets."""

    provider: Text
    region: Text
    g_per_kwh: Positive = Field(description="grams of CO2 equivalent per kilowatt hour")
    source: Text
    date: Date
    note: str = ""


@dataclass(frozen=True)
class CarbonEstimate:
    """Grams of CO2 equivalent with the rows used; None and a reason if unknown.

    The energy `kwh` needs no row of the grid.
    """

    grams: float | None
    kwh: float | None
    why_unknown: str
    power: PowerRow | None
    grid: GridRow | None


@dataclass(frozen=True)
class CarbonFactors:
    """Power by accelerator, and grids by provider and region."""

    power: dict[str, PowerRow]
    grid: dict[tuple[str, str], GridRow]


def carbon_g_per_epoch(
    row: PriceRow, seconds: float | None, nodes: int, facts: CarbonFactors | None = None
) -> CarbonEstimate:
    """Returns the carbon of an epoch.

    Args:
        row: Node type, with accelerators and region.
        seconds: Duration of the epoch; None if unknown.
        nodes: Number of nodes.
        facts: Default: those of the package.
    """
    if nodes < 1 or (seconds is not None and (not math.isfinite(seconds) or seconds < 0)):
        raise ConfigError(
            f"invalid epoch of {seconds} s on {nodes} nodes: expected 0 s or more on 1 node or more"
        )
    facts = facts or load_carbon_factors()
    power = facts.power.get(row.accelerator)
    grid = facts.grid.get((row.provider, row.region))
    reasons = []
    if seconds is None:
        reasons.append("the time of an epoch is unknown")
    if power is None:
        reasons.append(f"no source for the power of one {row.accelerator}")
    if grid is None:
        reasons.append(f"no source for the carbon intensity of {row.provider} {row.region}")
    if seconds is None or power is None:
        return CarbonEstimate(None, None, "; ".join(reasons), power, grid)
    kwh = power.watts * row.accelerator_count * nodes * seconds / _JOULES_PER_KWH
    grams = kwh * grid.g_per_kwh if grid else None
    return CarbonEstimate(grams, kwh, "; ".join(reasons), power, grid)


@functools.cache
def load_carbon_factors(folder: Path | None = None) -> CarbonFactors:
    """Reads power.csv and grid.csv; without a folder those of the package."""
    place: Path | Traversable = folder or resources.files("cloudgan.money") / "lists"
    return CarbonFactors(
        _by_key(place / "power.csv", PowerRow, lambda row: row.accelerator),
        _by_key(place / "grid.csv", GridRow, lambda row: (row.provider, row.region)),
    )


def _by_key(
    path: Path | Traversable, model: type[_Row], key_of: Callable[[_Row], _Key]
) -> dict[_Key, _Row]:
    found: dict[_Key, _Row] = {}
    for line, row in read_table(path, model):
        key = key_of(row)
        if key in found:
            raise DataError(f"{path}:{line}: duplicate row of {key}")
        found[key] = row
    return found
