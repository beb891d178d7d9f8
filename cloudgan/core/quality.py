"""How good a run's generator is by now, as a heartbeat and a line for people say it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.core.validated import Validated


class Quality(BaseModel):
    """The newest validation and the best one; a value of None is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="the number by which the best checkpoint is chosen")
    value: float | None = Field(allow_inf_nan=False)
    epoch: int = Field(ge=0, description="after which it was found, from 0")
    best_value: float | None = Field(None, allow_inf_nan=False)
    best_epoch: int | None = Field(None, ge=0)
    best_step: int | None = Field(None, ge=0, description="its checkpoint is kept")

    def __str__(self) -> str:
        value = "no number" if self.value is None else f"{self.value:.4g}"
        told = f"{self.name} {value} after epoch {self.epoch + 1}"
        if self.best_value is None or self.best_epoch is None:
            return told
        if self.best_epoch == self.epoch:
            return f"{told}, the best so far"
        return f"{told}, best {self.best_value:.4g} after epoch {self.best_epoch + 1}"


def best_step(validations: Sequence[Validated]) -> int | None:
    """Returns after which step the generator was the best; None where none was looked at."""
    return next((each.step for each in reversed(validations) if each.best), None)


def quality_of(validations: Sequence[Validated]) -> Quality | None:
    """Returns what is known by the last of `validations`; None without any."""
    if not validations:
        return None
    last = validations[-1]
    best = next((each for each in reversed(validations) if each.best), None)
    return Quality(
        name=last.by,
        value=_number(last, last.by),
        epoch=last.epoch,
        best_value=_number(best, last.by) if best else None,
        best_epoch=best.epoch if best else None,
        best_step=best.step if best else None,
    )


def _number(found: Validated, name: str) -> float | None:
    value = found.numbers.get(name, math.nan)
    return value if math.isfinite(value) else None
