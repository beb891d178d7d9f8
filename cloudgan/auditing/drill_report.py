"""What a drill did and saw: `report.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.price_row import Text

FILE_NAME = "report.json"


class ExerciseReport(BaseModel):
    """One step of a drill."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    proves: Text
    expects: Text
    most_minutes: float = Field(ge=0, description="with both nodes up")
    most_usd: float = Field(ge=0, allow_inf_nan=False)
    outcome: Literal["passed", "failed", "not run"] = "not run"
    saw: str = ""
    seconds: float | None = Field(default=None, ge=0)


class DrillReport(BaseModel):
    """A whole drill, also one that was broken off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    drill: Text
    provider: Text
    account: str | None = None
    region: str | None = None
    accelerator: Text
    began: Text = Field(description="UTC, ISO 8601")
    cloudgan: Text = Field(description="version")
    usd_per_hour: float = Field(ge=0, allow_inf_nan=False, description="of nodes and cluster")
    not_in_the_price: tuple[str, ...] = Field(
        default=(), description="what nobody knows a price of"
    )
    exercises: tuple[ExerciseReport, ...]
    left: tuple[str, ...] = Field(default=(), description="what is there still; none should be")

    @property
    def has_passed(self) -> bool:
        """Whether every step did what was expected, and nothing is left."""
        return all(one.outcome == "passed" for one in self.exercises) and not self.left

    @property
    def most_usd(self) -> float:
        """What it can cost, if every step takes as long as it may."""
        return sum(one.most_usd for one in self.exercises)
