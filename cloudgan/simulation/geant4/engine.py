"""Geant4 in this process: detector volumes, read-out, physics list and one shower per primary.

The face of the calorimeter is at depth 0 and depth grows along z; x and y are those of the image. One
plane of cells is placed once per layer, so that three copy numbers identify a cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from cloudgan.schema.simulation import Particle
from cloudgan.simulation.detector import (
    AIR,
    CLIC_ECAL,
    SILICON,
    TUNGSTEN,
    Detector,
    Material,
    Slab,
)
from cloudgan.simulation.geant4.events import EventCells, Primary, crop
from cloudgan.simulation.geant4.tables import Tables
from cloudgan.simulation.geant4.workers import load

PLANE_CELLS = 75
"""Cells of a simulated plane along x and y: wider than the image, which is centred on the shower."""
HALF_WIDTH_MM = 400.0
_HALF_WORLD_MM = 600.0


def construction(geant4: Any, detector: Detector) -> Any:
    """Returns the detector construction for Geant4, with its read-out ``ecal/energy``."""

    class Construction(geant4.G4VUserDetectorConstruction):  # type: ignore[misc]
        """Holds references to its volumes: Geant4 does not own Python objects."""

        def __init__(self) -> None:
            super().__init__()
            self._volumes = _Volumes(geant4, detector)

        def Construct(self) -> Any:  # noqa: N802
            return self._volumes.build()

        def ConstructSDandField(self) -> None:  # noqa: N802
            read_out = geant4.G4MultiFunctionalDetector("ecal")
            shape = (PLANE_CELLS, PLANE_CELLS, detector.layers)
            # Depth of the three copy numbers in the hierarchy: strip, cell, plane.
            self._energy = geant4.G4PSEnergyDeposit3D("energy", *shape, 1, 0, 2)
            read_out.RegisterPrimitive(self._energy)
            geant4.G4SDManager.GetSDMpointer().AddNewDetector(read_out)
            self.SetSensitiveDetector(self._volumes.cell, read_out)
            self._read_out = read_out

    return Construction()


def plates(detector: Detector) -> Iterator[tuple[Slab, float, int]]:
    """Yields each slab with the depth of its centre, mm, and its layer, front to back."""
    depth = 0.0
    for layer, absorber_mm in enumerate(detector.absorber_mm):
        for slab in (Slab(TUNGSTEN, absorber_mm), *detector.gap):
            yield slab, depth + slab.thickness_mm / 2, layer
            depth += slab.thickness_mm
    yield Slab(TUNGSTEN, detector.back_mm), depth + detector.back_mm / 2, detector.layers


class _Volumes:
    def __init__(self, geant4: Any, detector: Detector) -> None:
        self._geant4, self._detector = geant4, detector
        self._references: list[Any] = []
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
        self._references += [
            replica("strip", strip, plane, axes.kXAxis, PLANE_CELLS, cell_mm),
            replica("cell", self.cell, strip, axes.kYAxis, PLANE_CELLS, cell_mm),
        ]
        return plane

    def _box(self, name: str, half_mm: tuple[float, ...], material: Any) -> tuple[Any, Any]:
        solid = self._geant4.G4Box(name, *half_mm)
        logical = self._geant4.G4LogicalVolume(solid, material, name)
        self._references += [solid, logical]
        return solid, logical

    def _place(self, logical: Any, mother: Any, z_mm: float, copy: int) -> Any:
        where = self._geant4.G4ThreeVector(0, 0, z_mm)
        name = logical.GetName()
        placed = self._geant4.G4PVPlacement(None, where, logical, name, mother, False, copy)
        self._references.append(placed)
        return placed

    def _material(self, material: Material) -> Any:
        """Returns a Geant4 material; single elements are Geant4's own, with the measured excitation energy."""
        geant4, shares = self._geant4, material.mass_shares
        nist = geant4.G4NistManager.Instance()
        if len(shares) == 1:
            return nist.FindOrBuildMaterial(f"G4_{shares[0][0]}")
        density = material.density_g_per_cm3 * geant4.g / geant4.cm3
        mixture = geant4.G4Material(material.name, density, len(shares))
        for symbol, share in shares:
            mixture.AddElement(nist.FindOrBuildElement(symbol), share)
        self._references.append(mixture)
        return mixture


PHYSICS = "G4EmStandardPhysics"
_BEFORE_FACE_MM = 0.5
_COMMANDS = (
    *("/run/verbose 0", "/process/verbose 0", "/process/em/verbose 0", "/cuts/verbose 0"),
    "/process/em/fluo false",  # its tables are not written
    "/process/em/UseGeneralProcess true",  # one process of photons instead of four: faster
)


class Engine:
    """Simulates showers in the calorimeter; Geant4 allows one engine per process."""

    def __init__(
        self,
        tables: Tables,
        cut_mm: float,
        detector: Detector = CLIC_ECAL,
        particle: Particle = "electron",
    ) -> None:
        """Builds detector and physics, which takes about a second; `detector` has the window of the image."""
        self._geant4 = geant4 = load(tables.variables())
        self._detector = detector
        self._primary: Primary | None = None
        self._cells = EventCells(np.zeros(0, np.int64), np.zeros(0, np.float32))
        kinds = geant4.G4RunManagerType
        self._manager = geant4.G4RunManagerFactory.CreateRunManager(kinds.Serial)
        self._manager.SetUserInitialization(construction(geant4, detector))
        self._manager.SetUserInitialization(_physics(geant4))
        self._manager.SetUserInitialization(_actions(geant4, self))
        commands = geant4.G4UImanager.GetUIpointer()
        # SetDefaultCutValue of a Python physics list has no effect: the cut stays 1 mm.
        for command in (*_COMMANDS, f"/run/setCut {cut_mm} mm"):
            commands.ApplyCommand(command)
        self._manager.Initialize()
        # G4ParticleGun fails before the particle table exists.
        self._gun = geant4.G4ParticleGun(1)
        definitions = {
            "electron": geant4.G4Electron.Electron,
            "positron": geant4.G4Positron.Positron,
            "photon": geant4.G4Gamma.Gamma,
        }
        self._gun.SetParticleDefinition(definitions[particle]())

    def simulate(self, primary: Primary) -> EventCells:
        """Simulates one shower and returns the cells of its image."""
        self._primary = primary
        self._manager.BeamOn(1)
        shape = (PLANE_CELLS, PLANE_CELLS, self._detector.layers)
        return crop(self._cells, shape, self._detector.cells)

    def generate_primary(self, event: Any) -> None:
        """Adds the primary to `event`; called by Geant4 at the start of an event."""
        if self._primary is None:
            raise RuntimeError("an event without a primary")
        geant4, primary = self._geant4, self._primary
        # The binding reads seeds until a 0.
        geant4.G4Random.setTheSeeds([*primary.seeds, 0], len(primary.seeds))
        along_y, along_z = math.cos(primary.theta_rad), math.sin(primary.theta_rad)
        y_mm = primary.y_mm - _BEFORE_FACE_MM * along_y / along_z
        self._gun.SetParticlePosition(geant4.G4ThreeVector(primary.x_mm, y_mm, -_BEFORE_FACE_MM))
        self._gun.SetParticleMomentumDirection(geant4.G4ThreeVector(0.0, along_y, along_z))
        self._gun.SetParticleEnergy(primary.energy_gev * geant4.GeV)
        self._gun.GeneratePrimaryVertex(event)

    def read_hits(self, event: Any) -> None:
        """Reads the cells of `event`; called by Geant4 at the end of an event."""
        geant4 = self._geant4
        number = geant4.G4SDManager.GetSDMpointer().GetCollectionID("ecal/energy")
        hits = list(event.GetHCofThisEvent().GetHC(number))
        place = np.fromiter((hit[0] for hit in hits), np.int64, len(hits))
        energy = np.fromiter((hit[1] for hit in hits), np.float64, len(hits)) / geant4.GeV
        order = np.argsort(place)
        self._cells = EventCells(place[order], energy[order].astype(np.float32))


def _physics(geant4: Any) -> Any:
    class Physics(geant4.G4VModularPhysicsList):  # type: ignore[misc]
        """Electrons, positrons and photons; nothing hadronic."""

        def __init__(self) -> None:
            super().__init__()
            self.RegisterPhysics(getattr(geant4, PHYSICS)())

    return Physics()


def _actions(geant4: Any, engine: Engine) -> Any:
    class Gun(geant4.G4VUserPrimaryGeneratorAction):  # type: ignore[misc]
        def GeneratePrimaries(self, event: Any) -> None:  # noqa: N802
            engine.generate_primary(event)

    class ReadOut(geant4.G4UserEventAction):  # type: ignore[misc]
        def EndOfEventAction(self, event: Any) -> None:  # noqa: N802
            engine.read_hits(event)

    class Actions(geant4.G4VUserActionInitialization):  # type: ignore[misc]
        def Build(self) -> None:  # noqa: N802
            self.SetUserAction(Gun())
            self.SetUserAction(ReadOut())

    return Actions()
