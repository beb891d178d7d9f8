"""Worker processes of Geant4: each answers calls of a function, and dies alone; and the import of Geant4 in them.

Geant4 can be initialised once per process, ends a process that it finds in error, and holds Python's lock
while it works; so it runs in processes of its own. They are those of `multiprocessing`, each with a pipe:
an executor would not say which one died, with which signal and output, nor end one in the middle of a shower.

The wheel's first import looks for CERN's data, prompts for a download, and downloads without a prompt if
CI=true; GEANT4_DATA_DIR prevents both.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import re
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cloudgan.core import settings
from cloudgan.core.children import last_lines
from cloudgan.core.errors import CloudganError, ConfigError, install_command
from cloudgan.simulation.detector import ATOMIC_NUMBERS
from cloudgan.simulation.geant4.tables import (
    Photoelectric,
    Tables,
    cern_tables,
    create_unused_folders,
    table_files,
    write_tables,
)

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux' prctl


class WorkerPool:
    """Context manager of worker processes; on exit they are killed, in the middle of a shower too."""

    def __init__(self, workers: int) -> None:
        """Stores the number of processes."""
        self._count = workers
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Self:
        """Starts the processes."""
        self._logs = tempfile.TemporaryDirectory(prefix="cloudgan-")
        spawn = multiprocessing.get_context("spawn")
        try:
            with _plain_children():
                for number in range(self._count):
                    ours, theirs = spawn.Pipe()
                    process = spawn.Process(target=_serve, args=(theirs, self._log(number)))
                    process.start()
                    theirs.close()
                    self._processes[ours] = process
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the processes."""
        for pipe, process in self._processes.items():
            process.kill()
            process.join()
            pipe.close()
        self._logs.cleanup()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process IDs of the workers."""
        return tuple(process.pid or 0 for process in self._processes.values())

    def answers(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """Yields what `calls` return, in order of completion; each is a `partial` that can be pickled."""
        remaining = iter(calls)
        idle, busy = deque(self._processes), set[Connection]()
        while True:
            while idle and (call := next(remaining, None)):
                with suppress(OSError):  # it died, which reading tells
                    idle[0].send(call)
                busy.add(idle.popleft())
            if not busy:
                return
            ready = wait(busy)
            for pipe in [one for one in busy if one in ready]:
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):
                    raise self._death(pipe) from None
                if isinstance(answer, Exception):
                    raise answer
                busy.remove(pipe)
                idle.append(pipe)
                yield answer

    def _log(self, number: int) -> Path:
        return Path(self._logs.name) / str(number)

    def _death(self, pipe: Connection) -> CloudganError:
        process = self._processes[pipe]
        process.join()
        code = process.exitcode or 0
        cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        log = self._log(list(self._processes).index(pipe))
        text = log.read_text(errors="replace") if log.exists() else ""
        said = f"the process with Geant4 ({process.pid}) died with {cause}"
        return CloudganError(said + last_lines(text))


@contextmanager
def _plain_children() -> Iterator[None]:
    """Children started in the block do not import the caller's program and do not see Ctrl-C.

    `spawn` imports the program again, which runs a script that has no main guard.
    """
    resource_tracker.ensure_running()  # its start would unblock the signal
    program, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        sys.modules["__main__"] = program
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _serve(calls: Connection, log: Path) -> None:
    """Answers calls until the parent ends; what Geant4 prints goes to `log`.

    On Linux it ends with its parent in the middle of a shower, on other systems after it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        parent = multiprocessing.parent_process()
        if parent and not parent.is_alive():  # it ended before the call
            os._exit(0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(output, descriptor)
    with suppress(EOFError, BrokenPipeError):  # the parent ended
        while True:
            call = calls.recv()
            try:
                answer = call()
            except (CloudganError, ModuleNotFoundError) as error:
                answer = error
            calls.send(answer)
    os._exit(0)  # skips Geant4's teardown, which can crash


class Installation(NamedTuple):
    """The installed Geant4: its version, that of geant4-pybind, and the data tables."""

    geant4: str
    package: str
    tables: Tables


def prepare_geant4(folder: Path, data: Path | None) -> Installation:
    """Checks Geant4 and prepares its tables in `folder`, in a worker process, which takes a second.

    `data` are CERN's files of the user; None: tables are written.
    """
    check_installed()
    call = partial(_prepare, folder.resolve(), data.resolve() if data else None)
    with WorkerPool(1) as pool:
        (found,) = pool.answers([call])
    return Installation(*found)


def _prepare(folder: Path, data: Path | None) -> tuple[str, str, Tables]:
    """Loads Geant4, which reports missing libraries, and prepares the tables."""
    create_unused_folders(folder)
    geant4 = load(Tables(folder, folder, "", "").variables())
    if data:
        tables = cern_tables(data, folder)
    else:
        tables = write_tables(folder, table_files(read_photoelectric(geant4)))
    return geant4_version(geant4), package_version(), tables


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
