"""A line of the record: how good the generator was after an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from cloudgan.core.record_line import Count, Loss, RecordLine, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudgan.core.record import Line


class Validated(RecordLine):
    """Showers of the generator were held against held-back ones."""

    kind: Literal["validated"] = "validated"
    epoch: int = Field(ge=0, description="the one that was just over")
    showers: Count
    numbers: dict[str, Loss]
    seconds: Seconds = Field(description="part of an epoch's validation_seconds")
    by: str = Field(description="the number by which the best checkpoint is chosen")
    best: bool = Field(description="no earlier one was as good: its checkpoint is kept")
    until: str = Field("", description="what ends the run once it holds; empty: nothing was asked")
    reached: bool = Field(False, description="it holds")
    program_seconds: Seconds = Field(description="of this process, when all this was known")


def counted_validations(lines: Iterable[Line]) -> tuple[Validated, ...]:
    """Returns those that count, by rising step: what is run again after a resume stands once."""
    kept: dict[int, Validated] = {}
    for line in lines:
        if line.kind in ("started", "resumed"):
            kept = {step: each for step, each in kept.items() if step <= line.step}
        elif line.kind == "validated":
            kept[line.step] = line
    return tuple(kept[step] for step in sorted(kept))
