"""The line of the run record that says what one rank did in an epoch of asynchronous training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cloudgan.schema.record_line import Count, RecordLine, Seconds


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
