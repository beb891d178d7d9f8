"""What a whole job costs on an offer, and why that offer was chosen: parts of a plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.price_row import Text

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CostPart(_Part):
    """A part of what a whole job costs, in USD; None is unknown and `why_unknown` says why."""

    name: Text
    low_usd: Usd | None = None
    usd: Usd | None = Field(default=None, description="at the slow edge of what is known")
    why_unknown: str = ""


class JobCost(_Part):
    """What a whole job costs: its training and everything that is paid beside it."""

    parts: tuple[CostPart, ...]
    known_low_usd: Usd = Field(description="of the parts that are known")
    known_usd: Usd = Field(description="of the parts that are known, at the slow edge")
    unknown: tuple[Text, ...] = Field(default=(), description="parts that nobody knows")
    startup_low_seconds: Seconds | None = Field(default=None, description="until nodes are there")
    startup_seconds: Seconds | None = Field(default=None, description="at the slow edge")
    startup_basis: str = ""
    fees_usd_per_hour: Usd = Field(
        default=0.0, description="of the cluster around the nodes, as far as that is known"
    )


class Alternative(_Part):
    """An offer that would do as well, and for how much."""

    offer: Text
    nodes: Count
    known_usd: Usd | None = Field(description="None: nothing is known of its speed")
    unknown: tuple[Text, ...] = ()
    seconds: Seconds | None = Field(default=None, description="of training, at the slow edge")
    grade: str | None = None


class PassedOver(_Part):
    """Offers that were not taken, and why not."""

    why: Text
    count: Count
    examples: tuple[Text, ...] = Field(description="the first few")


class Choice(_Part):
    """Why this offer and no other."""

    why: Text
    market_why: Text = Field(description="why spot, or why on demand")
    alternatives: tuple[Alternative, ...] = Field(default=(), description="the next best first")
    passed_over: tuple[PassedOver, ...] = ()
