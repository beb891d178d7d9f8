"""State of a running training: `heartbeat.json`, written to the store by the chief worker."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.schema.quality import Quality

FILE_NAME = "heartbeat.json"
Phase = Literal["staging", "waiting", "training", "ended"]


def config_hash(run_yaml: bytes) -> str:
    """Returns the hash by which a heartbeat identifies the run.yaml of its workers."""
    return hashlib.sha256(run_yaml).hexdigest()[:16]


class Heartbeat(BaseModel):
    """State of a run at one time; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    time: str = Field(description="UTC, ISO 8601")
    config_hash: str = Field(description="first 16 hexadecimal digits of the SHA-256 of run.yaml")
    phase: Phase
    world: int = Field(ge=1, description="number of workers")
    missing_workers: tuple[int, ...] = Field(description="workers without a recent response")
    generation: int = Field(ge=0, description="number of common training starts of all workers")
    restarts: int = Field(ge=0, description="restarts since the newest checkpoint")
    step: int | None = Field(default=None, ge=0)
    epoch: int | None = Field(default=None, ge=0, description="current epoch, from 0")
    epochs: int = Field(ge=1)
    steps_per_second: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    seconds_per_epoch: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="training time of the last full epoch"
    )
    quality: Quality | None = Field(default=None, description="set if the run validates")
    exit_code: int | None = Field(default=None, description="exit code of the chief worker")
    notices: dict[int, float | None] = Field(
        default={},
        description="preempted workers, each with the seconds that its notice left",
    )
    damaged_checkpoints: tuple[int, ...] = Field(
        default=(), description="steps of checkpoints that were set aside because they are damaged"
    )
    message: str = Field(default="", description="last error")
