"""Validation quality of a run's generator: the newest and the best result."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.schema.record import Validated


class Quality(Document):
    """The newest validation and the best one; a value of None is not finite."""

    name: str = Field(max_length=100, description="metric that ranks the checkpoints")
    value: float | None = Field(allow_inf_nan=False)
    epoch: int = Field(ge=0, description="validated epoch, from 0")
    best_value: float | None = Field(None, allow_inf_nan=False)
    best_epoch: int | None = Field(None, ge=0)
    best_step: int | None = Field(None, ge=0, description="step of the kept checkpoint")

    def __str__(self) -> str:
        value = "not finite" if self.value is None else f"{self.value:.4g}"
        text = f"{self.name} {value} after epoch {self.epoch + 1}"
        if self.best_value is None or self.best_epoch is None:
            return text
        if self.best_epoch == self.epoch:
            return f"{text}, the best so far"
        return f"{text}, best {self.best_value:.4g} after epoch {self.best_epoch + 1}"


def best_step(validations: Sequence[Validated]) -> int | None:
    """Returns the step of the best validation; None without a validation."""
    return next((each.step for each in reversed(validations) if each.best), None)


def quality_of(validations: Sequence[Validated]) -> Quality | None:
    """Returns the quality after the last of `validations`; None without any."""
    if not validations:
        return None
    last = validations[-1]
    best = next((each for each in reversed(validations) if each.best), None)
    return Quality(
        name=last.ranked_by,
        value=_number(last, last.ranked_by),
        epoch=last.epoch,
        best_value=_number(best, last.ranked_by) if best else None,
        best_epoch=best.epoch if best else None,
        best_step=best.step if best else None,
    )


def _number(found: Validated, name: str) -> float | None:
    value = found.metrics.get(name, math.nan)
    return value if math.isfinite(value) else None
