"""Measures of generated against reference showers: their names, and what each one is where both are the same."""

from __future__ import annotations

from collections.abc import Mapping

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
