"""What is said about two samples of showers: numbers, each with its error and its floor."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict

AT_FLOOR_ERRORS = 2.0
"""A number this many standard errors above its floor is still at the floor."""


class Part(BaseModel):
    """A frozen piece of a result."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Measure(Part):
    """One number about generated against reference showers; None is unknown, and a note says why.

    Attributes:
        name: What is measured, such as ``response``; gates name it.
        where: The bin or the histogram, such as ``10-40 GeV`` or ``hits``; empty for all.
        value: What was found.
        error: Its standard error, from bootstrap samples.
        floor: The same number for two random halves of the reference: what chance alone gives,
            with half as many showers. The mean over several halvings.
        floor_error: Standard deviation over those halvings.
        ideal: Where a perfect generator is with endless showers: 1 for ratios and slopes, 0 for
            distances, 0.5 for an AUC.
    """

    name: str
    where: str = ""
    value: float | None
    error: float | None = None
    floor: float | None = None
    floor_error: float | None = None
    ideal: float = 0.0

    @property
    def away(self) -> float | None:
        """Distance from the ideal."""
        return None if self.value is None else abs(self.value - self.ideal)

    @property
    def floor_away(self) -> float | None:
        """Distance of the floor from the ideal, with the scatter of the halvings."""
        if self.floor is None:
            return None
        return math.hypot(self.floor - self.ideal, self.floor_error or 0.0)

    @property
    def is_at_floor(self) -> bool:
        """Whether chance alone would give as much."""
        if self.away is None or self.floor is None:
            return False
        scatter = math.hypot(self.error or 0.0, self.floor_error or 0.0)
        return self.away <= abs(self.floor - self.ideal) + AT_FLOOR_ERRORS * scatter


class Sample(Part):
    """What was compared.

    Attributes:
        name: Of a file or a generator.
        showers: How many were looked at.
        cells: Of an image, in x, y and depth.
        energy_range_gev: Of the showers that were looked at.
    """

    name: str
    showers: int
    cells: tuple[int, int, int]
    energy_range_gev: tuple[float, float]


class Assessment(Part):
    """All that was measured.

    Attributes:
        schema_version: 2.
        generated: The sample under test.
        reference: Monte Carlo.
        seed: Of halvings, bootstrap samples and classifiers.
        measures: In the order in which they are shown.
        notes: What is unknown or was left out, and why.
    """

    schema_version: Literal[2] = 2
    generated: Sample
    reference: Sample
    seed: int
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = ()

    def all(self, name: str) -> tuple[Measure, ...]:
        """Returns the measures called `name`, of each bin or histogram."""
        return tuple(measure for measure in self.measures if measure.name == name)
