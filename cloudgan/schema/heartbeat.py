"""State of a running training: `heartbeat.json`, which the chief worker writes to the store, and the progress of a trainer process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.clock import parse_time_or_none
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_json, read_bytes
from cloudgan.core.errors import DataError
from cloudgan.core.ranges import MAX_EPOCHS, MAX_PROCESSES, MAX_SECONDS, MAX_STEP
from cloudgan.schema.quality import Quality

FILE_NAME = "heartbeat.json"


def _checked_time(text: str) -> str:
    if parse_time_or_none(text) is None:
        raise ValueError("expected an ISO 8601 time stamp")
    return text


TimeStamp = Annotated[str, AfterValidator(_checked_time)]
"""ISO 8601; any other text is refused, because limits of a run depend on it."""
Phase = Literal["gathering", "checking", "staging", "waiting", "training", "ended"]
"""gathering: for the smoke step; checking: in it; staging: the data; waiting: for a training start."""


def config_hash(run_yaml: bytes) -> str:
    """Returns the hash by which a heartbeat identifies the run.yaml of its workers."""
    return hashlib.sha256(run_yaml).hexdigest()[:16]


class Heartbeat(Document):
    """State of a run at one time; None is unknown."""

    schema_version: Literal[1] = 1
    time: TimeStamp = Field(description="UTC, ISO 8601")
    config_hash: str = Field(description="first 16 hexadecimal digits of the SHA-256 of run.yaml")
    phase: Phase
    world: int = Field(ge=1, le=MAX_PROCESSES, description="number of workers")
    missing_workers: tuple[int, ...] = Field(description="workers without a recent response")
    generation: int = Field(
        ge=0, le=MAX_STEP, description="number of common training starts of all workers"
    )
    restarts: int = Field(ge=0, le=MAX_STEP, description="restarts since the newest checkpoint")
    step: int | None = Field(default=None, ge=0, le=MAX_STEP)
    epoch: int | None = Field(
        default=None,
        ge=0,
        le=MAX_EPOCHS,
        description="current epoch, from 0; of a grid the iterations done",
    )
    epochs: int = Field(ge=1, le=MAX_EPOCHS)
    showers: int | None = Field(
        default=None, ge=0, description="finished by all workers; None: the run trains"
    )
    steps_per_second: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    seconds_per_epoch: float | None = Field(
        default=None, ge=0, le=MAX_SECONDS, description="training time of the last full epoch"
    )
    quality: Quality | None = Field(default=None, description="set if the run validates")
    exit_code: int | None = Field(default=None, description="exit code of the chief worker")
    notices: dict[int, Annotated[float, Field(allow_inf_nan=False)] | None] = Field(
        default={},
        description="preempted workers, each with the seconds that its notice left",
    )
    damaged_checkpoints: tuple[int, ...] = Field(
        default=(), description="steps of checkpoints that were set aside because they are damaged"
    )
    message: str = Field(default="", description="last error")


_EVERY_SECONDS = 1.0


class Liveness(NamedTuple):
    """Progress of a trainer process.

    Attributes:
        epoch: Epoch of the next step, from 0.
        steps_per_second: Since the previous update; 0 at the first.
        blocks: Of showers that validations have generated, and waits for the copy of a checkpoint: no stall.
    """

    step: int
    epoch: int
    steps_per_second: float = 0.0
    blocks: int = 0


class LivenessFile:
    """The progress in a file that the parent reads; written at most once a second, so that fast steps do not wait for the disk."""

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
        self._write(self._path, Liveness(step, epoch, rate))

    def goes_on(self) -> None:
        """Records, after the steps of `update`, that a validation or the copy of a checkpoint goes on."""
        now = time.monotonic()
        if self._path is None or now - self._at < _EVERY_SECONDS:
            return
        if before := self.read():
            self._at = now
            self._write(self._path, before._replace(blocks=before.blocks + 1))

    def _write(self, path: Path, liveness: Liveness) -> None:
        content = json.dumps(liveness).encode()
        with contextlib.suppress(DataError), atomic_writer(path, durable=False) as file:
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
