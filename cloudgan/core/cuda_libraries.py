"""NVIDIA's libraries for TensorFlow: where pip's wheels and the nodes of a cloud have them.

TensorFlow 2.21 does not find all of its libraries in pip's wheels: the RUNPATH of libtensorflow_framework
names neither cusolver nor nvjitlink, curand and nvrtc, and one missing library hides every GPU. On GKE the
driver is in /usr/local/nvidia, which is in no path of a container
(https://github.com/GoogleCloudPlatform/community/pull/2227, quoting GKE's documentation; read 2026-11-22).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cloudgan.core import settings

GKE_DRIVER = Path("/usr/local/nvidia")
_DRIVER = "libcuda.so.1"
_IN_ORDER_OF_DEPENDENCY = (
    "cudart",
    "nvJitLink",
    "nvrtc",
    "cublasLt",
    "cublas",
    "cufft",
    "curand",
    "cusparse",
    "cusolver",
    "cudnn",
    "cupti",
    "nccl",
)
_PATH, _PROGRAMS = "LD_LIBRARY_PATH", "PATH"


def library_folders(search: Sequence[str] | None = None) -> tuple[Path, ...]:
    """Returns the folders nvidia/*/lib of installed wheels, in the order of Python's module path.

    Args:
        search: Folders of modules; None: those of this process.
    """
    found: dict[Path, None] = {}
    for entry in sys.path if search is None else search:
        with contextlib.suppress(OSError):
            found |= dict.fromkeys(sorted(Path(entry or ".", "nvidia").glob("*/lib")))
    return tuple(found)


def loader_environment(
    search: Sequence[str] | None = None, driver: Path = GKE_DRIVER
) -> dict[str, str]:
    """Returns the variables with which a new process finds NVIDIA's libraries and nvidia-smi.

    The wheels come before folders that are set already, because TensorFlow was built for them, and
    the driver's folder last: NVIDIA's container runtime has its own way to provide the driver.
    """
    environment = {}
    libraries = [*map(str, library_folders(search)), settings.variable(_PATH) or ""]
    libraries += [str(driver / "lib64")] if (driver / "lib64").is_dir() else []
    if any(libraries):
        environment[_PATH] = _joined(libraries)
    if (driver / "bin").is_dir():
        programs = (settings.variable(_PROGRAMS) or os.defpath, str(driver / "bin"))
        environment[_PROGRAMS] = _joined(programs)
    return environment


def _joined(folders: Sequence[str]) -> str:
    """One search path; each folder once, because workers start processes that start processes."""
    parts = (part for text in folders for part in text.split(os.pathsep) if part)
    return os.pathsep.join(dict.fromkeys(parts))


def preload(
    search: Sequence[str] | None = None,
    load: Callable[[str], object] = ctypes.CDLL,
    driver: Path = GKE_DRIVER,
) -> tuple[str, ...]:
    """Loads NVIDIA's libraries from pip's wheels into this process; call it before TensorFlow.

    The dynamic loader reads LD_LIBRARY_PATH at the start of a process only. It looks for a library that is
    loaded already by its SONAME first, so TensorFlow finds those. Starting the process again with the
    variable would also work, but not in a notebook or a program that calls cloudgan.

    Args:
        search: Folders of modules; None: those of this process.
        load: Loads a library by path or name.
        driver: Folder that GKE mounts into containers with a GPU.

    Returns:
        One line for each library that failed to load. Nothing is loaded without a driver, or if
        CUDA_VISIBLE_DEVICES hides all GPUs.
    """
    if settings.variable("CUDA_VISIBLE_DEVICES") == "-1" or not has_driver(load, driver):
        return ()
    failures = []
    for path in _libraries(library_folders(search)):
        try:
            load(str(path))
        except OSError as error:
            failures.append(f"{path.name}: {error}")
    return tuple(failures)


def _libraries(folders: Sequence[Path]) -> Iterator[Path]:
    """The libraries that TensorFlow opens; others in these folders replace functions of NumPy."""
    for name in _IN_ORDER_OF_DEPENDENCY:
        found = (path for folder in folders for path in sorted(folder.glob(f"lib{name}.so.*")))
        if path := next(found, None):
            yield path


def has_driver(load: Callable[[str], object] = ctypes.CDLL, driver: Path = GKE_DRIVER) -> bool:
    """Whether NVIDIA's driver can be loaded, from the loader's path or from GKE's folder."""
    for name in (_DRIVER, str(driver / "lib64" / _DRIVER)):
        with contextlib.suppress(OSError):
            load(name)
            return True
    return False


def describe_libraries(
    search: Sequence[str] | None = None,
    load: Callable[[str], object] = ctypes.CDLL,
    driver: Path = GKE_DRIVER,
) -> str:
    """Returns one line with the places of driver and libraries that were looked at, and what is missing."""
    places = f"LD_LIBRARY_PATH={settings.variable(_PATH) or ''}"
    state = "loads" if has_driver(load, driver) else "is missing"
    found = f"the driver ({_DRIVER}) {state} ({places}, {driver / 'lib64'})"
    folders = library_folders(search)
    if not folders:
        return (
            f"{found}; no CUDA library is installed beside TensorFlow (site-packages/nvidia/*/lib)"
        )
    names = {path.name.partition(".")[0] for path in _libraries(folders)}
    missing = [f"lib{name}" for name in _IN_ORDER_OF_DEPENDENCY if f"lib{name}" not in names]
    faults = [*(f"{name} is missing" for name in missing), *preload(search, load, driver)]
    where = f"{len(folders)} folders {folders[0].parents[1]}/*/lib"
    return f"{found}; CUDA libraries in {where}: {'; '.join(faults) or 'complete'}"
