"""How shower properties hang together: with the angle asked for, with each other, and how freely.

Each function gives (R,) values, one per weighting, by measure and place; nan is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cloudgan.validation.covariances import covariances
from cloudgan.validation.features import high_level
from cloudgan.validation.quotients import ratio

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables

    Floats = NDArray[np.float64]
    Weights = NDArray[np.float32]
    Found = dict[tuple[str, str], Floats]
    Pair = tuple[Observables, Weights]

LEAST_SPREAD_RAD = 1e-3
"""Where the reference scatters less about its line, it was asked for the angle that it shows."""

_LEAST_LAYER_SHARE = 1e-3
_VARIES = 1e-6  # in units of the reference's standard deviation


def angle_measures(generated: Pair, reference: Pair) -> Found:
    """Slope, spread and offset of the measured angle against the requested one.

    The line is fitted by least squares to the showers that are not empty. The slope and the spread
    about it are ratios to the reference's; the offset, in degrees, is that of the lines at the mean
    requested angle of the reference. Where one angle was asked for there is no slope.
    """
    ours, theirs = (_line(*pair) for pair in (generated, reference))
    middle = theirs[2]
    offset = (ours[3] + ours[0] * (middle - ours[2])) - theirs[3]
    slope = ratio(ours[0], theirs[0])
    found = {
        ("angle_slope", ""): slope,
        ("angle_offset", ""): np.rad2deg(np.where(np.isnan(slope), ours[3] - theirs[3], offset)),
    }
    if theirs[1][0] > LEAST_SPREAD_RAD:
        found["angle_spread", ""] = ratio(ours[1], theirs[1])
    return found


def correlation_measures(generated: Pair, reference: Pair) -> Found:
    """Largest and root-mean-square difference of correlation matrices.

    Of the 15 high-level features, and of the shares of the energy in the layers (those with more
    than 0.1 % of it): what goes wrong although each feature alone is right.
    """
    kept = reference[0].shares_z.mean(0) > _LEAST_LAYER_SHARE
    tables = {
        "features": [high_level(pair[0]) for pair in (generated, reference)],
        "layers": [pair[0].shares_z[:, kept] for pair in (generated, reference)],
    }
    found: Found = {}
    for name, (ours, theirs) in tables.items():
        scale = np.maximum(theirs.std(0), 1e-30)
        first, second = (
            covariances(table / scale, pair[1]).correlation()
            for table, pair in ((ours, generated), (theirs, reference))
        )
        rows, columns = np.triu_indices(first.shape[1], 1)
        away = np.abs(first - second)[:, rows, columns]
        found["correlation", f"{name}, largest"] = away.max(1, initial=0.0)
        found["correlation", f"{name}, rms"] = (
            np.sqrt((away**2).mean(1)) if rows.size else away[:, 0]
        )
    return found


def diversity_measures(generated: Pair, reference: Pair, *, angle_known: bool) -> Found:
    """How much showers of the same energy and angle differ from each other, over the reference's.

    Eight shape features (depth, its spread, lateral spreads, shares of the first and last layers, of
    the largest cell and of the tail) are fitted by quadratic functions of ln E and, where it is
    known, the angle; what is left is their spread at given energy and angle. The value is the median
    over the features of generated over reference: 1 is right, 0 is one shower over and over, also
    where it is scaled with the energy.
    """
    scale = np.maximum(_shapes(reference[0]).std(0), 1e-30)
    given = [
        _conditions(pair[0], reference[0], angle_known=angle_known)
        for pair in (generated, reference)
    ]
    spreads = []
    for conditions, (sample, weights) in zip(given, (generated, reference), strict=True):
        table = np.concatenate([conditions, _shapes(sample) / scale], axis=1)
        found = covariances(table, weights * (sample.sum_gev > 0))
        spreads.append(np.sqrt(found.residual_variance(conditions.shape[1])))
    varies = spreads[1][0] > _VARIES
    if not varies.any():
        return {("diversity", ""): np.full(len(reference[1]), np.nan)}
    return {
        ("diversity", ""): np.median(
            spreads[0][:, varies] / np.maximum(spreads[1][:, varies], 1e-30), 1
        )
    }


def _line(sample: Observables, weights: Weights) -> tuple[Floats, Floats, Floats, Floats]:
    """Slope, spread, mean requested and mean measured angle, (R,) each."""
    table = np.stack([sample.requested_rad, sample.angle_rad], axis=1)
    mean, covariance = covariances(table, weights * (sample.sum_gev > 0))
    asked = covariance[:, 0, 0]
    one_angle = asked < LEAST_SPREAD_RAD**2
    slope = np.where(one_angle, np.nan, covariance[:, 0, 1] / np.where(one_angle, 1.0, asked))
    explained = np.where(one_angle, 0.0, np.nan_to_num(slope) * covariance[:, 0, 1])
    spread = np.sqrt(np.maximum(covariance[:, 1, 1] - explained, 0.0))
    return slope, spread, mean[:, 0], mean[:, 1]


def _conditions(sample: Observables, reference: Observables, *, angle_known: bool) -> Floats:
    columns = []
    values = [(np.log(sample.energy_gev), np.log(reference.energy_gev))]
    if angle_known:
        values.append((sample.requested_rad, reference.requested_rad))
    for ours, theirs in values:
        spread = theirs.std()
        place = (ours - theirs.mean()) / (spread if spread > LEAST_SPREAD_RAD else 1.0)
        columns += [place, place**2]
    return np.stack(columns, axis=1)


def _shapes(sample: Observables) -> Floats:
    return np.stack(
        [
            *sample.moments("z"),
            sample.moments("x")[1],
            sample.moments("y")[1],
            sample.first_layers_share,
            sample.last_layers_share,
            sample.largest_share,
            sample.tail_share,
        ],
        axis=1,
    )
