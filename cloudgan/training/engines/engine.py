"""What the training loop asks of an engine, TensorFlow or JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from cloudgan.core.errors import CloudganError
    from cloudgan.core.hardware import Accelerator
    from cloudgan.data.pipeline.image_buffers import ReadingTime
    from cloudgan.training.cluster import Cluster
    from cloudgan.training.context import TrainingContext
    from cloudgan.training.draws import Draws
    from cloudgan.training.gan import Gan
    from cloudgan.training.shared_work import SharedWork
    from cloudgan.training.train_loop import TrainLoop

LossTable = dict[str, dict[str, float]]


class Engine(Protocol):
    """Devices of this process, and what runs on them.

    Attributes:
        strategy: Name of how the replicas work together.
        replicas: Of all processes.
        errors: Classes of the errors that steps raise.
    """

    strategy: str
    replicas: int
    errors: tuple[type[Exception], ...]

    def scope(self) -> AbstractContextManager[Any]:
        """Creates and assigns variables inside."""

    def accelerators(self) -> tuple[Accelerator, ...]:
        """Returns the accelerators of this process, by name."""

    def conv_device(self) -> str:
        """Returns the kind of device that the choice of a convolution depends on."""

    def device_kind(self) -> str:
        """Returns the name of the computing device; CPU without an accelerator."""

    def software(self) -> dict[str, str]:
        """Returns the fields of `Numerics` that name the engine's libraries."""

    def resolve_precision(self, precision: str) -> str:
        """Returns float32, bfloat16, float16 or float64 for `precision` on this machine."""

    def agree_on_checkpoint(self, cluster: Cluster, step: int | None) -> None:
        """Checks that all workers found the same checkpoint.

        Raises:
            TryAgain: They differ.
        """

    def make_draws(self, seed: int) -> Draws:
        """Returns the random numbers of a run."""

    def shared_work(self, context: TrainingContext) -> SharedWork:
        """Returns this process' share of a validation."""

    def local_devices(self, local_replicas: int) -> tuple[str | None, ...]:
        """Returns the devices that generate for a validation; None: the engine's choice."""

    def compile(self, context: TrainingContext, gan: Gan, draws: Draws) -> Compiled:
        """Returns the steps of a run; compilation may continue in the background."""

    def known_error(self, error: Exception, cluster: Cluster | None) -> CloudganError | None:
        """Returns the user's error inside one of `errors`; None: another failure."""


class Compiled(Protocol):
    """Steps of a run.

    Attributes:
        held_out_losses: Returns the losses on held-out showers; None: no epoch ends in this process.
    """

    held_out_losses: Callable[[], LossTable | None] | None

    def run_steps(self, iterator: Any, steps: int, votes: Any) -> tuple[Any, Any]:
        """Runs steps; all workers call it with the same number.

        Args:
            iterator: Of `batches`.
            steps: 0 or more.
            votes: Of this worker, (N,).

        Returns:
            Sum over the steps of the global mean losses, (passes, columns), and sum of all votes;
            the same on every worker.
        """

    def batches(self, reading: ReadingTime, step: int) -> Any:
        """Returns the endless batches of this worker from `step` on; readers add their time."""

    def blank_iterator(self) -> Any:
        """Returns an iterator for 0 steps."""

    def train(
        self, loop: TrainLoop, batches: Any, finish_epoch: Callable[[TrainLoop], None]
    ) -> None:
        """Trains until all epochs are complete; calls `finish_epoch` after each."""

    def read_back(self) -> None:
        """Makes the variables of the networks those of the last step."""
