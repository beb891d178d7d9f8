"""A sign of life: how many steps are finished, in a file that whoever watches a training reads."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_EVERY_SECONDS = 1.0


class Pulse(NamedTuple):
    """How far a training process is.

    Attributes:
        step: Steps of the run that are finished.
        epoch: The epoch of the next step, counted from 0.
        steps_per_second: Since the pulse before; 0 at the first.
    """

    step: int
    epoch: int
    steps_per_second: float = 0.0


class PulseFile:
    """Writes at most once a second: a file costs little, but thousands of steps a second do not wait."""

    def __init__(self, path: Path | None) -> None:
        """Writes nothing where `path` is None."""
        self._path = path
        self._step, self._at = 0, float("-inf")

    def beat(self, step: int, epoch: int) -> None:
        """Tells that `step` is finished. A disk that is full does not end a training."""
        now = time.monotonic()
        if self._path is None or now - self._at < _EVERY_SECONDS:
            return
        rate = (step - self._step) / (now - self._at)
        self._step, self._at = step, now
        beside = self._path.with_name(self._path.name + ".tmp")
        with contextlib.suppress(OSError):
            beside.write_text(json.dumps(Pulse(step, epoch, rate)), encoding="utf-8")
            beside.replace(self._path)

    def read(self) -> Pulse | None:
        """Returns the latest; None before the first."""
        if self._path is None:
            return None
        try:
            return Pulse(*json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def forget(self) -> None:
        """Removes what an earlier process wrote."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
