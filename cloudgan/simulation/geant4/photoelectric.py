"""How atoms absorb photons: the fit of Biggs and Lighthill, as Geant4 carries it.

F. Biggs and R. Lighthill, Sandia report SAND87-0070 (1990): between two edges sigma = sum a_i / E^i,
i = 1 to 4. Geant4 has the coefficients compiled in (G4SandiaTable), so the wheel holds them; its
Livermore model, which G4EmStandardPhysics uses, wants the same cross section as files: one
parametrisation for high energies and tables of E^3 sigma below, split at the K edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Coefficients = Callable[[float], Floats]

HIGHEST_MEV = 5.0
"""No edge lies above: the coefficients there hold to any energy."""
_NEAR = 0.002
_CLOSE = 1.0001
_TABULATED = 400
_LEAST_K_SHARE, _ALL = 0.5, 0.99


@dataclass(frozen=True)
class Photoelectric:
    """The cross section of one element.

    Attributes:
        k_edge_mev: Binding energy of the K shell, MeV.
        coefficients: a_1 to a_4 at an energy in MeV, barn MeV^i.
    """

    k_edge_mev: float
    coefficients: Coefficients

    def barn(self, energy_mev: float) -> float:
        """Cross section per atom, barn."""
        powers = energy_mev ** -np.arange(1.0, 5.0)
        return max(0.0, float(self.coefficients(energy_mev) @ powers))

    @property
    def k_share(self) -> float:
        """The part that the K shell takes above its edge, from the jump there.

        Hydrogen has no other shell and the fit shows no jump.
        """
        below = self.barn(self.k_edge_mev * (1 - _NEAR))
        share = 1 - below / self.barn(self.k_edge_mev * (1 + _NEAR))
        return share if share > _LEAST_K_SHARE else _ALL

    @cached_property
    def threshold_mev(self) -> float:
        """The energy above which one set of coefficients holds.

        Those of the first interval above the K edge give negative cross sections further up.
        """
        last = self.coefficients(HIGHEST_MEV)
        low, high = self.k_edge_mev * 1.0005, HIGHEST_MEV
        if np.array_equal(self.coefficients(low), last):
            return low
        while high > low * _CLOSE:
            middle = float(np.sqrt(low * high))
            if np.array_equal(self.coefficients(middle), last):
                high = middle
            else:
                low = middle
        return high

    def files(self, atomic_number: int) -> dict[str, str]:
        """Returns the files that Geant4 reads, by name."""
        above, below = self._above(), self._below()
        parametrised = self._parametrised(below[0][0])
        shells = _rows(above[0], self.k_share * above[1], 0) + _rows(*below, 1)
        return {
            f"pe-high-{atomic_number}.dat": parametrised,
            f"pe-low-{atomic_number}.dat": parametrised,
            f"pe-cs-{atomic_number}.dat": free_vector(*above),
            f"pe-le-cs-{atomic_number}.dat": free_vector(*below),
            f"pe-ss-cs-{atomic_number}.dat": shells,
        }

    def _above(self) -> tuple[Floats, Floats]:
        """E^3 sigma between the K edge and the threshold."""
        edge = self.k_edge_mev
        energies = np.geomspace(edge, max(self.threshold_mev, edge * 1.01), _TABULATED)
        values = np.array([self.barn(max(float(e), edge * 1.0005)) for e in energies])
        return energies, values * energies**3

    def _below(self) -> tuple[Floats, Floats]:
        """E^3 sigma below the K edge."""
        edge = self.k_edge_mev
        energies = np.geomspace(min(2e-4, 0.3 * edge), edge * 0.9999, _TABULATED)
        values = np.array([self.barn(min(float(e), edge * (1 - _NEAR))) for e in energies])
        return energies, values * energies**3

    def _parametrised(self, lowest_mev: float) -> str:
        """Two shells: the K shell alone, then all of them together; six coefficients each."""
        sums = np.append(self.coefficients(HIGHEST_MEV), [0.0, 0.0])
        rows = ((self.k_edge_mev, self.k_share * sums), (lowest_mev, sums))
        lines = [f"2 2 {self.threshold_mev:.8e}"]
        lines += [" ".join(f"{v:.8e}" for v in (edge, *row)) for edge, row in rows]
        return "\n".join(lines) + "\n"


def free_vector(energies: Floats, values: Floats) -> str:
    """Returns a table as Geant4's G4PhysicsFreeVector reads it."""
    head = f"{energies[0]:.8e} {energies[-1]:.8e} {len(energies)}\n{len(energies)}\n"
    return head + _lines(energies, values)


def _rows(energies: Floats, values: Floats, shell: int) -> str:
    head = f"{energies[0]:.8e} {energies[-1]:.8e} {len(energies)} {shell}\n"
    return head + _lines(energies, values)


def _lines(energies: Floats, values: Floats) -> str:
    return "".join(f"{e:.8e} {v:.8e}\n" for e, v in zip(energies, values, strict=True))
