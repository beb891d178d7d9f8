"""What the machine of a TPU wrote into the store about itself: tpu_startup.sh writes it."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Note(BaseModel):
    """How far a machine is, in the order installing, training, ended."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phase: Literal["installing", "training", "ended"]
    exit_code: int | None = Field(description="of the worker, or of what installs its wheels")
    told: Literal["", "stopped", "preempted", "deadline", "shutdown"] = Field(
        description="why it was told to end; empty: it was not"
    )
    began: int = Field(description="when it first booted, by its own clock, in Unix seconds")
    deadline_seconds: int = Field(description="that it had from then on")
    at: int = Field(description="when this was written")

    def moment(self, *, of_boot: bool = False) -> str:
        """Returns when it was written, or when the machine first booted, ISO 8601."""
        return dt.datetime.fromtimestamp(self.began if of_boot else self.at, dt.UTC).isoformat()
