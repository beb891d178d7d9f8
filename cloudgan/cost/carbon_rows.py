"""What is known for a carbon footprint: power of accelerators, carbon in a region's electricity."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cloudgan.core.price_row import UNKNOWN_DATE, Positive, Text


def _iso_or_unknown(text: str) -> str:
    if text != UNKNOWN_DATE and dt.date.fromisoformat(text).isoformat() != text:
        raise ValueError("write YYYY-MM-DD or unknown")
    return text


Date = Annotated[str, AfterValidator(_iso_or_unknown)]


class _Fact(BaseModel):
    """Something that a source said on a day."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def age_days(self, today: dt.date) -> int | None:
        """Days since the date of the row; None where that is unknown."""
        date = str(getattr(self, "date", UNKNOWN_DATE))
        return None if date == UNKNOWN_DATE else (today - dt.date.fromisoformat(date)).days


class PowerRow(_Fact):
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


class GridRow(_Fact):
    """A line of `grid.csv`: carbon of the local grid, nothing bought elsewhere taken off."""

    provider: Text
    region: Text
    g_per_kwh: Positive = Field(description="grams of CO2 equivalent per kilowatt hour")
    source: Text
    date: Date
    note: str = ""
