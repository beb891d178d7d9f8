"""Geant4's volumes are the stack of `cloudgan.simulation.detector`."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.simulation.detector import AIR, BOARD, CLIC_ECAL, GROUND_AND_BIAS, SILICON, TUNGSTEN
from cloudgan.simulation.geant4.engine import plates

PROGRAM = """
engine = Engine(tables, 0.7)
geant4 = engine._geant4
nist = geant4.G4NistManager.Instance()
names = ("TungstenDens24", "G4_Si", "GroundOrHVMix", "siPCBMix", "air")
materials = [nist.FindOrBuildMaterial(name) for name in names]
unit = geant4.g / geant4.cm3
inside = geant4.G4LogicalVolumeStore.GetInstance().GetVolume("calorimeter")
placed = [inside.GetDaughter(i) for i in range(inside.GetNoDaughters())]
volumes = [(v.GetName(), v.GetCopyNo(), v.GetTranslation().z) for v in placed]
found = {
    "density": [m.GetDensity() / unit for m in materials],
    "radiation_length_mm": [m.GetRadlen() for m in materials],
    "volumes": volumes,
}
"""


@pytest.fixture(scope="module")
def built(in_geant4):
    return in_geant4(PROGRAM)


def test_silicon_is_where_the_detector_has_it():
    found = [
        (middle, layer) for slab, middle, layer in plates(CLIC_ECAL) if slab.material == SILICON
    ]
    assert [middle for middle, _ in found] == pytest.approx(CLIC_ECAL.silicon_mm())
    assert [layer for _, layer in found] == list(range(25))


def test_plates_touch_and_end_with_tungsten():
    slabs = list(plates(CLIC_ECAL))
    front = np.array([middle - slab.thickness_mm / 2 for slab, middle, _ in slabs])
    back = np.array([middle + slab.thickness_mm / 2 for slab, middle, _ in slabs])
    np.testing.assert_allclose(front[1:], back[:-1])
    assert front[0] == 0
    last, _, _ = slabs[-1]
    assert (last.material, last.thickness_mm) == (TUNGSTEN, 4.8)
    assert back[-1] == pytest.approx(17 * 4.4 + 8 * 6.8 + 4.8)


def test_geant4_places_every_slab_except_air(built):
    wanted = [(s.material, m, n) for s, m, n in plates(CLIC_ECAL) if s.material != AIR]
    depth = 17 * 4.4 + 8 * 6.8 + 4.8
    assert [(copy, z + depth / 2) for _, copy, z in built["volumes"]] == [
        (layer, pytest.approx(middle)) for _, middle, layer in wanted
    ]
    assert [name for name, _, _ in built["volumes"]] == [
        "plane" if material == SILICON else material.name for material, _, _ in wanted
    ]


def test_geant4_has_the_densities_and_finds_the_radiation_lengths(built):
    ordered = (TUNGSTEN, SILICON, GROUND_AND_BIAS, BOARD, AIR)
    assert built["density"] == pytest.approx([m.density_g_per_cm3 for m in ordered])
    lengths = [m.radiation_length_mm for m in ordered]
    assert built["radiation_length_mm"] == pytest.approx(lengths, rel=0.03)
