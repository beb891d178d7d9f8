"""Geant4 in this process, which has it once: one shower at a time, a function of its primary."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.simulation.detector import CLIC_ECAL, Detector
from cloudgan.simulation.geant4.geometry import PLANE_CELLS, construction
from cloudgan.simulation.geant4.library import load
from cloudgan.simulation.geant4.window import Cells, crop

if TYPE_CHECKING:
    from cloudgan.simulation.geant4.primaries import Primary
    from cloudgan.simulation.geant4.tables import Tables

PHYSICS = "G4EmStandardPhysics"
_BEFORE_FACE_MM = 0.5
_COMMANDS = (
    *("/run/verbose 0", "/process/verbose 0", "/process/em/verbose 0", "/cuts/verbose 0"),
    "/process/em/fluo false",  # its tables are not among those that we write
    "/process/em/UseGeneralProcess true",  # one process of photons instead of four: faster
)


class Engine:
    """Electrons in the calorimeter; a second one in the same process is not possible."""

    def __init__(self, tables: Tables, cut_mm: float, detector: Detector = CLIC_ECAL) -> None:
        """Builds detector and physics, which takes about a second.

        Args:
            tables: What Geant4 reads.
            cut_mm: Range cut.
            detector: The stack, and the window of the image.

        Raises:
            ConfigError: Geant4 cannot be loaded here; the message says what is missing.
        """
        self._geant4 = geant4 = load(tables.variables())
        self._detector = detector
        self._primary: Primary | None = None
        self._seen = Cells(np.zeros(0, np.int64), np.zeros(0, np.float32))
        kinds = geant4.G4RunManagerType
        self._manager = geant4.G4RunManagerFactory.CreateRunManager(kinds.Serial)
        self._manager.SetUserInitialization(construction(geant4, detector))
        self._manager.SetUserInitialization(_physics(geant4))
        self._manager.SetUserInitialization(_actions(geant4, self))
        commands = geant4.G4UImanager.GetUIpointer()
        # SetDefaultCutValue of a physics list that Python made changes nothing: 1 mm stays.
        for command in (*_COMMANDS, f"/run/setCut {cut_mm} mm"):
            commands.ApplyCommand(command)
        self._manager.Initialize()
        # G4ParticleGun fails before there is a table of particles.
        self._gun = geant4.G4ParticleGun(1)
        self._gun.SetParticleDefinition(geant4.G4Electron.Electron())

    def shower(self, primary: Primary) -> Cells:
        """Simulates one electron; returns the cells of its image."""
        self._primary = primary
        self._manager.BeamOn(1)
        shape = (PLANE_CELLS, PLANE_CELLS, self._detector.layers)
        return crop(self._seen, shape, self._detector.cells)

    def shoot(self, event: Any) -> None:
        """Puts the primary into `event`; Geant4 asks when it begins one."""
        if self._primary is None:
            raise RuntimeError("an event without a primary")
        geant4, primary = self._geant4, self._primary
        # The binding reads seeds up to a 0.
        geant4.G4Random.setTheSeeds([*primary.seeds, 0], len(primary.seeds))
        along_y, along_z = math.cos(primary.theta_rad), math.sin(primary.theta_rad)
        y_mm = primary.y_mm - _BEFORE_FACE_MM * along_y / along_z
        self._gun.SetParticlePosition(geant4.G4ThreeVector(primary.x_mm, y_mm, -_BEFORE_FACE_MM))
        self._gun.SetParticleMomentumDirection(geant4.G4ThreeVector(0.0, along_y, along_z))
        self._gun.SetParticleEnergy(primary.energy_gev * geant4.GeV)
        self._gun.GeneratePrimaryVertex(event)

    def read(self, event: Any) -> None:
        """Takes the cells of `event`; Geant4 asks when it ends one."""
        geant4 = self._geant4
        number = geant4.G4SDManager.GetSDMpointer().GetCollectionID("ecal/energy")
        hits = list(event.GetHCofThisEvent().GetHC(number))
        place = np.fromiter((hit[0] for hit in hits), np.int64, len(hits))
        energy = np.fromiter((hit[1] for hit in hits), np.float64, len(hits)) / geant4.GeV
        order = np.argsort(place)
        self._seen = Cells(place[order], energy[order].astype(np.float32))


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
            engine.shoot(event)

    class ReadOut(geant4.G4UserEventAction):  # type: ignore[misc]
        def EndOfEventAction(self, event: Any) -> None:  # noqa: N802
            engine.read(event)

    class Actions(geant4.G4VUserActionInitialization):  # type: ignore[misc]
        def Build(self) -> None:  # noqa: N802
            self.SetUserAction(Gun())
            self.SetUserAction(ReadOut())

    return Actions()
