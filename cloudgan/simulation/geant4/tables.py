"""Data files of Geant4's electromagnetic physics: written here, or CERN's own.

CERN's archive G4EMLOW has gigabytes for all models and elements; G4EmStandardPhysics opens three kinds of
files for the elements of the detector (from the sources of Geant4 11.4):

- ``brem_SB/br<Z>``, G4SeltzerBergerModel below 1 GeV: chi(k/T, T) on 32 x 57 nodes.
- ``epics2017/phot/pe-*-<Z>.dat``, G4LivermorePhotoElectricModel.
- ``epics2017/rayl/re-cs-<Z>.dat``, G4LivermoreRayleighModel: zeros. Coherent scattering only deflects
  photons below 0.3 MeV a little.

Bremsstrahlung: Y.-S. Tsai, Rev. Mod. Phys. 46 (1974) 815, doi:10.1103/RevModPhys.46.815 (and 49 (1977)
421): eq. 3.83 with the screening functions of the Thomas-Fermi model, eqs. 3.38 to 3.41. Coulomb
correction: H. Davies, H. Bethe and L. Maximon, Phys. Rev. 93 (1954) 788, doi:10.1103/PhysRev.93.788.
The radiated energy in silicon and tungsten agrees with S. Seltzer and M. Berger, At. Data Nucl. Data
Tables 35 (1986) 345, to 2 % above 20 MeV; in tungsten it is 11 % less at 5 MeV and 30 % at 1 MeV, which
no shower observable shows.

Photoelectric: F. Biggs and R. Lighthill, Sandia report SAND87-0070 (1990): between two edges
sigma = sum a_i / E^i, i = 1 to 4. Geant4 has the coefficients compiled in (G4SandiaTable). The Livermore
model, which G4EmStandardPhysics uses, reads the same cross section from files: one parametrisation for
high energies, and tables of E^3 sigma below it, split at the K edge.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.simulation.detector import ATOMIC_NUMBERS

Floats = NDArray[np.float64]
Coefficients = Callable[[float], Floats]


FINE_STRUCTURE = 1 / 137.035999
ELECTRON_MASS_MEV = 0.51099895
CLASSICAL_RADIUS_SQUARED_MB = 79.40788
LEAST_SHARE = 1e-6
"""Lower bound of the photon share: the limit is finite, but the formula divides by it."""


def scaled_cross_section(
    atomic_number: int, kinetic_mev: Floats | float, photon_share: Floats | float
) -> Floats:
    """Returns chi = (beta / Z)^2 k dsigma/dk, mb.

    Args:
        atomic_number: Z. Thomas-Fermi holds from about Z = 5; lighter elements are traces here.
        kinetic_mev: Kinetic energy T of the electron, MeV.
        photon_share: Photon energy over T, 0 to 1; both are broadcast.
    """
    z, mass = atomic_number, ELECTRON_MASS_MEV
    total = np.asarray(kinetic_mev) + mass
    photon = np.maximum(photon_share, LEAST_SHARE) * kinetic_mev
    left = np.maximum(total - photon, mass)
    y = photon / total
    delta = 100 * mass * photon / (total * left)
    nucleus, nucleus_step = _nuclear_screening(delta / z ** (1 / 3))
    electrons, electrons_step = _electron_screening(delta / z ** (2 / 3))
    log_z = np.log(z)
    elastic = nucleus / 4 - log_z / 3 - coulomb_correction(z)
    inelastic = (electrons / 4 - 2 * log_z / 3) / z
    steps = nucleus_step + electrons_step / z
    shape = (1 - y + 0.75 * y**2) * (elastic + inelastic) + (1 - y) * steps / 8
    beta_squared = kinetic_mev * (total + mass) / total**2
    scale = 16 * FINE_STRUCTURE * CLASSICAL_RADIUS_SQUARED_MB / 3
    chi: Floats = scale * beta_squared * np.maximum(shape, 0)
    return chi


def coulomb_correction(atomic_number: int) -> float:
    """Returns f(Z), the correction of the Born approximation for exact wave functions."""
    a = (FINE_STRUCTURE * atomic_number) ** 2
    return a * (1 / (1 + a) + 0.20206 - 0.0369 * a + 0.0083 * a**2 - 0.002 * a**3)


def _nuclear_screening(gamma: Floats) -> tuple[Floats, Floats]:
    """phi_1 and phi_1 - phi_2 of gamma = 100 m k / (E E' Z^(1/3)), eqs. 3.38 and 3.39."""
    falling = 4 - 2.4 * np.exp(-0.9 * gamma) - 1.6 * np.exp(-1.5 * gamma)
    phi = 20.863 - 2 * np.log1p((0.55846 * gamma) ** 2) - falling
    return phi, 2 / 3 / (1 + 6.5 * gamma + 6 * gamma**2)


def _electron_screening(epsilon: Floats) -> tuple[Floats, Floats]:
    """psi_1 and psi_1 - psi_2 of epsilon = 100 m k / (E E' Z^(2/3)), eqs. 3.40 and 3.41."""
    falling = 4 - 2.8 * np.exp(-8 * epsilon) - 1.2 * np.exp(-29.2 * epsilon)
    psi = 28.340 - 2 * np.log1p((3.621 * epsilon) ** 2) - falling
    return psi, 2 / 3 / (1 + 40 * epsilon + 400 * epsilon**2)


HIGHEST_MEV = 5.0
"""Above all edges: these coefficients hold for any higher energy."""
_NEAR = 0.002
_CLOSE = 1.0001
_TABULATED = 400
_LEAST_K_SHARE, _ALL = 0.5, 0.99


@dataclass(frozen=True)
class Photoelectric:
    """Photoelectric cross section of one element.

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
        """Share of the K shell above its edge, from the jump at the edge.

        Hydrogen has no other shell, and its fit has no jump.
        """
        below = self.barn(self.k_edge_mev * (1 - _NEAR))
        share = 1 - below / self.barn(self.k_edge_mev * (1 + _NEAR))
        return share if share > _LEAST_K_SHARE else _ALL

    @cached_property
    def threshold_mev(self) -> float:
        """Energy above which one set of coefficients holds.

        Those of the first interval above the K edge give negative cross sections at higher energies.
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
        """Returns the contents of the Geant4 files by name."""
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
    """Returns a table in the format of Geant4's G4PhysicsFreeVector."""
    head = f"{energies[0]:.8e} {energies[-1]:.8e} {len(energies)}\n{len(energies)}\n"
    return head + _lines(energies, values)


def _rows(energies: Floats, values: Floats, shell: int) -> str:
    head = f"{energies[0]:.8e} {energies[-1]:.8e} {len(energies)} {shell}\n"
    return head + _lines(energies, values)


def _lines(energies: Floats, values: Floats) -> str:
    return "".join(f"{e:.8e} {v:.8e}\n" for e, v in zip(energies, values, strict=True))


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
    patterns = ("brem_SB/br{}", "epics2017/phot/pe-*-{}.dat", "epics2017/rayl/re-cs-{}.dat")
    named = (low_energy.glob(each.format(z)) for each in patterns for z in ATOMIC_NUMBERS.values())
    digest = hashlib.sha256()
    for path in sorted(path for paths in named for path in paths):
        digest.update(f"{path.relative_to(low_energy).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
