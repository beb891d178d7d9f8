"""Result of an assessment: measures, each with its ideal, its error and its MC-MC baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from cloudgan.core.document import Document

RATIO, DISTANCE, AREA = 1.0, 0.0, 0.5
QUADRATIC = frozenset({"separation", "separation_median", "energy_distance", "fpd", "kpd", "jsd"})
"""Measures that are squares of a difference: their fluctuation falls as 1/N, that of the others as 1/sqrt(N)."""

PERMUTATIONS = 499
SIGNIFICANCE = 0.01
"""Monte Carlo against Monte Carlo has a significant difference, in any measure, in at most this share of trials."""

ONE_SIDED = QUADRATIC | {"auc"}
"""Measures that fluctuate below their ideal, which no difference does."""

IDEALS: Mapping[str, float] = {
    "response": RATIO,
    "response_width": RATIO,
    "profile_x": DISTANCE,
    "profile_y": DISTANCE,
    "profile_z": DISTANCE,
    "moment_1": RATIO,
    "moment_2": RATIO,
    "centre": DISTANCE,
    "lateral_rms": RATIO,
    "tail": RATIO,
    "first_layers": RATIO,
    "last_layers": RATIO,
    "last_layer": RATIO,
    "layer_of_maximum": DISTANCE,
    "hits": RATIO,
    "sparsity": RATIO,
    "largest_cell": RATIO,
    "spectrum": DISTANCE,
    "angle_slope": RATIO,
    "angle_offset": DISTANCE,
    "angle_spread": RATIO,
    "correlation": DISTANCE,
    "layer_spread": RATIO,
    "diversity": RATIO,
    "coverage": RATIO,
    "separation": DISTANCE,
    "separation_median": DISTANCE,
    "wasserstein": DISTANCE,
    "wasserstein_median": DISTANCE,
    "energy_distance": DISTANCE,
    "fpd": DISTANCE,
    "kpd": DISTANCE,
    "auc": AREA,
    "jsd": DISTANCE,
    "metric": DISTANCE,
    "metric_moments": DISTANCE,
    "metric_profiles": DISTANCE,
    "metric_angle": DISTANCE,
}
"""Ideal of each measure. Ratios are generated over reference.

- response: mean of Esum/E; response_width: its standard deviation over its mean. Over all showers,
  per energy bin and per bin of requested angle.
- profile_x, _y, _z: mean of |ratio - 1| of the mean profile, both of sum 1, over the bins with more
  than 0.1 % of the reference's energy; "core": more than 1 %; "worst bin": the largest.
- moment_1, moment_2: means of the authors' moments per axis; centre: difference of the mean
  barycentre, in cells; lateral_rms: mean rms around the barycentre.
- tail: share of the energy outside the central 9 x 9 columns; first_layers, last_layers: in the
  first 6 and last 8 layers; last_layer: in the last one; layer_of_maximum: difference in layers.
- hits: mean number of cells above a threshold; sparsity: of cells of 2 keV or more; largest_cell:
  mean share of its energy; spectrum: mean of |ratio - 1| of the spectrum of cell energies.
- angle_slope, angle_spread: slope of measured against requested angle, and spread about the line;
  angle_offset: difference of the two lines, degrees.
- correlation: difference of correlation matrices; layer_spread: spread of a property at given energies of
  all layers; diversity: spread of shower shapes at given energy and angle; coverage: share of reference
  showers with a generated neighbour, over that of Monte Carlo.
- separation, wasserstein: of each histogram, the latter in standard deviations of the reference.
- energy_distance: of features given energy and angle, of two levels; fpd, kpd: on the 15 high-level features; auc, jsd: of classifiers on features of two levels.
- metric: the metric of the 3DGAN authors, and its parts.
"""


class Measure(Document):
    """One number about generated against reference showers; None is unknown, and a note gives the reason.

    Attributes:
        name: Name of the measure, such as ``response``, as gates use it.
        where: Bin or histogram, such as ``10-40 GeV`` or ``hits``; empty for all showers.
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


class Sample(Document):
    """A sample that was compared.

    The cells are those of an image in x, y and depth.
    """

    name: str
    showers: int
    cells: tuple[int, int, int]
    energy_range_gev: tuple[float, float]


class Assessment(Document):
    """All measures of two samples.

    The measures are in display order; the notes name values that are unknown or left out, with the reason.
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
