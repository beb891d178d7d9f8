"""What a loop does with other workers between two blocks of steps. Imports no TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from cloudgan.schema.record_line import StopReason


class Loop(Protocol):
    """What an exchange needs of the loop that trains (`TrainLoop`, or one that sleeps)."""

    step: int
    train_seconds: float

    @property
    def epoch_seconds(self) -> float:
        """Seconds of training in this epoch."""

    @property
    def loss_sums(self) -> NDArray[Any]:
        """Sums of the losses over all steps of this process."""

    def save(self) -> None:
        """Saves a checkpoint of this step."""


class Exchange:
    """What other workers want between two blocks of steps: nothing; see `cloudgan.parallel.worker`."""

    waits_for_copies = False

    def begin(self, step: int) -> None:
        """Joins, before the first step of this process."""

    def steps_until(self, step: int) -> int:
        """Returns the steps from `step` to the next exchange, at least 1."""
        del step
        return sys.maxsize

    def after_block(self, loop: Loop) -> None:
        """Exchanges if it is due; raises StopTraining if the run ends."""

    def before_last_save(self, loop: Loop) -> None:
        """Exchanges what was trained since the last exchange."""

    def leave(self, step: int, reason: StopReason) -> None:
        """Waits until all workers have ended; `step` is saved."""

    def arrays(self) -> Mapping[str, Any]:
        """Returns what a checkpoint of this worker needs besides the networks."""
        return {}
