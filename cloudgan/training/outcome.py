"""How a training run ended. Imports no TensorFlow, as the master of a run with ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.schema.record_line import StopReason
    from cloudgan.training.checkpoint import BestCheckpoint


@dataclass(frozen=True)
class Outcome:
    """How a process ended; `best` validated checkpoint and `memory` forecast, if known."""

    reason: StopReason
    step: int
    epoch: int
    train_seconds: float
    checkpoint: Path
    best: BestCheckpoint | None = None
    memory: dict[str, Any] | None = None
