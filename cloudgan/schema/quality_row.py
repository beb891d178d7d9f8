"""A row of `compare --to-quality`: time and cost of runs until they met a goal of quality, over seeds.

Time to accuracy and cost to accuracy as in DAWNBench (C. Coleman et al., ML Systems Workshop at NIPS 2017,
https://dawn.cs.stanford.edu/publications/dawnbench/dawnbench-end-end-deep-learning-benchmark-and-competition,
and arXiv:1806.01427; both read 2026-11-22).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field

from cloudgan.core.document import Document
from cloudgan.schema.price_row import Text
from cloudgan.schema.record_line import Seconds

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
