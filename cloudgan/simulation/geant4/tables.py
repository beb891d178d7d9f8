"""The data files that Geant4's electromagnetic physics opens: written here, or the user's own of CERN.

CERN's archive G4EMLOW holds gigabytes for all models and elements; G4EmStandardPhysics opens three
kinds of files, for the elements of the detector (read in the sources of Geant4 11.4):

- ``brem_SB/br<Z>``, G4SeltzerBergerModel below 1 GeV: chi(k/T, T) on 32 x 57 nodes.
- ``epics2017/phot/pe-*-<Z>.dat``, G4LivermorePhotoElectricModel.
- ``epics2017/rayl/re-cs-<Z>.dat``, G4LivermoreRayleighModel: zeros. Coherent scattering only turns
  photons below 0.3 MeV a little.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.simulation.detector import ATOMIC_NUMBERS
from cloudgan.simulation.geant4.bremsstrahlung import scaled_cross_section
from cloudgan.simulation.geant4.photoelectric import free_vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cloudgan.simulation.geant4.photoelectric import Photoelectric

OWN_NAME = (
    "cloudgan's own: bremsstrahlung of Tsai (1974), photo-electric of Biggs and Lighthill (1990)"
)
PHOTON_SHARES = (
    *(0, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65),
    *(0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995),
    *(0.99999, 1.0),
)
"""k/T of the 32 nodes, those of Seltzer and Berger, which Geant4's model expects."""
ENERGIES_MEV = (
    *(m * 10.0**d for d in range(-3, 4) for m in (1, 1.5, 2, 3, 4, 5, 6, 8)),
    1e4,
)
"""T of the 57 nodes, 1 keV to 10 GeV."""
_HADRONIC = (
    *("G4LEVELGAMMADATA", "G4PARTICLEXSDATA", "G4RADIOACTIVEDATA", "G4NEUTRONHPDATA", "G4PIIDATA"),
    *("G4REALSURFACEDATA", "G4SAIDXSDATA", "G4ABLADATA", "G4INCLDATA", "G4CHANNELINGDATA"),
)
"""Variables that are asked for and never used: their folders may be empty, not missing."""
_OWN, _STATES, _UNUSED = "G4EMLOW-cloudgan", "states", "unused"


class Tables(NamedTuple):
    """What Geant4 is given to read.

    Attributes:
        folder: Ours, with what nobody reads and must be there.
        low_energy: The folder of the electromagnetic files.
        name: What they are, for the record of a file of showers.
        sha256: Of all files that the detector's elements have there.
    """

    folder: Path
    low_energy: Path
    name: str
    sha256: str

    def variables(self) -> dict[str, str]:
        """Returns the environment that Geant4 needs; with it, importing it asks and fetches nothing."""
        unused = str(self.folder / _UNUSED)
        return {
            "GEANT4_DATA_DIR": str(self.folder),
            "G4LEDATA": str(self.low_energy),
            "G4ENSDFSTATEDATA": str(self.folder / _STATES),
        } | dict.fromkeys(_HADRONIC, unused)

    def as_json(self) -> dict[str, str]:
        """By name."""
        return {name: str(value) for name, value in self._asdict().items()}

    @classmethod
    def from_json(cls, found: Mapping[str, str]) -> Self:
        """Reads what `as_json` gave."""
        folder, low_energy = Path(found["folder"]), Path(found["low_energy"])
        return cls(folder, low_energy, found["name"], found["sha256"])


def own_files(elements: Mapping[int, Photoelectric]) -> dict[str, str]:
    """Returns the content of all files for elements of these atomic numbers, by path."""
    found: dict[str, str] = {}
    for z, photoelectric in elements.items():
        found[f"brem_SB/br{z}"] = _bremsstrahlung(z)
        named = photoelectric.files(z).items()
        found |= {f"epics2017/phot/{name}": text for name, text in named}
        found[f"epics2017/rayl/re-cs-{z}.dat"] = free_vector(
            np.geomspace(1e-4, 10, 20), np.zeros(20)
        )
    return found


def write_own(folder: Path, files: Mapping[str, str]) -> Tables:
    """Writes our files into `folder`, all of them or none.

    Raises:
        DataError: The disk is full or forbids it.
    """
    beside, low_energy = folder / f"{_OWN}.tmp", folder / _OWN
    try:
        make_unused(folder)
        shutil.rmtree(beside, ignore_errors=True)
        for name, text in files.items():
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            (beside / name).write_text(text, encoding="ascii")
        shutil.rmtree(low_energy, ignore_errors=True)
        beside.rename(low_energy)
    except OSError as error:
        raise DataError(
            f"{folder}: Geant4's tables cannot be written ({error.strerror})"
        ) from error
    return Tables(folder, low_energy, OWN_NAME, _digest(low_energy))


def official(data: Path, folder: Path) -> Tables:
    """Returns CERN's files that the user has under `data`; `folder` gets what nobody reads.

    Raises:
        ConfigError: There are none, or none for tungsten.
    """
    found = sorted(data.glob("G4EMLOW*"), key=_version)
    if not found:
        raise ConfigError(
            f"GEANT4_DATA_DIR is {data}, which holds no G4EMLOW*; unset it and cloudgan writes the"
            " tables itself, or name the folder in which CERN's archives were unpacked"
        )
    low_energy = found[-1].resolve()
    if not (low_energy / "brem_SB" / "br74").is_file():
        raise ConfigError(
            f"{low_energy} lacks brem_SB/br74: it is not whole. Unpack it again, or unset"
            " GEANT4_DATA_DIR and cloudgan writes the tables itself"
        )
    make_unused(folder)
    return Tables(folder, low_energy, f"{low_energy.name} of CERN", _digest(low_energy))


def make_unused(folder: Path) -> None:
    """Makes what has to be there and nobody reads."""
    for name in (_UNUSED, _STATES):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / _STATES / "ENSDFSTATE.dat").touch()


def _version(folder: Path) -> list[int]:
    return [int(part) for part in folder.name.removeprefix("G4EMLOW").split(".") if part.isdigit()]


def _bremsstrahlung(z: int) -> str:
    chi = scaled_cross_section(z, np.array(ENERGIES_MEV)[:, None], np.array(PHOTON_SHARES))
    lines = [
        f"0 {len(PHOTON_SHARES)} {len(ENERGIES_MEV)}",
        " ".join(f"{share:.8g}" for share in PHOTON_SHARES),
        " ".join(f"{value:.8f}" for value in np.log(ENERGIES_MEV)),
    ]
    lines += [" ".join(f"{value:.6g}" for value in np.maximum(row, 1e-3)) for row in chi]
    return "\n".join(lines) + "\n"


def _digest(low_energy: Path) -> str:
    """SHA-256 of names and contents of what Geant4 opens for the detector's elements."""
    digest = hashlib.sha256()
    for path in _opened(low_energy, sorted(ATOMIC_NUMBERS.values())):
        digest.update(f"{path.relative_to(low_energy).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _opened(low_energy: Path, numbers: Iterable[int]) -> list[Path]:
    patterns = ("brem_SB/br{}", "epics2017/phot/pe-*-{}.dat", "epics2017/rayl/re-cs-{}.dat")
    found = (low_energy.glob(pattern.format(z)) for pattern in patterns for z in numbers)
    return sorted(path for paths in found for path in paths)
