"""Data files of Geant4's electromagnetic physics: written here, or CERN's own.

CERN's archive G4EMLOW has gigabytes for all models and elements; G4EmStandardPhysics opens three kinds of
files for the elements of the detector (from the sources of Geant4 11.4):

- ``brem_SB/br<Z>``, G4SeltzerBergerModel below 1 GeV: chi(k/T, T) on 32 x 57 nodes.
- ``epics2017/phot/pe-*-<Z>.dat``, G4LivermorePhotoElectricModel.
- ``epics2017/rayl/re-cs-<Z>.dat``, G4LivermoreRayleighModel: zeros. Coherent scattering only deflects
  photons below 0.3 MeV a little.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.simulation.detector import ATOMIC_NUMBERS
from cloudgan.simulation.geant4.cross_sections import (
    Photoelectric,
    free_vector,
    scaled_cross_section,
)

OWN_NAME = (
    "cloudgan's own: bremsstrahlung of Tsai (1974), photo-electric of Biggs and Lighthill (1990)"
)
PHOTON_SHARES = (
    *(0, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65),
    *(0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995),
    *(0.99999, 1.0),
)
"""k/T of the 32 nodes of Seltzer and Berger, as Geant4's model expects."""
ENERGIES_MEV = (
    *(m * 10.0**d for d in range(-3, 4) for m in (1, 1.5, 2, 3, 4, 5, 6, 8)),
    1e4,
)
"""T of the 57 nodes, 1 keV to 10 GeV."""
_HADRONIC = (
    *("G4LEVELGAMMADATA", "G4PARTICLEXSDATA", "G4RADIOACTIVEDATA", "G4NEUTRONHPDATA", "G4PIIDATA"),
    *("G4REALSURFACEDATA", "G4SAIDXSDATA", "G4ABLADATA", "G4INCLDATA", "G4CHANNELINGDATA"),
)
"""Variables that Geant4 requires but never uses: their folders may be empty, not missing."""
_OWN, _STATES, _UNUSED = "G4EMLOW-cloudgan", "states", "unused"


class Tables(NamedTuple):
    """Data tables for Geant4.

    `folder` has those that are required but unused, `low_energy` the electromagnetic ones. A file of showers records
    the name, and the digest of all files of the detector's elements.
    """

    folder: Path
    low_energy: Path
    name: str
    sha256: str

    def variables(self) -> dict[str, str]:
        """Returns the environment of Geant4; with it, the import neither prompts nor downloads."""
        unused = str(self.folder / _UNUSED)
        return {
            "GEANT4_DATA_DIR": str(self.folder),
            "G4LEDATA": str(self.low_energy),
            "G4ENSDFSTATEDATA": str(self.folder / _STATES),
        } | dict.fromkeys(_HADRONIC, unused)

    def as_json(self) -> dict[str, str]:
        """Returns the values by name."""
        return {name: str(value) for name, value in self._asdict().items()}

    @classmethod
    def from_json(cls, found: Mapping[str, str]) -> Self:
        """Reads the output of `as_json`."""
        folder, low_energy = Path(found["folder"]), Path(found["low_energy"])
        return cls(folder, low_energy, found["name"], found["sha256"])


def table_files(elements: Mapping[int, Photoelectric]) -> dict[str, str]:
    """Returns the contents of all files for elements of these atomic numbers, by path."""
    found: dict[str, str] = {}
    for z, photoelectric in elements.items():
        found[f"brem_SB/br{z}"] = _bremsstrahlung(z)
        named = photoelectric.files(z).items()
        found |= {f"epics2017/phot/{name}": text for name, text in named}
        found[f"epics2017/rayl/re-cs-{z}.dat"] = free_vector(
            np.geomspace(1e-4, 10, 20), np.zeros(20)
        )
    return found


def write_tables(folder: Path, files: Mapping[str, str]) -> Tables:
    """Writes all files into `folder` atomically."""
    temporary, low_energy = folder / f"{_OWN}.tmp", folder / _OWN
    try:
        create_unused_folders(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        for name, text in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_text(text, encoding="ascii")
        shutil.rmtree(low_energy, ignore_errors=True)
        temporary.rename(low_energy)
    except OSError as error:
        raise DataError(
            f"{folder}: Geant4's tables cannot be written ({error.strerror})"
        ) from error
    return Tables(folder, low_energy, OWN_NAME, _digest(low_energy))


def cern_tables(data: Path, folder: Path) -> Tables:
    """Returns CERN's files below `data`; creates the unused folders in `folder`."""
    found = sorted(data.glob("G4EMLOW*"), key=_version)
    if not found:
        raise ConfigError(
            f"GEANT4_DATA_DIR is {data}, which has no G4EMLOW*; set it to the folder of CERN's unpacked"
            " archives, or unset it to use the tables of cloudgan"
        )
    low_energy = found[-1].resolve()
    if not (low_energy / "brem_SB" / "br74").is_file():
        raise ConfigError(
            f"{low_energy} lacks brem_SB/br74: it is incomplete. Unpack it again, or unset"
            " GEANT4_DATA_DIR to use the tables of cloudgan"
        )
    create_unused_folders(folder)
    return Tables(folder, low_energy, f"{low_energy.name} of CERN", _digest(low_energy))


def create_unused_folders(folder: Path) -> None:
    """Creates the folders that Geant4 requires but does not read."""
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
    """SHA-256 of names and contents of the files that Geant4 opens for the detector's elements."""
    digest = hashlib.sha256()
    for path in _opened(low_energy, sorted(ATOMIC_NUMBERS.values())):
        digest.update(f"{path.relative_to(low_energy).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _opened(low_energy: Path, numbers: Iterable[int]) -> list[Path]:
    patterns = ("brem_SB/br{}", "epics2017/phot/pe-*-{}.dat", "epics2017/rayl/re-cs-{}.dat")
    found = (low_energy.glob(pattern.format(z)) for pattern in patterns for z in numbers)
    return sorted(path for paths in found for path in paths)
