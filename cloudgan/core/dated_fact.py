"""A fact that a source said on a day: prices, fees, powers, grids."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

UNKNOWN_DATE = "unknown"
STALE_DAYS = 90


def _iso_or_unknown(text: str) -> str:
    if text != UNKNOWN_DATE and dt.date.fromisoformat(text).isoformat() != text:
        raise ValueError("write YYYY-MM-DD or unknown")
    return text


Date = Annotated[
    str,
    AfterValidator(_iso_or_unknown),
    Field(description="when the source says it held, YYYY-MM-DD, or unknown"),
]


class DatedFact(BaseModel):
    """What rows of all tables of facts share; each has its `date` where its file has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    if TYPE_CHECKING:
        date: str

    def age_days(self, today: dt.date) -> int | None:
        """Days since the date of the row; None where that is unknown."""
        if self.date == UNKNOWN_DATE:
            return None
        return (today - dt.date.fromisoformat(self.date)).days
