"""A worker as the one who started it sees it: lines to it, lines from it, and what it said last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.settings import child_environment
from cloudgan.simulation.geant4.worker import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping

_LAST_LINES = 12
_READ_BYTES = 1 << 16


class WorkerProcess:
    """Used as a context manager: the process ends with it, in the middle of a shower too."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        """Prepares one for `task`, its first line."""
        self._task, self._read = task, b""

    def __enter__(self) -> Self:
        """Starts it, out of reach of the terminal's Ctrl-C."""
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(  # noqa: S603
            (sys.executable, "-m", PROGRAM),
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
        """Ends it: what it is doing is not wanted any more."""
        process = self._process
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, self._log):
            if pipe:
                pipe.close()

    @property
    def process_id(self) -> int:
        """The system's number of it."""
        return self._process.pid

    def fileno(self) -> int:
        """Its answers, for a selector."""
        return self._process.stdout.fileno() if self._process.stdout else -1

    def send(self, line: str) -> None:
        """Writes one line to it; one that died is met where its answer is missing."""
        if self._process.stdin is None:
            raise RuntimeError("a process without pipes")
        with suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Waits for one line, a JSON object; raises what `read` does."""
        while not (lines := self.read()):
            pass
        found: dict[str, Any] = json.loads(lines[0])
        return found

    def read(self) -> list[str]:
        """Waits until it wrote something and returns the lines that are whole.

        Raises:
            CloudganError: It died, and what its last lines were; or it says what is wrong.
            ModuleNotFoundError: It lacks a package.
        """
        found = os.read(self.fileno(), _READ_BYTES)
        if not found:
            raise self._death()
        *whole, self._read = (self._read + found).split(b"\n")
        lines = [line.decode("ascii") for line in whole]
        for line in lines:
            if line.startswith('{"error"'):
                raise _told(json.loads(line))
        return lines

    def _death(self) -> CloudganError:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
        said = "; its last lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
        return CloudganError(f"the process with Geant4 ({self._process.pid}) died with {how}{said}")


def _told(found: Mapping[str, Any]) -> Exception:
    if "missing" in found:
        return ModuleNotFoundError(found["error"], name=found["missing"])
    kind = ConfigError if found["exit_code"] == ConfigError.exit_code else CloudganError
    return kind(found["error"])
