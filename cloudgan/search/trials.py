"""What is known of each trial of a search, and how its keys are named."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.schema.search import Point


class Fold(Document):
    """One fold of a trial."""

    number: int = Field(description="its first held-out shower")
    value: float | None = Field(description="its objective")
    seconds: float | None = Field(description="as of a trial")
    run: Path = Field(description="its folder, an ordinary run")


class Trial(Document):
    """One trial of a search."""

    number: int = Field(description="from 0")
    state: str = Field(description="complete, pruned, failed or unfinished")
    value: float | None = Field(description="its objective, with folds their mean")
    point: Point = Field(description="values by key of run.yaml")
    seconds: float | None = Field(
        description="program time of all its processes, of a killed one until the last line of its record"
    )
    run: Path = Field(description="its folder, an ordinary run; with folds that of the first one")
    reason: str = Field("", description="why it failed")
    second: float | None = Field(None, description="its second objective")
    folds: tuple[Fold, ...] = Field((), description="empty: the trial is one run")
    deviation: float | None = Field(
        None, description="standard deviation of the objective over the folds, if each has a number"
    )


def key_name(key: str) -> str:
    """Returns a key of run.yaml in words: ``learning rate`` for ``model.learning_rate``."""
    group, _, name = key.rpartition(".")
    words = name.replace("_", " ")
    return f"weight of {words}" if group.endswith("loss_weights") else words
