"""State of a running training: `heartbeat.json`, written to the store by the chief worker."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cloudgan.core.clock import parse_time_or_none
from cloudgan.core.document import Document
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
