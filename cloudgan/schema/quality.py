"""Validation quality of a run's generator: the newest and the best result, a finished epoch as a row, and what a goal took.

Time to accuracy and cost to accuracy as in DAWNBench (C. Coleman et al., ML Systems Workshop at NIPS 2017,
https://dawn.cs.stanford.edu/publications/dawnbench/dawnbench-end-end-deep-learning-benchmark-and-competition,
and arXiv:1806.01427; both read 2026-11-22).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.core.durations import format_duration
from cloudgan.schema.losses import totals
from cloudgan.schema.price_row import Text
from cloudgan.schema.record import Epoch, Validated
from cloudgan.schema.record_line import Seconds


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


Outcome = Literal["met", "never met", "not judged"]


class RunToQuality(Document):
    """One run: when it first met the goal, and what it cost until then; None is unknown, or never."""

    run: Text
    seed: int | None
    outcome: Outcome
    detail: str = Field(description="of the validation, or why there is no judgement")
    step: int | None = Field(None, ge=0, description="of the checkpoint that met the goal")
    train_seconds: Seconds | None = Field(
        None, description="training until then, including work that was lost and repeated"
    )
    program_seconds: Seconds | None = Field(
        None,
        description="wall-clock time of all processes until then: start-up, training, validation,"
        " checkpoints; not the wait for nodes",
    )
    usd: float | None = Field(None, ge=0, allow_inf_nan=False, description="cost until then")
    usd_unknown: tuple[str, ...] = Field(
        (), description="unknown line items: the cost is at least usd"
    )
    why_unknown: str = Field("", description="why a time or the cost of a run that met is unknown")


class Spread(Document):
    """Median and range over the judged runs; a run that never met the goal counts as infinite."""

    median: float | None = Field(ge=0, allow_inf_nan=False, description="None: see why")
    low: float | None = Field(ge=0, allow_inf_nan=False)
    high: float | None = Field(ge=0, allow_inf_nan=False, description="None: see why, or never met")
    why: Literal["", "never met", "not judged", "unknown"] = Field(
        description="why the median is None; unknown: so for at least one run that met the goal"
    )

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Self:
        """Returns the spread of `values`; infinite: never, None: unknown."""
        values = tuple(values)
        known = sorted(value for value in values if value is not None)
        if not values or len(known) < len(values):
            return cls(median=None, low=None, high=None, why="unknown" if values else "not judged")
        low, median, high = (
            value if math.isfinite(value) else None
            for value in (known[0], statistics.median(known), known[-1])
        )
        return cls(median=median, low=low, high=high, why="never met" if median is None else "")


class QualityRow(Document):
    """Runs of one configuration on one kind of machine that differ in their seeds only."""

    schema_version: Literal[1] = 1
    goal: Text = Field(description="acceptance gates, or a stop criterion such as metric<0.15")
    gates: str = Field(
        description="digest of the measures and limits of the gates; empty: a stop criterion"
    )
    configuration: Text = Field(description="digest of run.yaml without name and seed")
    networks: str | None
    training_showers: int | None
    machine: Text
    replicas: int | None
    global_batch_size: int | None
    priced_as: str | None = Field(description="offer whose price counts; None: no price")
    billed: bool = Field(
        description="on nodes at this price; False: the time of another machine at this price"
    )
    cloudgan: str | None = Field(description="version that trained")
    runs: tuple[RunToQuality, ...] = Field(min_length=1)
    train_seconds: Spread
    program_seconds: Spread
    usd: Spread

    def count(self, outcome: Outcome) -> int:
        """Returns the number of runs with this outcome."""
        return sum(run.outcome == outcome for run in self.runs)
