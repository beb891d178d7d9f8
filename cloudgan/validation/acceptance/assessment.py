"""Result of an assessment: measures, each with its error and its MC-MC baseline."""

from __future__ import annotations

from typing import Literal

from cloudgan.core.document import Document
from cloudgan.validation.metrics.ideals import ONE_SIDED, PERMUTATIONS, SIGNIFICANCE


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
        baseline: MC-MC baseline: mean of the same number for two samples of Monte Carlo of these sizes, from random
            permutations of the labels of generated and reference showers.
        baseline_error: Its standard deviation.
        null: Mean deviation from the ideal of Monte Carlo against Monte Carlo.
        widths: Deviation beyond `null`, in standard deviations of the null distribution.
        p: Share of permutations in which any measure is as unusual as this one: corrected for the number of measures.
        detectable: Least deviation beyond `null` that is significant with so many showers.
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
    null: float | None = None
    widths: float | None = None
    p: float | None = None
    detectable: float | None = None
    ideal: float = 0.0

    @property
    def deviation(self) -> float | None:
        """Distance from the ideal; 0 if a measure that only fluctuates below its ideal is there."""
        if self.value is None:
            return None
        away = self.value - self.ideal
        return max(away, 0.0) if self.name in ONE_SIDED else abs(away)

    @property
    def excess(self) -> float | None:
        """Deviation beyond that of Monte Carlo against Monte Carlo; what the limits of the gates are compared with."""
        return None if self.deviation is None else max(self.deviation - (self.null or 0.0), 0.0)

    @property
    def is_at_baseline(self) -> bool:
        """Whether Monte Carlo against Monte Carlo deviates as much: the difference is not significant."""
        return self.p is not None and self.p >= SIGNIFICANCE and self.value is not None


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
        schema_version: 3.
        generated: Sample under test.
        reference: Monte Carlo.
        seed: Seed of the permutations, bootstrap samples and classifiers.
        permutations: Number of permutations behind each p-value.
        measures: Measures in display order.
        notes: Values that are unknown or left out, with the reason.
    """

    schema_version: Literal[3] = 3
    generated: Sample
    reference: Sample
    seed: int
    permutations: int = PERMUTATIONS
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = ()

    def all(self, name: str) -> tuple[Measure, ...]:
        """Returns the measures called `name`, of each bin or histogram."""
        return tuple(measure for measure in self.measures if measure.name == name)
