"""What is known for a carbon footprint: power of accelerators, carbon in a region's electricity."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloudgan.core.dated_fact import Date, DatedFact
from cloudgan.core.price_row import Positive, Text


class PowerRow(DatedFact):
    """A line of `power.csv`: what one accelerator, or one TPU chip, draws."""

    accelerator: Text
    watts: Positive
    basis: Literal["rated", "measured average"] = Field(
        description="rated: the most it may draw, so an upper bound of the accelerator itself"
    )
    source: Text
    date: Date
    confidence: Literal["A", "B"] = Field(
        description="A: stands in the source; B: a part is derived"
    )
    note: str = ""


class GridRow(DatedFact):
    """A line of `grid.csv`: carbon of the local grid, nothing bought elsewhere taken off."""

    provider: Text
    region: Text
    g_per_kwh: Positive = Field(description="grams of CO2 equivalent per kilowatt hour")
    source: Text
    date: Date
    note: str = ""
