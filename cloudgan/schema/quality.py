"""Validation quality of a run's generator: the newest and the best result, and a finished epoch as a row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.durations import format_duration
from cloudgan.schema.losses import totals
from cloudgan.schema.record import Epoch, Validated


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


def epoch_row(line: Epoch, validated: Validated | None = None) -> str:
    """Returns such as ``epoch  3  G 65.17  D 23.9   544 showers  1.5 s   metric 0.071 best``."""
    generator, discriminator = totals(line.losses)
    row = f"epoch {line.epoch + 1:>2}  G {generator:<6.4g} D {discriminator:<6.3g}"
    row += f" {line.samples:,} showers  {format_duration(round(line.train_seconds, 1))}"
    return f"{row}   {quality_note(validated)}" if validated else row


def quality_note(found: Validated) -> str:
    """Returns such as ``metric 0.071 best``."""
    value = found.metrics.get(found.ranked_by)
    number = "unknown" if value is None else f"{value:.4g}"
    return f"{found.ranked_by} {number}{' best' if found.best else ''}"
