"""Worker processes that run Geant4: parent side, worker side and the line protocol between them.

`python -m cloudgan.simulation.geant4.workers` starts a worker. The first line of its standard input is a
JSON task: prepare the tables, or build the detector; each further line is an event number. The worker
answers each with one line. Geant4 prints to standard output, so the worker redirects file descriptor 1 to
standard error and answers on a duplicate. A shower is a function of its number: the number of workers and
the order of the events do not change it.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.settings import child_environment
from cloudgan.simulation.geant4.engine import Engine
from cloudgan.simulation.geant4.events import Event, PrimaryRequest, from_line, primary, to_line
from cloudgan.simulation.geant4.library import (
    check_installed,
    geant4_version,
    load,
    package_version,
    read_photoelectric,
)
from cloudgan.simulation.geant4.tables import (
    Tables,
    cern_tables,
    create_unused_folders,
    table_files,
    write_tables,
)

_LAST_LINES = 12
_READ_BYTES = 1 << 16


class WorkerProcess:
    """A worker as seen by its parent; context manager that kills the process on exit."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        """Stores `task`, the first line of the worker's input."""
        self._task, self._read = task, b""

    def __enter__(self) -> Self:
        """Starts the process in a session of its own, so that Ctrl-C does not reach it."""
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(  # noqa: S603
            (sys.executable, "-m", PROGRAM, str(os.getpid())),
            env=child_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            start_new_session=True,
        )
        self.send(json.dumps(self._task))
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the process and closes its pipes."""
        process = self._process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, self._log):
            if pipe:
                pipe.close()

    @property
    def process_id(self) -> int:
        """Process ID."""
        return self._process.pid

    def fileno(self) -> int:
        """File descriptor of its answers, for a selector."""
        return self._process.stdout.fileno() if self._process.stdout else -1

    def send(self, line: str) -> None:
        """Writes one line; a dead process is reported by `read`."""
        if self._process.stdin is None:
            raise RuntimeError("the process has no pipes")
        with suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Waits for one line, a JSON object; raises the errors of `read`."""
        while not (lines := self.read()):
            pass
        found: dict[str, Any] = parse_json(lines[0], "answer of Geant4")
        return found

    def read(self) -> list[str]:
        """Waits for output and returns the complete lines.

        Raises:
            CloudganError: The process died (with its last lines), or reported an error.
            ModuleNotFoundError: A package is missing.
        """
        found = os.read(self.fileno(), _READ_BYTES)
        if not found:
            raise self._exit_error()
        *whole, self._read = (self._read + found).split(b"\n")
        lines = [line.decode("ascii") for line in whole]
        for line in lines:
            if line.startswith('{"error"'):
                raise _reported_error(parse_json(line, "answer of Geant4"))
        return lines

    def _exit_error(self) -> CloudganError:
        code = self._process.wait()
        cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
        output = "; its last lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
        return CloudganError(
            f"the process with Geant4 ({self._process.pid}) died with {cause}{output}"
        )


def _reported_error(found: Mapping[str, Any]) -> Exception:
    if "missing" in found:
        return ModuleNotFoundError(found["error"], name=found["missing"])
    kind = ConfigError if found["exit_code"] == ConfigError.exit_code else CloudganError
    return kind(found["error"])


_AHEAD = 2
"""Numbers queued per worker: the next one waits while an answer is read."""


class Installation(NamedTuple):
    """The installed Geant4.

    Attributes:
        geant4: Version of Geant4.
        package: Version of geant4-pybind.
        tables: Data tables.
    """

    geant4: str
    package: str
    tables: Tables


def prepare_geant4(folder: Path, data: Path | None) -> Installation:
    """Checks Geant4 and prepares its tables in a worker process, which takes a second.

    Args:
        folder: Folder of the tables, or of the unused folders.
        data: CERN data files of the user. None: tables are written.

    Raises:
        ModuleNotFoundError: The package is missing.
        ConfigError: A system library is missing, or `data` lacks the tables.
    """
    check_installed()
    task = {"folder": str(folder.resolve()), "data": str(data.resolve()) if data else None}
    with WorkerProcess(task) as worker:
        found = worker.answer()
    return Installation(found["geant4"], found["package"], Tables.from_json(found["tables"]))


class WorkerPool:
    """Context manager of worker processes, which end on exit."""

    def __init__(self, request: PrimaryRequest, tables: Tables, workers: int) -> None:
        """Stores the task and the number of workers."""
        self._task = {"request": request.as_json(), "tables": tables.as_json()}
        self._workers = workers
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Starts the workers; each builds its detector, which takes a second."""
        with ExitStack() as stack:
            self._all = [
                stack.enter_context(WorkerProcess(self._task)) for _ in range(self._workers)
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the workers."""
        self._stack.close()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process IDs of the workers."""
        return tuple(worker.process_id for worker in self._all)

    def events(self, numbers: Iterable[int]) -> Iterator[Event]:
        """Yields the showers of `numbers` in order of completion.

        Raises:
            CloudganError: A process died; the message ends with its last lines.
        """
        remaining = iter(numbers)
        busy = dict.fromkeys(self._all, 0)
        with selectors.DefaultSelector() as selector:
            for worker in self._all:
                selector.register(worker, selectors.EVENT_READ)
                busy[worker] += _submit(worker, islice(remaining, _AHEAD))
            while any(busy.values()):
                for key, _ in selector.select():
                    worker = next(one for one in self._all if one is key.fileobj)
                    lines = worker.read()
                    busy[worker] += _submit(worker, islice(remaining, len(lines))) - len(lines)
                    yield from map(from_line, lines)


def _submit(worker: WorkerProcess, numbers: Iterable[int]) -> int:
    count = 0
    for number in numbers:
        worker.send(str(number))
        count += 1
    return count


PROGRAM = "cloudgan.simulation.geant4.workers"
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux' prctl


def main() -> None:
    """Answers until standard input ends."""
    end_with_parent(int(sys.argv[1]))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        for line in _answers(parse_json(sys.stdin.readline(), "task")):
            answers.write(line + "\n")
            answers.flush()
    except CloudganError as error:
        _send_error(answers, {"error": str(error), "exit_code": error.exit_code})
    except ModuleNotFoundError as error:
        _send_error(answers, {"error": str(error), "missing": error.name})
    except BrokenPipeError:
        pass
    os._exit(0)  # skips Geant4's teardown, which can crash


def _send_error(answers: TextIO, failure: dict[str, Any]) -> None:
    answers.write(json.dumps(failure) + "\n")
    answers.flush()


def end_with_parent(parent: int) -> None:
    """Ends this process with its parent, in the middle of a shower; Linux only.

    On other systems it ends after the shower, when the answer has no reader.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(0)


def _answers(first: dict[str, Any]) -> Iterator[str]:
    if "request" not in first:
        yield json.dumps(_prepare(Path(first["folder"]), first["data"]))
        return
    request = PrimaryRequest.from_json(first["request"])
    tables = Tables.from_json(first["tables"])
    engine = Engine(tables, request.cut_mm, particle=request.particle)
    for line in sys.stdin:
        number = int(line)
        yield to_line(Event(number, engine.simulate(primary(request, number))))


def _prepare(folder: Path, data: str | None) -> dict[str, Any]:
    """Loads Geant4, which reports missing libraries, and prepares the tables."""
    create_unused_folders(folder)
    geant4 = load(Tables(folder, folder, "", "").variables())
    if data:
        tables = cern_tables(Path(data), folder)
    else:
        tables = write_tables(folder, table_files(read_photoelectric(geant4)))
    return {
        "geant4": geant4_version(geant4),
        "package": package_version(),
        "tables": tables.as_json(),
    }


if __name__ == "__main__":
    main()
