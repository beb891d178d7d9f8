"""What one process trains with: devices, data and checkpoints, and what is asked of an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.hardware import Accelerator, this_machine
from cloudgan.core.progress import Progress
from cloudgan.core.provenance import git_commit, installed_wheels, versions
from cloudgan.data.batches import ReadingTime, TrainingSet
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import find_profile
from cloudgan.schema.record import Numerics, Started
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.calibration import BatchNormRecalibrator
from cloudgan.training.checkpoint import Checkpoint, Checkpoints
from cloudgan.training.cluster import Cluster
from cloudgan.training.forecast import expected_peak_bytes
from cloudgan.training.gan import Gan, scaled_learning_rate
from cloudgan.training.quality import QualityHistory
from cloudgan.training.shared_work import ALONE, SharedWork
from cloudgan.training.step import GanStep
from cloudgan.training.stopping import StopFlag

LossTable = dict[str, dict[str, float]]


class Engine(Protocol):
    """Devices of this process and the compiled steps of its run, of TensorFlow or JAX.

    Attributes:
        errors: Classes of the errors that steps raise.
        strategy: Name of how the replicas work together.
        workers: Processes of one synchronous run.
        replicas: Of all processes.
        accelerators: Of this process, by name.
        software: Fields of `Numerics` that name the libraries.
        held_out_losses: Returns the losses on held-out showers; None: no epoch ends in this process.
    """

    errors: tuple[type[Exception], ...]
    strategy: str
    workers: int
    replicas: int
    accelerators: tuple[Accelerator, ...]
    software: dict[str, Any]
    held_out_losses: Callable[[], LossTable | None] | None

    def __init__(
        self, config: RunConfig, cluster: Cluster | None, *, threads: int, progress: Progress
    ) -> None:
        """Sets up the devices, of which none may be missing."""

    @staticmethod
    def translated_errors(cluster: Cluster | None) -> AbstractContextManager[None]:
        """Translates errors of the library that have a known cause to those for a user."""

    def scope(self) -> AbstractContextManager[Any]:
        """Creates and assigns variables inside."""

    def add(self, words: NDArray[np.int32]) -> Any:
        """Sums (`WORDS`,) over the processes; a collective operation, see `SharedWork`."""

    def local_devices(self, local_replicas: int) -> tuple[str | None, ...]:
        """Returns the devices that generate for a validation; None: the engine's choice."""

    def compile(self, context: TrainingContext, step: GanStep) -> None:
        """Compiles the steps of a run and its held-out losses; it may go on in the background."""

    def run_steps(self, iterator: Any, steps: int, votes: Any) -> tuple[Any, Any]:
        """Runs steps on an iterator over `batches`, or none where it is None.

        All workers call it with the same number, each with its votes, (N,).

        Returns:
            Sum over the steps of the global mean losses, (passes, columns), and sum of all votes;
            the same on every worker.
        """

    def batches(self, reading: ReadingTime, step: int) -> Any:
        """Returns the endless batches of this worker from `step` on; readers add their time."""

    def read_back(self) -> None:
        """Makes the variables of the networks those of the last step."""


@dataclass(frozen=True)
class TrainingContext:
    """Everything that one process trains with; immutable.

    Attributes:
        numerics: What determines the bits in addition to the configuration.
        saved: Checkpoint that the run resumes from, without its arrays; None for a new run.
        gan: Networks with the weights of the first step.
        history: What the validations of the run showed.
        end_step: Step at which the epochs or the configured steps end.
        last_step: The same, unless the validations of earlier processes have ended the run.
        flag: Stop requests.
        start_time: `time.perf_counter()` when the process began.
    """

    config: RunConfig
    folder: RunFolder
    cluster: Cluster | None
    engine: Engine
    numerics: Numerics
    checkpoints: Checkpoints
    saved: Checkpoint | None
    training_set: TrainingSet
    sampler: EpochSampler
    gan: Gan
    history: QualityHistory
    end_step: int
    last_step: int
    flag: StopFlag
    progress: Progress
    start_time: float

    @property
    def is_chief(self) -> bool:
        """Whether this process writes record and checkpoints."""
        return self.cluster is None or self.cluster.is_chief

    @property
    def first_step(self) -> int:
        """Steps of earlier processes."""
        return self.saved.state.step if self.saved else 0

    @property
    def ends_an_epoch(self) -> bool:
        """Whether this process may complete an epoch."""
        epoch = self.sampler.epoch_of(self.first_step)
        return self.first_step < self.last_step and (
            self.sampler.steps_through(epoch) <= self.last_step
        )

    @property
    def held_out_batches(self) -> int:
        """Global batches of held-out showers for the losses after an epoch."""
        most = self.config.training.validation_showers
        return min(most, self.training_set.held_out_count) // self.numerics.global_batch_size

    @property
    def local_replicas(self) -> int:
        """Replicas of this process."""
        return self.numerics.replicas // self.numerics.workers

    @property
    def first_replica(self) -> int:
        """Global number of this process' first replica."""
        return (self.cluster.index if self.cluster else 0) * self.local_replicas

    @property
    def steps_per_loop(self) -> int:
        """Steps per call of the device, at most to the next checkpoint.

        The host costs a tenth of a step of the small networks on a CPU, and more beside an
        accelerator. A step of the large ones on a CPU takes seconds, so each is a call of its own
        and signals take effect in time. The number must be the same on every worker.
        """
        on_cpu = self.numerics.device == "CPU"
        usual = find_profile(self.config.model.networks).steps_per_loop if on_cpu else 20
        steps = self.config.training.steps_per_loop or usual
        return min(steps, self.config.checkpoint.every_steps or steps)

    def reproducibility_changes(self) -> tuple[str, ...]:
        """Numerics that differ from those of the process that saved the checkpoint."""
        if not self.saved:
            return ()
        before, now = dict(self.saved.state.numerics), dict(self.numerics)
        return tuple(
            f"{key}: {'none' if before[key] == '' else before[key]} -> "
            f"{'none' if now[key] == '' else now[key]}"
            for key in now
            if now[key] != before[key]
        )

    def start_line(self) -> Started:
        """Returns the first record line of this process: hardware, software and data."""
        config = self.config
        return Started(
            time=utc_now(),
            step=self.first_step,
            config_hash=config.config_hash(),
            training_showers=self.training_set.count,
            held_out_showers=self.training_set.held_out_count,
            hardware=this_machine(self.engine.accelerators),
            numerics=self.numerics,
            versions=versions(),
            git_commit=git_commit(),
            strategy=self.engine.strategy,
            loop=config.training.loop,
            learning_rate=scaled_learning_rate(config, self.numerics.global_batch_size),
            notes=self.training_set.describe(),
            data_sha256=self.training_set.digests,
            startup_seconds=0.0,
            expected_memory_bytes=expected_peak_bytes(config, self.numerics),
            image=settings.variable("CLOUDGAN_IMAGE"),
            smoke_seconds=settings.smoke_seconds(),
            wheels=installed_wheels(),
        )


class TrainedWeights:
    """The weights after the last step, as checkpoints and validations read them."""

    def __init__(
        self, context: TrainingContext, recalibrator: BatchNormRecalibrator | None
    ) -> None:
        """Reads the networks, to which the engine writes back what it has trained."""
        self._gan, self._engine, self._recalibrator = context.gan, context.engine, recalibrator
        self._recalibrated: tuple[int, list[Any]] = (-1, [])

    def arrays(self, step: int) -> dict[str, Any]:
        """Returns all variables, the averaged generator recalibrated; training keeps its own state."""
        self._engine.read_back()
        arrays = {name: variable.numpy() for name, variable in self._gan.variables().items()}
        if self._gan.ema_generator:
            names = [name for name in arrays if name.startswith("ema_generator/")]
            arrays |= zip(names, self.inference(step), strict=True)
        return arrays

    def inference(self, step: int, work: SharedWork = ALONE) -> list[Any]:
        """Returns the weights for inference after `step`, in Keras order.

        With the processes of `work` a collective operation: only the chief saves, so that it alone may
        have them already.
        """
        self._engine.read_back()
        weights: list[Any] = self._gan.inference_generator.get_weights()
        if not (self._gan.ema_generator and self._recalibrator):
            return weights
        if step != self._recalibrated[0] or work.processes > 1:
            self._recalibrated = step, self._recalibrator.recalibrate(weights, work)
        return self._recalibrated[1]
