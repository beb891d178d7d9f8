"""Progress of a trainer process, in a file that its parent reads."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import NamedTuple

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.documents import parse_json, read_bytes
from cloudgan.core.errors import DataError

_EVERY_SECONDS = 1.0


class Liveness(NamedTuple):
    """Progress of a trainer process.

    Attributes:
        epoch: Epoch of the next step, from 0.
        steps_per_second: Since the previous update; 0 at the first.
    """

    step: int
    epoch: int
    steps_per_second: float = 0.0


class LivenessFile:
    """The file; written at most once a second, so that fast steps do not wait for the disk."""

    def __init__(self, path: Path | None) -> None:
        """Uses `path`; None disables writing."""
        self._path = path
        self._step, self._at = 0, float("-inf")

    def update(self, step: int, epoch: int) -> None:
        """Records that `step` is finished. A full disk does not end the training."""
        now = time.monotonic()
        if self._path is None or now - self._at < _EVERY_SECONDS:
            return
        rate = (step - self._step) / (now - self._at)
        self._step, self._at = step, now
        content = json.dumps(Liveness(step, epoch, rate)).encode()
        with contextlib.suppress(DataError), atomic_writer(self._path, durable=False) as file:
            file.write(content)

    def read(self) -> Liveness | None:
        """Returns the latest update; None before the first."""
        if self._path is None:
            return None
        try:
            return Liveness(*parse_json(read_bytes(self._path), str(self._path)))
        except (DataError, TypeError):
            return None

    def clear(self) -> None:
        """Removes the file of an earlier process."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
