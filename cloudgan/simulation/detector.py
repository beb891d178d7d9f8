"""The CLIC electromagnetic calorimeter: a stack of tungsten and silicon.

Source: key4hep/k4geo, CLIC/compact/CLIC_o2_v04/ECalBarrel_o2_v01_01.xml (read 2026-11-20) for the slabs,
the file's material tables for densities and compositions; radiation lengths from those compositions and
the element values of the Particle Data Group. The last tungsten plate, behind the last silicon, belongs to
no layer: it only scatters particles back in Geant4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cloudgan.data.showers import CELL_MM


@dataclass(frozen=True)
class Material:
    """A material of the detector, named as in its description; Z is mass weighted for mixtures.

    The mass shares are symbol and mass fraction of each element.
    """

    name: str
    radiation_length_mm: float
    density_g_per_cm3: float
    atomic_number: float
    mass_shares: tuple[tuple[str, float], ...]


ATOMIC_NUMBERS = {
    "H": 1, "C": 6, "N": 7, "O": 8, "Si": 14, "Cl": 17, "Fe": 26, "Ni": 28, "Cu": 29, "W": 74,
}  # fmt: skip
"""Atomic numbers of all elements of the materials."""

TUNGSTEN = Material(
    "TungstenDens24", 3.929, 17.8, 72.0, (("W", 0.93), ("Ni", 0.061), ("Fe", 0.009))
)
SILICON = Material("Si", 93.66, 2.33, 14.0, (("Si", 1.0),))
GROUND_AND_BIAS = Material(
    *("GroundOrHVMix", 26.6, 5.19, 26.0),
    (("H", 0.0036064), ("C", 0.0945481), ("N", 0.0100234), ("O", 0.0286237), ("Cu", 0.8631985)),
)
BOARD = Material(
    *("siPCBMix", 28.5, 5.05, 26.0),
    (
        *(("Cl", 0.0144989), ("O", 0.0834771), ("Si", 0.0654857)),
        *(("H", 0.0035112), ("C", 0.0142637), ("Cu", 0.8187633)),
    ),
)
AIR = Material("air", 303_900.0, 0.0012, 7.3, (("N", 0.767), ("O", 0.233)))


@dataclass(frozen=True)
class Slab:
    """A plate across the whole detector."""

    material: Material
    thickness_mm: float


GAP = (
    Slab(AIR, 0.25),
    Slab(GROUND_AND_BIAS, 0.10),
    Slab(SILICON, 0.50),
    Slab(AIR, 0.10),
    Slab(BOARD, 0.80),
    Slab(AIR, 0.25),
)
"""Slabs behind each tungsten plate, front to back."""


@dataclass(frozen=True)
class Detector:
    """A stack of layers, each one tungsten plate and one gap with silicon; depths at 90 degrees.

    `gap` are the slabs behind each plate, `back_mm` is the tungsten behind the last layer, `cells` are those of the image
    along x and y.
    """

    absorber_mm: tuple[float, ...] = (2.4,) * 17 + (4.8,) * 8
    gap: tuple[Slab, ...] = GAP
    back_mm: float = 4.8
    cell_mm: float = CELL_MM
    cells: tuple[int, int] = (51, 51)

    @property
    def layers(self) -> int:
        """Number of layers, 25."""
        return len(self.absorber_mm)

    @property
    def thin(self) -> NDArray[np.bool_]:
        """True for the layers with the thinnest plate, (layers,)."""
        plates = np.asarray(self.absorber_mm)
        thin: NDArray[np.bool_] = plates == plates.min()
        return thin

    def boundaries_x0(self) -> NDArray[np.float64]:
        """Depth of the layer boundaries in radiation lengths, (layers + 1,)."""
        behind = sum(slab.thickness_mm / slab.material.radiation_length_mm for slab in self.gap)
        per_layer = np.asarray(self.absorber_mm) / TUNGSTEN.radiation_length_mm + behind
        return np.concatenate([[0.0], np.cumsum(per_layer)])

    def layer_mm(self) -> NDArray[np.float64]:
        """Thickness of each layer, mm, (layers,)."""
        return np.asarray(self.absorber_mm) + sum(slab.thickness_mm for slab in self.gap)

    def silicon_mm(self) -> NDArray[np.float64]:
        """Depth of the centre of each silicon plane, mm, (layers,)."""
        number = [slab.material for slab in self.gap].index(SILICON)
        before = sum(slab.thickness_mm for slab in self.gap[:number])
        plates = np.asarray(self.absorber_mm)
        front = np.concatenate([[0.0], np.cumsum(self.layer_mm())[:-1]])
        depth: NDArray[np.float64] = front + plates + before + self.gap[number].thickness_mm / 2
        return depth

    @property
    def materials(self) -> tuple[Material, ...]:
        """Distinct materials of the stack."""
        return tuple(dict.fromkeys((TUNGSTEN, *(slab.material for slab in self.gap))))

    def effective_atomic_number(self) -> float:
        """Z of the first layer, weighted by mass as hep-ex/0001020 does, about 66."""
        slabs = (Slab(TUNGSTEN, self.absorber_mm[0]), *self.gap)
        mass = np.array([slab.thickness_mm * slab.material.density_g_per_cm3 for slab in slabs])
        return float(mass @ [slab.material.atomic_number for slab in slabs] / mass.sum())

    def inverse_sampling_frequency(self) -> float:
        """1/F_S = (d_active + d_passive) / X0: radiation lengths per (thin) layer, about 0.65."""
        return float(self.boundaries_x0()[1])


CLIC_ECAL = Detector()
"""The barrel of CLIC_o2_v04: 17 layers with 2.4 mm and 8 with 4.8 mm of tungsten, 21 X0."""
