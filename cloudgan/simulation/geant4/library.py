"""Import of Geant4 without prompts and downloads.

The wheel's first import looks for CERN's data, prompts for a download, and downloads without a prompt if
CI=true; GEANT4_DATA_DIR prevents both. Geant4 can be initialised once per process and holds Python's lock
while it works, hence worker processes.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, install_command
from cloudgan.simulation.detector import ATOMIC_NUMBERS
from cloudgan.simulation.geant4.cross_sections import Photoelectric

PACKAGE = "geant4_pybind"
_DEBIAN = {
    "libGL.so.1": "libgl1",
    "libICE.so.6": "libice6",
    "libSM.so.6": "libsm6",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
}
"""System libraries of the wheel (0.1.3) for its windows, which are not used here."""
APT_LINE = f"apt-get install {' '.join(sorted(_DEBIAN.values()))}"
_BARN_MM2 = 1e-22


def check_installed() -> None:
    """Checks that the package is installed, without importing it."""
    if sys.platform == "win32":
        raise ConfigError("simulating with Geant4 needs Linux or macOS; use WSL on Windows")
    if find_spec(PACKAGE) is None:
        raise ModuleNotFoundError(f"no package {PACKAGE}", name=PACKAGE)


def load(variables: Mapping[str, str]) -> Any:
    """Imports Geant4 into this process, with `Tables.variables` in its environment."""
    settings.set_variables(variables)
    try:
        return importlib.import_module(PACKAGE)
    except ModuleNotFoundError:
        raise
    except ImportError as error:
        raise ConfigError(missing_library(str(error))) from error


def missing_library(loader_error: str) -> str:
    """Returns the error message for an error of the dynamic loader."""
    found = re.match(r"(lib[^:\s]+): cannot open shared object file", loader_error)
    if found is None:
        how = install_command("geant4", "--force-reinstall ")
        return f"Geant4 cannot be loaded ({loader_error}); run {how}"
    library = found[1]
    package = _DEBIAN.get(library)
    remedy = f"the package {package}" if package else "the package that provides it"
    return f"Geant4 needs {library}, which this system lacks: install {remedy}. All libraries: {APT_LINE}"


def geant4_version(geant4: Any) -> str:
    """Returns the version, such as 11.4.1."""
    major_minor, patch = divmod(int(geant4.G4VERSION_NUMBER), 10)
    return f"{major_minor // 10}.{major_minor % 10}.{patch}"


def package_version() -> str:
    """Returns the version of geant4-pybind."""
    try:
        return version("geant4-pybind")
    except PackageNotFoundError:
        return "unknown"


def read_photoelectric(geant4: Any) -> dict[int, Photoelectric]:
    """Reads the cross sections of the detector's elements that are compiled into Geant4."""
    # The first material fills the index of G4SandiaTable; without it the values are wrong.
    geant4.G4NistManager.Instance().FindOrBuildMaterial("G4_W")
    table = geant4.G4SandiaTable()

    def coefficients(z: int, energy_mev: float) -> NDArray[np.float64]:
        found = geant4.G4doubleVector([0.0] * 4)
        table.GetSandiaCofPerAtom(z, energy_mev, found)
        return np.array([found[i] for i in range(4)]) / _BARN_MM2

    edge = geant4.G4AtomicShells.GetBindingEnergy
    numbers = sorted(ATOMIC_NUMBERS.values())
    return {z: Photoelectric(edge(z, 0), partial(coefficients, z)) for z in numbers}
