"""Interruptions of spot nodes in public traces, by cloud and accelerator.

An interruption is a moment at which the cloud took one or several nodes of a trace: nodes are mostly
taken in groups, and a job of several nodes stops once for all that are taken together.
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from cloudgan.core.table import read_table
from cloudgan.schema.price_row import Date, SourcedRow, Text

_Count = Annotated[int, Field(ge=1, le=10**6)]


class InterruptionTrace(SourcedRow):
    """A row of `interruptions.csv`: the observed nodes of one place."""

    provider: Text
    accelerator: Text
    node_type: Text
    zone: Text
    nodes: _Count = Field(description="requested at the same time")
    node_hours: float = Field(gt=0, le=1e9, allow_inf_nan=False)
    interruptions: _Count = Field(description="moments at which one or several nodes were taken")
    source: Text
    date: Date
    note: str = ""

    @property
    def per_node_hour(self) -> float:
        """Interruptions per node and hour."""
        return self.interruptions / self.node_hours


class InterruptionRate(NamedTuple):
    """Interruptions per spot node and hour: of all traces together, and of single traces.

    Attributes:
        per_node_hour: All interruptions over all node-hours.
        low: Of the quietest trace.
        high: Of the busiest trace.
        accelerators: Of the traces; not the requested one if that has none on its cloud.
    """

    per_node_hour: float
    low: float
    high: float
    accelerators: tuple[str, ...]

    @property
    def basis(self) -> str:
        """For example ``public traces of V100, 0.05 to 0.29 by zone``."""
        names = " and ".join(self.accelerators)
        return f"public traces of {names}, {self.low:.2g} to {self.high:.2g} by zone"


@functools.cache
def load_interruption_traces(path: Path | None = None) -> tuple[InterruptionTrace, ...]:
    """Reads the traces; without a path those of the package.

    Raises:
        DataError: A row is invalid; the message names file and line.
    """
    place = path or resources.files("cloudgan.speed") / "interruptions.csv"
    return tuple(row for _, row in read_table(place, InterruptionTrace))


@functools.cache
def interruption_rate(provider: str, accelerator: str) -> InterruptionRate | None:
    """Returns the rate of an accelerator on a cloud; without a trace that of the cloud's others.

    None: the package has no trace of the cloud.
    """
    there = [one for one in load_interruption_traces() if one.provider == provider]
    found = [one for one in there if one.accelerator == accelerator] or there
    if not found:
        return None
    rates = [one.per_node_hour for one in found]
    hours = math.fsum(one.node_hours for one in found)
    names = tuple(sorted({one.accelerator for one in found}))
    total = sum(one.interruptions for one in found)
    return InterruptionRate(total / hours, min(rates), max(rates), names)
