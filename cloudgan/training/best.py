"""The checkpoint whose generator was the best so far, as every later checkpoint remembers it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.record_line import Loss

if TYPE_CHECKING:
    from cloudgan.core.until import Until


class Best(BaseModel):
    """Its place and all that was measured of it, so that another number can rank it later."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    step: int = Field(ge=0)
    epoch: int = Field(ge=0)
    numbers: dict[str, Loss]

    def as_json(self) -> dict[str, Any]:
        """Returns it for programs; what is no number is null there."""
        numbers = {name: v if math.isfinite(v) else None for name, v in self.numbers.items()}
        return {"step": self.step, "epoch": self.epoch, "numbers": numbers}

    def value(self, ranking: Until) -> float:
        """Returns the number that ranks it; no number where that was not measured."""
        return self.numbers.get(ranking.name, math.nan)

    def beats(self, other: Best | None, ranking: Until) -> bool:
        """Whether it is better than `other`; of two that are as good, the earlier one stays."""
        value = self.value(ranking)
        if other is None or math.isnan(value):
            return not math.isnan(value)
        return ranking.is_better(value, other.value(ranking))
