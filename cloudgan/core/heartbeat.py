"""How a run is doing right now: `heartbeat.json`, which the chief worker keeps in the store."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cloudgan.core.quality import Quality

FILE_NAME = "heartbeat.json"
Phase = Literal["staging", "waiting", "training", "ended"]


def configuration_digits(run_yaml: bytes) -> str:
    """Returns what a heartbeat calls the configuration that its workers were given."""
    return hashlib.sha256(run_yaml).hexdigest()[:16]


class Heartbeat(BaseModel):
    """One look at a run; None is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    time: str = Field(description="UTC, ISO 8601")
    configuration: str = Field(description="sixteen hexadecimal digits of run.yaml as it was given")
    phase: Phase
    world: int = Field(ge=1, description="workers")
    missing: tuple[int, ...] = Field(description="workers that were not heard of lately")
    generation: int = Field(ge=0, description="how often all workers began to train together")
    restarts: int = Field(ge=0, description="since the newest checkpoint")
    step: int | None = Field(default=None, ge=0)
    epoch: int | None = Field(default=None, ge=0, description="the one under way, from 0")
    epochs: int = Field(ge=1)
    steps_per_second: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    seconds_per_epoch: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="of training, the last whole epoch's"
    )
    quality: Quality | None = Field(default=None, description="where the run validates")
    exit_code: int | None = Field(default=None, description="of the chief worker, once it ended")
    notices: dict[int, float | None] = Field(
        default={},
        description="workers whose machines the cloud takes away, each with the seconds that were"
        " left when it said so",
    )
    sentence: str = Field(default="", description="what went wrong last, for people")
