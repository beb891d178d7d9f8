"""What all lines of a run record have in common, and the types of their numbers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from cloudgan.core.document import Document
from cloudgan.core.ranges import MAX_SECONDS, MAX_STEP

Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
StopReason = Literal[
    "finished",
    "reached",
    "plateau",
    "max_steps",
    "max_seconds",
    "interrupted",
    "terminated",
    "failed",
]


class RecordLine(Document):
    """Common fields of all lines of `record.jsonl`."""

    # A held-out loss may be NaN; null would be the same as a missing loss.
    model_config = ConfigDict(ser_json_inf_nan="strings")

    schema_version: Literal[1] = 1
    time: str = Field(description="UTC, ISO 8601")
    step: int = Field(ge=0, le=MAX_STEP, description="completed steps of the run")


class Exchanged(RecordLine):
    """What one rank did in an epoch of asynchronous training; the first epoch includes tracing."""

    kind: Literal["exchanged"] = "exchanged"
    epoch: int = Field(ge=0, description="of the run")
    rank: int = Field(ge=0, description="of a master, or the leader of a worker")
    worker: int | None = Field(None, ge=0, description="None: a master")
    master: int | None = Field(
        None, ge=0, description="rank of its master; None: it is rank 0, or unknown"
    )
    updates: Count = Field(description="sent by the worker, or applied by the master")
    seconds: dict[str, Seconds] = Field(
        description="by routine: train, gather (weights from the device), update (the rule and weights"
        " to the device), wait (for the other side), validate (beside the others), save"
    )
    staleness: dict[str, Count] = Field(
        description="updates by the number of others applied since the worker fetched the centre"
    )
