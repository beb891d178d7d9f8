"""The calorimeter as Geant4's volumes: plates, and planes of silicon cut into cells.

The face is at depth 0 and depth grows along z; x and y are those of the image. One plane of cells is
described and placed once per layer, so that a cell is known by three numbers. Air needs no volume of
its own: the calorimeter is filled with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.simulation.detector import AIR, SILICON, TUNGSTEN, Detector, Slab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.simulation.detector import Material

PLANE_CELLS = 75
"""Cells of a simulated plane along x and y: wider than the image, which follows the shower."""
HALF_WIDTH_MM = 400.0
_HALF_WORLD_MM = 600.0


def construction(geant4: Any, detector: Detector) -> Any:
    """Returns what Geant4 builds the detector from, with its read-out named ``ecal/energy``."""

    class Construction(geant4.G4VUserDetectorConstruction):  # type: ignore[misc]
        """Keeps what it made: Geant4 does not own what Python made."""

        def __init__(self) -> None:
            super().__init__()
            self._volumes = _Volumes(geant4, detector)

        def Construct(self) -> Any:  # noqa: N802
            return self._volumes.build()

        def ConstructSDandField(self) -> None:  # noqa: N802
            read_out = geant4.G4MultiFunctionalDetector("ecal")
            shape = (PLANE_CELLS, PLANE_CELLS, detector.layers)
            # Where the three numbers stand in the hierarchy: strip, cell, plane, from the inside.
            self._energy = geant4.G4PSEnergyDeposit3D("energy", *shape, 1, 0, 2)
            read_out.RegisterPrimitive(self._energy)
            geant4.G4SDManager.GetSDMpointer().AddNewDetector(read_out)
            self.SetSensitiveDetector(self._volumes.cell, read_out)
            self._read_out = read_out

    return Construction()


def plates(detector: Detector) -> Iterator[tuple[Slab, float, int]]:
    """Yields each slab with the depth of its middle, mm, and its layer, from the front."""
    depth = 0.0
    for layer, absorber_mm in enumerate(detector.absorber_mm):
        for slab in (Slab(TUNGSTEN, absorber_mm), *detector.gap):
            yield slab, depth + slab.thickness_mm / 2, layer
            depth += slab.thickness_mm
    yield Slab(TUNGSTEN, detector.back_mm), depth + detector.back_mm / 2, detector.layers


class _Volumes:
    def __init__(self, geant4: Any, detector: Detector) -> None:
        self._geant4, self._detector = geant4, detector
        self._kept: list[Any] = []
        self.cell: Any = None

    def build(self) -> Any:
        materials = {m: self._material(m) for m in self._detector.materials}
        depth = float(self._detector.layer_mm().sum()) + self._detector.back_mm
        half = HALF_WIDTH_MM
        _, world = self._box("world", (_HALF_WORLD_MM,) * 3, materials[AIR])
        _, inside = self._box("calorimeter", (half, half, depth / 2), materials[AIR])
        placed = self._place(world, None, 0.0, 0)
        self._place(inside, world, depth / 2, 0)
        plane = self._plane(materials[SILICON])
        for slab, middle, layer in plates(self._detector):
            if slab.material == AIR:
                continue
            plate = plane
            if slab.material != SILICON:
                size = (half, half, slab.thickness_mm / 2)
                _, plate = self._box(slab.material.name, size, materials[slab.material])
            self._place(plate, inside, middle - depth / 2, layer)
        return placed

    def _plane(self, silicon: Any) -> Any:
        """A plane of silicon: replicas along x, each of replicas along y."""
        axes, cell_mm = self._geant4.EAxis, self._detector.cell_mm
        (thickness,) = {s.thickness_mm for s in self._detector.gap if s.material == SILICON}
        wide, narrow, half = PLANE_CELLS * cell_mm / 2, cell_mm / 2, thickness / 2
        _, plane = self._box("plane", (wide, wide, half), silicon)
        _, strip = self._box("strip", (narrow, wide, half), silicon)
        _, self.cell = self._box("cell", (narrow, narrow, half), silicon)
        replica = self._geant4.G4PVReplica
        self._kept += [
            replica("strip", strip, plane, axes.kXAxis, PLANE_CELLS, cell_mm),
            replica("cell", self.cell, strip, axes.kYAxis, PLANE_CELLS, cell_mm),
        ]
        return plane

    def _box(self, name: str, half_mm: tuple[float, ...], material: Any) -> tuple[Any, Any]:
        solid = self._geant4.G4Box(name, *half_mm)
        logical = self._geant4.G4LogicalVolume(solid, material, name)
        self._kept += [solid, logical]
        return solid, logical

    def _place(self, logical: Any, mother: Any, z_mm: float, copy: int) -> Any:
        where = self._geant4.G4ThreeVector(0, 0, z_mm)
        name = logical.GetName()
        placed = self._geant4.G4PVPlacement(None, where, logical, name, mother, False, copy)
        self._kept.append(placed)
        return placed

    def _material(self, material: Material) -> Any:
        """An element alone is Geant4's own, with its measured mean excitation energy."""
        geant4, shares = self._geant4, material.mass_shares
        nist = geant4.G4NistManager.Instance()
        if len(shares) == 1:
            return nist.FindOrBuildMaterial(f"G4_{shares[0][0]}")
        density = material.density_g_per_cm3 * geant4.g / geant4.cm3
        made = geant4.G4Material(material.name, density, len(shares))
        for symbol, share in shares:
            made.AddElement(nist.FindOrBuildElement(symbol), share)
        self._kept.append(made)
        return made
