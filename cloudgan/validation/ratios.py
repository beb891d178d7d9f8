"""The statistics of a comparison, on measured showers; what cannot be said is None."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.validation.observables import Observables

    Floats = NDArray[np.float64]

MIN_IN_BIN = 5
"""An energy bin with fewer showers stays unknown."""

PROFILE_SHARE = 0.01
"""Bins of a profile that hold less of the reference's energy are not compared."""

_PUBLIC_RANGE_GEV = (10.0, 40.0, 70.0, 100.0)


def energy_edges(energy_gev: NDArray[np.float64]) -> tuple[float, ...]:
    """Four edges of three bins: 10, 40, 70, 100 GeV where that is the range, else min to max.

    One bin where all energies are the same.
    """
    low, high = float(energy_gev.min()), float(energy_gev.max())
    bottom, top = _PUBLIC_RANGE_GEV[0], _PUBLIC_RANGE_GEV[-1]
    if bottom <= low and high <= top and high - low > 0.8 * (top - bottom):
        return _PUBLIC_RANGE_GEV
    if high - low < 1e-3 * high:
        return (low, high)
    return tuple(float(edge) for edge in np.linspace(low, high, 4))


def halves(
    energy_gev: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Splits showers in two at random, neighbours in energy into different halves."""
    pairs = len(energy_gev) // 2
    order = np.argsort(energy_gev, kind="stable")[: 2 * pairs].reshape(pairs, 2)
    side = np.random.default_rng(seed).integers(0, 2, pairs)
    rows = np.arange(pairs)
    return order[rows, side], order[rows, 1 - side]


def energy_bins(energy_gev: Floats, edges_gev: tuple[float, ...]) -> list[NDArray[np.bool_]]:
    """Which showers fall into each bin; the last one holds its upper edge."""
    last = len(edges_gev) - 2
    return [
        (energy_gev >= edges_gev[number])
        & (np.less_equal if number == last else np.less)(energy_gev, edges_gev[number + 1])
        for number in range(last + 1)
    ]


def ratios(
    generated: Observables, reference: Observables, edges_gev: tuple[float, ...]
) -> dict[str, float | None]:
    """Every number of a comparison by its name there; ``response 0`` and ``width 0`` per bin."""
    found: dict[str, float | None] = {}
    ours, theirs = (energy_bins(sample.energy_gev, edges_gev) for sample in (generated, reference))
    for number, (here, there) in enumerate(zip(ours, theirs, strict=True)):
        few = min(here.sum(), there.sum()) < MIN_IN_BIN
        response, true = generated.response[here], reference.response[there]
        found[f"response {number}"] = None if few else of_means(response, true)
        found[f"width {number}"] = None if few else over(response.std(), true.std())
    for axis in "xyz":
        profile = f"profile_{axis}_gev"
        found[f"profile_{axis}"] = profile_error(
            getattr(generated, profile), getattr(reference, profile)
        )
    alive, true_alive = generated.sum_gev > 0, reference.sum_gev > 0
    found["hits_ratio"] = of_means(generated.hits, reference.hits)
    found["angle_slope"] = slope(generated.requested_rad[alive], generated.angle_rad[alive])
    for axis in "xy":
        rms = f"rms_{axis}_mm"
        found[f"rms_{axis}_ratio"] = of_means(
            getattr(generated, rms)[alive], getattr(reference, rms)[true_alive]
        )
    found["tail_ratio"] = over(_tail_share(generated), _tail_share(reference))
    found["last_layer_ratio"] = over(_last_share(generated), _last_share(reference))
    return found


def over(above: float, below: float) -> float | None:
    """`above / below`, None where `below` is zero or nothing is known."""
    if not (np.isfinite(above) and np.isfinite(below)) or below <= 0:
        return None
    return float(above / below)


def of_means(above: Floats, below: Floats) -> float | None:
    """Ratio of two means; None where one sample is empty or the lower mean is zero."""
    if not (above.size and below.size):
        return None
    return over(float(above.mean()), float(below.mean()))


def profile_error(generated: Floats, reference: Floats) -> float | None:
    """Mean of |ratio - 1| of two mean profiles, (N, bins) each, where the reference has energy."""
    ours, theirs = generated.mean(0), reference.mean(0)
    held = theirs > PROFILE_SHARE * theirs.sum()
    return float(np.abs(ours[held] / theirs[held] - 1).mean()) if held.any() else None


def slope(asked: Floats, measured: Floats) -> float | None:
    """Slope of the least-squares line; None where fewer than two different values were asked."""
    if asked.size < 2 or np.ptp(asked) < 1e-6:  # noqa: PLR2004 (a line needs two points)
        return None
    away = asked - asked.mean()
    return float(away @ measured / (away @ away))


def _tail_share(sample: Observables) -> float:
    return over(sample.tail_gev.sum(), sample.sum_gev.sum()) or 0.0


def _last_share(sample: Observables) -> float:
    return over(sample.profile_z_gev[:, -1].sum(), sample.sum_gev.sum()) or 0.0
