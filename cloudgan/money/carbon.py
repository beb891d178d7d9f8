"""Carbon of an epoch: accelerator power times the carbon intensity of the region's grid.

Covers accelerators only, mostly at rated power; hosts, network, cooling and the cloud's offsets are
excluded. An order of magnitude to compare regions.
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from typing import Literal, NamedTuple

from pydantic import Field

from cloudgan.core.errors import ConfigError
from cloudgan.core.table import read_keyed
from cloudgan.schema.price_row import Date, Positive, PriceRow, SourcedRow, Text

COVERS = (
    "accelerators only, without hosts, network and cooling; local grid, without the cloud's offsets"
)
_JOULES_PER_KWH = 3.6e6


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


class CarbonEstimate(NamedTuple):
    """Grams of CO2 equivalent, and the energy, which needs no row of the grid; None and a reason if unknown."""

    grams: float | None
    kwh: float | None
    why_unknown: str


class CarbonFactors(NamedTuple):
    """Power by accelerator, and grids by provider and region."""

    power: dict[str, PowerRow]
    grid: dict[tuple[str, str], GridRow]


def carbon_g_per_epoch(row: PriceRow, seconds: float | None, nodes: int) -> CarbonEstimate:
    """Returns the carbon of an epoch of so many seconds; None: unknown."""
    if nodes < 1 or (seconds is not None and (not math.isfinite(seconds) or seconds < 0)):
        raise ConfigError(
            f"invalid epoch of {seconds} s on {nodes} nodes: expected 0 s or more on 1 node or more"
        )
    facts = load_carbon_factors()
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
        return CarbonEstimate(None, None, "; ".join(reasons))
    kwh = power.watts * row.accelerator_count * nodes * seconds / _JOULES_PER_KWH
    grams = kwh * grid.g_per_kwh if grid else None
    return CarbonEstimate(grams, kwh, "; ".join(reasons))


@functools.cache
def load_carbon_factors() -> CarbonFactors:
    """Reads power.csv and grid.csv."""
    place = resources.files("cloudgan.money") / "lists"
    return CarbonFactors(
        read_keyed(place / "power.csv", PowerRow, lambda row: row.accelerator),
        read_keyed(place / "grid.csv", GridRow, lambda row: (row.provider, row.region)),
    )
