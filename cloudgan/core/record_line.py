"""What all lines of a run's record have, and the kinds of numbers that stand in them."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


def _lost_number(value: object) -> object:
    return math.nan if value is None else value  # as earlier records hold it


Loss = Annotated[float, BeforeValidator(_lost_number)]


class RecordLine(BaseModel):
    """One line of `record.jsonl`."""

    # A held-back loss may be no number; null could not be told from a loss that is missing.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    schema_version: Literal[1] = 1
    time: str = Field(description="UTC, ISO 8601")
    step: int = Field(ge=0, description="steps of the run that were finished by then")
