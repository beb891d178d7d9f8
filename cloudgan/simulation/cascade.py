"""Where a shower of given energy and angle leaves its energy: published shapes made into cells.

The mean shapes and their shower-to-shower spread are those of hep-ex/0001020 (`profiles`). Where
the paper draws energy spots, this draws the number of particles that cross each silicon plane,
which gives the spectrum of the cells and the number of hits. N showers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from cloudgan.simulation import profiles
from cloudgan.simulation.detector import CLIC_ECAL, SILICON, TUNGSTEN, Detector
from cloudgan.simulation.tuning import GEANT4_TUNING, Tuning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Crossings(NamedTuple):
    """Particles in silicon, C of them, ordered by shower and layer."""

    row: NDArray[np.int64]  # shower * layers + layer
    energy_gev: NDArray[np.float32]


@dataclass(frozen=True)
class Gflash:
    """Draws showers of given energies and angles.

    Attributes:
        detector: The stack and the window of cells.
        tuning: The fitted constants.
    """

    detector: Detector = CLIC_ECAL
    tuning: Tuning = GEANT4_TUNING

    def draw(
        self, energy_gev: Floats, theta_rad: Floats, random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Returns the silicon energy of N showers, GeV, (N, X, Y, layers).

        The window is centred on the cell that holds the shower's barycentre along y, as in the
        Monte Carlo samples; what falls outside is lost.
        """
        shape, mean_alpha = self._shapes(energy_gev, random)
        paths = self.detector.boundaries_x0() / np.sin(theta_rad)[:, None]
        visible = self._visible(energy_gev, shape, paths, random)
        crossings = self._crossings(visible, paths, random)
        depth = (paths[:, 1:] + paths[:, :-1]) / 2
        tau = profiles.relative_depth(depth, shape, mean_alpha)
        radius_mm = self._radii(tau, energy_gev, crossings.row, random)
        lean = self._lean(theta_rad, shape, depth)
        places = self._places(theta_rad, crossings, radius_mm, lean, random)
        return self._fill(len(energy_gev), crossings, places)

    def medium(self) -> profiles.Medium:
        """What the formulas ask of the detector."""
        return profiles.Medium(
            self.detector.effective_atomic_number(),
            self.detector.inverse_sampling_frequency(),
            profiles.e_over_mip(TUNGSTEN.atomic_number, SILICON.atomic_number),
        )

    def mean_shape(self, energy_gev: Floats) -> profiles.Longitudinal:
        """T and alpha of the mean logarithms, with the fitted shifts."""
        published = profiles.sampling(self._log_y(energy_gev), self.medium())
        return profiles.Longitudinal(
            published.depth_x0 + self.tuning.shift_depth_x0,
            published.alpha + self.tuning.shift_alpha,
        )

    def sampling_fractions(self) -> Floats:
        """Silicon energy over lost energy, per layer."""
        thick, thin = self.tuning.sampling_thick, self.tuning.sampling_thin
        return np.where(self.detector.thin, thin, thick)

    def _log_y(self, energy_gev: Floats) -> Floats:
        return np.log(energy_gev * 1000 / self.tuning.critical_energy_mev)

    def _shapes(
        self, energy_gev: Floats, random: np.random.Generator
    ) -> tuple[profiles.Longitudinal, Floats]:
        mean = self.mean_shape(energy_gev)
        spread = profiles.sampling_spread(self._log_y(energy_gev))
        normals = random.standard_normal((2, len(energy_gev)))
        return profiles.fluctuate(mean, spread, normals), mean.alpha

    def _visible(
        self,
        energy_gev: Floats,
        shape: profiles.Longitudinal,
        paths: Floats,
        random: np.random.Generator,
    ) -> Floats:
        """Mean silicon energy per shower and layer, (N, layers)."""
        shares = profiles.layer_shares(shape, paths)
        variance = self.tuning.resolution**2 / energy_gev
        common = random.gamma(1 / variance, variance)
        return (energy_gev * common)[:, None] * shares * self.sampling_fractions()

    def _crossings(self, visible: Floats, paths: Floats, random: np.random.Generator) -> Crossings:
        tuning = self.tuning
        early = tuning.early_crossings * np.exp(-paths[:, 1:])
        number = random.poisson(visible / tuning.crossing_gev + early)
        row = np.repeat(np.arange(number.size), number.ravel())
        energy = random.standard_gamma(tuning.crossing_shape, len(row), dtype=np.float32)
        return Crossings(row, energy * np.float32(tuning.crossing_gev / tuning.crossing_shape))

    def _radii(
        self,
        tau: Floats,
        energy_gev: Floats,
        row: NDArray[np.int64],
        random: np.random.Generator,
    ) -> NDArray[np.float32]:
        """Distance of each crossing from the axis, mm: core, tail or halo."""
        tuning = self.tuning
        radial = profiles.radial(tau, energy_gev, self.medium(), tuning.tau_cap)
        core = (radial.core * (tuning.scale_core * tuning.moliere_mm)).astype(np.float32).ravel()
        tail = (radial.tail * (tuning.scale_tail * tuning.moliere_mm)).astype(np.float32).ravel()
        share = radial.core_share.astype(np.float32).ravel()
        uniform = random.random((3, len(row)), dtype=np.float32)
        radius = np.where(uniform[0] < share[row], core[row], tail[row])
        # The inverse of the integral of f(r), r^2 / (r^2 + R^2); u is below 1 - 2**-24.
        radius *= np.sqrt(uniform[1] / (1 - uniform[1]))
        halo = uniform[2] < tuning.halo_fraction
        radius[halo] = random.exponential(tuning.halo_mm, int(halo.sum()))
        return radius

    def _lean(self, theta_rad: Floats, shape: profiles.Longitudinal, depth: Floats) -> Floats:
        """Change of the log of the energy per mm across the axis within a plane, (N, layers).

        A plane cuts a tilted shower obliquely: on one side of the axis it meets the shower earlier
        in its development than on the other. Behind the maximum the early side holds more, so
        the measured angle is nearer to 90 degrees than the true one (slope 0.87, 0.94 without).
        """
        per_mm = np.diff(self.detector.boundaries_x0()) / self.detector.layer_mm()
        gradient = profiles.log_gradient(shape, depth) * per_mm / np.tan(theta_rad)[:, None]
        return self.tuning.lean * gradient

    def _places(
        self,
        theta_rad: Floats,
        crossings: Crossings,
        radius_mm: NDArray[np.float32],
        lean_per_mm: Floats,
        random: np.random.Generator,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Where the crossings are, x and y in cells from the middle of the window."""
        detector, row = self.detector, crossings.row
        entry = random.uniform(-0.5, 0.5, (2, len(theta_rad)))  # inside a cell, in cells
        tilt = detector.silicon_mm() / np.tan(theta_rad)[:, None]
        axis = tilt / detector.cell_mm + entry[1, :, None]
        layers = np.bincount(row, crossings.energy_gev, axis.size).reshape(axis.shape)
        total = np.maximum(layers.sum(1), np.finfo(np.float64).tiny)
        axis -= np.floor((layers * axis).sum(1) / total + 0.5)[:, None]
        shower = row // detector.layers
        turns, side = random.random((2, len(row)), dtype=np.float32)
        phi = turns * np.float32(np.pi)  # half a turn; the side decides which half
        along = radius_mm * np.sin(phi)
        early_side = side < expit(-2 * lean_per_mm.astype(np.float32).ravel()[row] * along)
        along = np.where(early_side, -along, along) / np.sin(theta_rad).astype(np.float32)[shower]
        x = entry[0].astype(np.float32)[shower] + radius_mm * np.cos(phi) / np.float32(
            detector.cell_mm
        )
        return x, axis.astype(np.float32).ravel()[row] + along / np.float32(detector.cell_mm)

    def _fill(
        self,
        count: int,
        crossings: Crossings,
        places: tuple[NDArray[np.float32], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """Sums the crossings into the cells of the window."""
        wide, high, layers = (*self.detector.cells, self.detector.layers)
        x, y = _cell(places[0], wide), _cell(places[1], high)
        inside = (x >= 0) & (x < wide) & (y >= 0) & (y < high)
        shower = crossings.row // layers
        cell = ((shower * wide + x) * high + y) * layers + crossings.row - shower * layers
        size = count * wide * high * layers
        energy = np.bincount(cell[inside], crossings.energy_gev[inside], size)
        return energy.astype(np.float32).reshape(count, wide, high, layers)


def _cell(place: NDArray[np.float32], cells: int) -> NDArray[np.int64]:
    """The cell of a place in cells from the centre; outside is below 0 or from `cells` on."""
    near = np.floor(np.clip(place + np.float32(0.5), -cells, cells))
    number: NDArray[np.int64] = near.astype(np.int64) + cells // 2
    return number
