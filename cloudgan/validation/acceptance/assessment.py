"""Result of an assessment: measures, each with its error and its MC-MC baseline."""

from __future__ import annotations

import math
from typing import Literal

from cloudgan.core.document import Document

BASELINE_ERRORS = 2.0
"""A value within this many standard errors of the baseline counts as at the baseline."""


class FrozenModel(Document):
    """Base of result documents: immutable, no unknown keys."""


class Measure(FrozenModel):
    """One number about generated against reference showers; None is unknown, and a note gives the reason.

    Attributes:
        name: Name of the measure, such as ``response``, as gates use it.
        where: Bin or histogram, such as ``10-40 GeV`` or ``hits``; empty for all showers.
        value: Measured value.
        applies: False if the reference cannot have this property, such as the slope of a single angle or the
            response in a bin without showers; its halves have no value either.
        error: Standard error of the value, from bootstrap samples.
        baseline: MC-MC baseline: the same number for two random halves of the reference, mean over
            the halvings. It is the statistical fluctuation for half as many showers.
        baseline_error: Standard deviation over those halvings.
        ideal: Value of a perfect generator with infinitely many showers: 1 for ratios and slopes, 0
            for distances, 0.5 for an AUC.
    """

    name: str
    where: str = ""
    value: float | None
    applies: bool = True
    error: float | None = None
    baseline: float | None = None
    baseline_error: float | None = None
    ideal: float = 0.0

    @property
    def deviation(self) -> float | None:
        """Distance from the ideal."""
        return None if self.value is None else abs(self.value - self.ideal)

    @property
    def baseline_deviation(self) -> float | None:
        """Distance of the baseline from the ideal, with the standard deviation over the halvings."""
        if self.baseline is None:
            return None
        return math.hypot(self.baseline - self.ideal, self.baseline_error or 0.0)

    @property
    def is_at_baseline(self) -> bool:
        """Whether the deviation is within the statistical fluctuation."""
        if self.deviation is None or self.baseline is None:
            return False
        scatter = math.hypot(self.error or 0.0, self.baseline_error or 0.0)
        return self.deviation <= abs(self.baseline - self.ideal) + BASELINE_ERRORS * scatter


class Sample(FrozenModel):
    """A sample that was compared.

    Attributes:
        name: Name of a file or a generator.
        showers: Number of showers measured.
        cells: Cells of an image in x, y and depth.
        energy_range_gev: Lowest and highest energy of the measured showers.
    """

    name: str
    showers: int
    cells: tuple[int, int, int]
    energy_range_gev: tuple[float, float]


class Assessment(FrozenModel):
    """All measures of two samples.

    Attributes:
        schema_version: 2.
        generated: Sample under test.
        reference: Monte Carlo.
        seed: Seed of the halvings, bootstrap samples and classifiers.
        measures: Measures in display order.
        notes: Values that are unknown or left out, with the reason.
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
