"""State of a local run in `pods/state.json`, and the lock that its supervisor holds."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json
from cloudgan.core.errors import ConfigError
from cloudgan.schema.heartbeat import TimeStamp
from cloudgan.schema.run_state import Cause, Phase, WorkerPhase

_TRIES = 25
_PAUSE_SECONDS = 0.02


def _tries() -> Iterator[int]:
    for number in range(_TRIES):
        yield number
        time.sleep(_PAUSE_SECONDS)


class SavedWorkerState(Document):
    """State of one worker process."""

    index: int
    phase: WorkerPhase
    pid: int | None = None
    start_time: str = ""
    """Start time of the process, because process IDs are reused."""
    restarts: int = 0
    reason: str = ""
    cause: Cause = ""


class SavedState(Document):
    """State of the run, written by a supervisor with this process ID."""

    phase: Phase
    supervisor: int = 0
    workers: tuple[SavedWorkerState, ...] = ()
    reason: str = ""
    cause: Cause = ""
    started_at: TimeStamp | None = None
    ended_at: TimeStamp | None = None


class StateFile:
    """The state file and its lock."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pods" / "state.json"
        self._lock = folder / "pods" / ".lock"

    def read(self) -> SavedState | None:
        """Returns the state; None if the run was never started."""
        return read_json(self._path, SavedState) if self._path.exists() else None

    def write(self, note: SavedState) -> None:
        """Replaces the state."""
        write_json(self._path, note)

    def supervisor(self) -> int | None:
        """Returns the process ID of the supervisor; None if none runs."""
        if not self._lock.exists():
            return None
        with self._lock.open("r") as file:
            for _ in _tries():
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    file.seek(0)
                    text = file.read().strip()
                    if text.isdecimal():
                        return int(text)
                else:
                    return None
        return None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the lock during the block, which makes this process the supervisor."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as file:
            for _ in _tries():
                with suppress(OSError):  # a reader may hold it briefly
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
            else:
                raise ConfigError(f"{self._path.parent} already has a supervisor process")
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
