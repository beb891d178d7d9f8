"""One worker as a process of its own session, so that all of it can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_START_FIELD = 18  # after the state in /proc/PID/stat: ticks since boot, proc(5)


class Process:
    """A started worker."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, work: Path
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            self._popen = subprocess.Popen(  # noqa: S603
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        self.mark = process_mark(self.pid)

    def exit_code(self) -> int | None:
        """As a shell would say it: 128 and the signal's number where one killed it."""
        found = self._popen.poll()
        return None if found is None else found if found >= 0 else 128 - found

    def signal(self, number: int) -> None:
        """Sends a signal to the worker itself, which passes it on as it sees fit."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it and all that it started, frozen or not."""
        kill_session(self.pid)
        self._popen.wait()


def kill_session(pid: int) -> None:
    """Kills a process that leads a session, and those in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def process_mark(pid: int) -> str:
    """Returns when a process began; empty where there is none, or nobody says."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            state, *fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if state in "ZX" else fields[_START_FIELD]
    done = subprocess.run(  # noqa: S603
        ("ps", "-o", "lstart=,stat=", "-p", str(pid)),  # noqa: S607  where macOS has it
        capture_output=True,
        text=True,
        check=False,
    )
    text = " ".join(done.stdout.split())
    began, _, found = text.rpartition(" ")
    return "" if found.startswith("Z") else began
