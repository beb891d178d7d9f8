"""What was foretold of a run, what was measured and what its cloud billed, side by side."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from cloudgan.core.price_row import Text

BillPart = Literal["compute", "disk", "storage", "network", "control plane", "other"]
BILL_PARTS: tuple[BillPart, ...] = (
    "compute",
    "disk",
    "storage",
    "network",
    "control plane",
    "other",
)


class Compared(BaseModel):
    """One figure of a run in three ways; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Text
    low: float | None = Field(default=None, description="edge of the forecast")
    predicted: float | None = None
    high: float | None = None
    measured: float | None = None
    billed: float | None = Field(default=None, description="by the cloud, before credits")
    why: str = Field(default="", description="of the largest difference, where it can be computed")


class BilledPart(BaseModel):
    """One part of a cloud's bill, beside what cloudgan counted for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: BillPart
    billed_usd: float
    measured_usd: float | None = Field(description="None: unknown, or not counted")
    why: str = Field(description="they differ")


class ProviderBill(BaseModel):
    """What a cloud's billing export says of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[str, ...]
    formats: tuple[str, ...]
    lines: int = Field(ge=0, description="of this run")
    lines_in_all: int = Field(ge=0)
    parts: tuple[BilledPart, ...]
    billed_usd: float = Field(description="before credits")
    credits_usd: float = Field(description="credits and discounts: zero or below")
    other_currencies: dict[str, float] = Field(
        description="by currency, credits and all: neither converted nor added"
    )
    until: AwareDatetime | None = Field(description="the latest use in the files, of any run")
    is_complete: bool | None = Field(description="whether they reach beyond the run; None: unknown")
    notes: tuple[str, ...] = ()
