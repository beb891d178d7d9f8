"""What the supervisor last saw, for whoever looks: `pods/state.json`, and a lock while it lives."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from cloudgan.core.errors import ConfigError
from cloudgan.core.json_file import read_json, write_json
from cloudgan.core.run_state import Cause, Phase, WorkerPhase

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_TRIES = 25
_PAUSE_SECONDS = 0.02


def _tries() -> Iterator[int]:
    for number in range(_TRIES):
        yield number
        time.sleep(_PAUSE_SECONDS)


class WorkerNote(BaseModel):
    """One worker process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int
    phase: WorkerPhase
    pid: int | None = None
    mark: str = ""
    """When that process began, as the system says: another process may get its number later."""
    replaced: int = 0
    why: str = ""
    cause: Cause = ""


class StateNote(BaseModel):
    """The whole run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: Phase
    workers: tuple[WorkerNote, ...] = ()
    why: str = ""
    cause: Cause = ""
    began: str | None = None
    ended: str | None = None


class StateFile:
    """Where the note is, and who may write it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pods" / "state.json"
        self._lock = folder / "pods" / ".lock"

    def read(self) -> StateNote | None:
        """Returns the last note; None where nothing was ever started."""
        return read_json(self._path, StateNote) if self._path.exists() else None

    def write(self, note: StateNote) -> None:
        """Replaces the note."""
        write_json(self._path, note)

    def supervisor(self) -> int | None:
        """Returns the process that keeps the workers; None where none lives."""
        if not self._lock.exists():
            return None
        with self._lock.open("r") as file:
            for _ in _tries():
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    file.seek(0)
                    text = file.read().strip()
                    if text.isdigit():
                        return int(text)
                else:
                    return None
        return None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Marks this process as the supervisor for as long as the block lasts.

        Raises:
            ConfigError: There is one.
        """
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("a+") as file:
            for _ in _tries():
                with suppress(OSError):  # perhaps held for a moment only, by whoever looks
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
            else:
                raise ConfigError(f"{self._path.parent} is kept by another process")
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield
