"""Published shapes of an electromagnetic shower in a sampling calorimeter (GFLASH).

G. Grindhammer and S. Peters, hep-ex/0001020, appendix A: A.1 for homogeneous media, A.2 corrections for
sampling. Depths t are in radiation lengths, radii in Moliere units, y = E/E_c. N showers, L layers. Geant4's
copy (GVFlashHomoShowerTuning.hh, t6) has 0.0412 where the paper and the CMS fast simulation
(RadialInterval.h, k4) have 0.0421.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

Floats = NDArray[np.float64]


class Medium(NamedTuple):
    """Calorimeter parameters of the formulas.

    Attributes:
        atomic_number: Effective Z.
        inverse_frequency: 1/F_S, radiation lengths per layer.
        e_over_mip: Signal of electrons over that of minimum ionising particles.
    """

    atomic_number: float
    inverse_frequency: float
    e_over_mip: float


class Longitudinal(NamedTuple):
    """Depth of the maximum T in X0 and shape alpha of the energy along the depth."""

    depth_x0: Floats
    alpha: Floats


class Spread(NamedTuple):
    """Shower-to-shower spread of (ln T, ln alpha): two widths and their correlation."""

    log_depth: Floats
    log_alpha: Floats
    correlation: Floats


class Radial(NamedTuple):
    """f(r) = p 2 r Rc^2/(r^2+Rc^2)^2 + (1-p) 2 r Rt^2/(r^2+Rt^2)^2 at each depth."""

    core: Floats
    tail: Floats
    core_share: Floats


def e_over_mip(absorber_z: float, active_z: float) -> float:
    """1 / (1 + 0.007 (Z_absorber - Z_active)), hep-ex/0001020, appendix A."""
    return 1.0 / (1.0 + 0.007 * (absorber_z - active_z))


def homogeneous(log_y: Floats, atomic_number: float) -> Longitudinal:
    """T and alpha of the mean logarithms in a homogeneous medium, appendix A.1."""
    depth = log_y - 0.812
    return Longitudinal(depth, 0.81 + (0.458 + 2.26 / atomic_number) * log_y)


def sampling(log_y: Floats, medium: Medium) -> Longitudinal:
    """T and alpha of the mean logarithms in a sampling calorimeter, appendix A.2."""
    depth, alpha = homogeneous(log_y, medium.atomic_number)
    return Longitudinal(
        depth - 0.55 * medium.inverse_frequency - 0.69 * (1 - medium.e_over_mip),
        alpha - 0.476 * medium.inverse_frequency,
    )


def sampling_spread(log_y: Floats) -> Spread:
    """Widths of ln T and ln alpha and their correlation, appendix A.2; ln y above 4."""
    return Spread(1 / (-2.5 + 1.25 * log_y), 1 / (-0.82 + 0.79 * log_y), 0.784 - 0.023 * log_y)


def fluctuate(mean: Longitudinal, spread: Spread, normal: Floats) -> Longitudinal:
    """Draws each shower's T and alpha with two standard normals (2, N)."""
    plus, minus = np.sqrt((1 + spread.correlation) / 2), np.sqrt((1 - spread.correlation) / 2)
    first, second = plus * normal[0], minus * normal[1]
    depth = mean.depth_x0 * np.exp(spread.log_depth * (first + second))
    alpha = mean.alpha * np.exp(spread.log_alpha * (first - second))
    return Longitudinal(depth, np.maximum(alpha, 1.1))  # alpha <= 1 has no maximum


def layer_shares(shape: Longitudinal, boundaries_x0: Floats) -> Floats:
    """Share of the energy between boundaries (N, L + 1) or (L + 1,): (N, L).

    Integral of the gamma distribution dE/dt = E (bt)^(alpha-1) b exp(-bt) / Gamma(alpha), b = (alpha-1)/T.
    """
    scale = (shape.alpha - 1) / shape.depth_x0
    return np.diff(gammainc(shape.alpha[:, None], scale[:, None] * boundaries_x0), axis=-1)


def log_gradient(shape: Longitudinal, depth_x0: Floats) -> Floats:
    """Slope of ln dE/dt at depths (N, L), 1/X0: (alpha - 1) (1/t - 1/T)."""
    return (shape.alpha - 1)[:, None] * (1 / depth_x0 - 1 / shape.depth_x0[:, None])


def relative_depth(depth_x0: Floats, shape: Longitudinal, mean_alpha: Floats) -> Floats:
    """tau: depth over the shower's own centre of gravity, corrected for the mean alpha."""
    centre = shape.depth_x0 * shape.alpha / (shape.alpha - 1)
    return depth_x0 * (mean_alpha / (mean_alpha - 1) / centre)[:, None]


def radial(tau: Floats, energy_gev: Floats, medium: Medium, tau_cap: float) -> Radial:
    """Radii of core and tail and the core's share at tau (N, L), appendix A.1 and A.2.

    The exponential growth of the tail stops at `tau_cap`: beyond it the fit has too few particles, and
    energies above 100 GeV would leave the detector.
    """
    z, frequency, deficit = medium.atomic_number, medium.inverse_frequency, 1 - medium.e_over_mip
    log_e = np.log(energy_gev)[:, None]
    core = 0.0251 + 0.00319 * log_e + (0.1162 - 0.000381 * z) * tau
    growth = (0.3585 + 0.0421 * log_e) * (np.minimum(tau, tau_cap) - 0.645)
    tail = (0.659 - 0.00309 * z) * (np.exp(-2.59 * (tau - 0.645)) + np.exp(growth))
    argument = (0.401 + 0.00187 * z - tau) / (1.313 - 0.0686 * log_e)
    share = (2.632 - 0.00094 * z) * np.exp(argument - np.exp(argument))
    early = frequency * np.exp(-tau)
    core = core - 0.0203 * deficit + 0.0397 * early
    tail = tail - 0.14 * deficit - 0.495 * early
    share = share + deficit * (0.348 - 0.642 * frequency * np.exp(-((tau - 1) ** 2)))
    return Radial(np.maximum(core, 0.01), np.maximum(tail, 0.05), np.clip(share, 0, 1))
