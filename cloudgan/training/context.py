"""The training context of one process: devices, data, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.pipeline.training_set import TrainingSet, open_training_set
from cloudgan.models.convolutions import choose_conv_impl
from cloudgan.schema.presets import find_profile
from cloudgan.schema.record import DEFAULT_INSTRUCTIONS, Numerics
from cloudgan.training.calibration import scale_of_training_set
from cloudgan.training.checkpoint import Checkpoint, Checkpoints, resume_point, run_checkpoints
from cloudgan.training.quality_history import QualityHistory

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.cluster import Cluster
    from cloudgan.training.engines.engine import Engine
    from cloudgan.training.environment_checks import ComputeOptions


@dataclass(frozen=True)
class TrainingContext:
    """Everything that one process trains with; immutable.

    Attributes:
        numerics: What determines the bits in addition to the configuration.
        saved: Checkpoint that the run resumes from; None for a new run.
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

    @property
    def is_chief(self) -> bool:
        """Whether this process writes record and checkpoints."""
        return self.cluster is None or self.cluster.is_chief

    @property
    def first_step(self) -> int:
        """Steps of earlier processes."""
        return self.saved.state.step if self.saved else 0

    @property
    def last_step(self) -> int:
        """Step at which training ends, unless it is stopped earlier."""
        if self.quality_history().stop:
            return self.first_step
        training = self.config.training
        end = self.sampler.steps_through(training.epochs - 1)
        return min(end, training.max_steps or end)

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
        count = min(most, self.training_set.held_out_count)
        return count // self.numerics.global_batch_size

    @property
    def layer_target(self) -> np.ndarray[Any, Any]:
        """Mean over the training showers of layer energy over primary energy, (Z,)."""
        return np.array(self.training_set.summary.layer_fraction)

    @cached_property
    def shape_scale(self) -> np.ndarray[Any, Any] | None:
        """Spread of each shape feature at given energy and angle, (F,); None without a shape loss."""
        return scale_of_training_set(self.config.model, self.training_set)

    def quality_history(self) -> QualityHistory:
        """Returns what the validations of earlier processes showed."""
        return QualityHistory(self.config.training, self.saved.state if self.saved else None)

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
        if self.numerics.device != "CPU":
            usual = 20
        else:
            usual = find_profile(self.config.model.networks).steps_per_loop
        steps = self.config.training.steps_per_loop or usual
        return min(steps, self.config.checkpoint.every_steps or steps)

    def reproducibility_changes(self) -> tuple[str, ...]:
        """Numerics that differ from those of the process that saved the checkpoint."""
        if not self.saved:
            return ()
        before, now = dict(self.saved.state.numerics), dict(self.numerics)
        return tuple(
            f"{key}: {_shown(before[key])} -> {_shown(now[key])}"
            for key in now
            if now[key] != before[key]
        )


def _shown(value: Any) -> Any:
    return "none" if value == "" else value


class StartEngine(Protocol):
    """The class of an engine."""

    def __call__(
        self, config: RunConfig, cluster: Cluster | None, *, threads: int, progress: Progress
    ) -> Engine:
        """Sets up the devices of this process."""

    def translate_lost_workers(self, cluster: Cluster | None) -> AbstractContextManager[None]:
        """Translates errors after the loss of another worker to TryAgain."""


class WorkerAmong(NamedTuple):
    """Position of this process among workers that exchange weights (`cloudgan.parallel`).

    Attributes:
        worker: Number of this worker from 0.
        workers: Number of workers; this one trains every `workers`-th step of the run.
        saved: Its checkpoint at the point from which all of them resume; None for a new run.
    """

    worker: int
    workers: int
    saved: Checkpoint | None


def make_context(
    config: RunConfig,
    folder: RunFolder,
    shards: Path,
    *,
    cluster: Cluster | None,
    workers_here: int,
    options: ComputeOptions,
    progress: Progress,
    start_engine: StartEngine,
    among: WorkerAmong | None = None,
) -> TrainingContext:
    """Starts the engine, opens the data and finds the newest checkpoint.

    Args:
        config: The run.
        folder: Of the run.
        shards: Folder of shards from `cloudgan convert`.
        cluster: Position of this worker; None for a single process.
        workers_here: Processes that share the cores of this machine.
        options: Compute options, from before the engine was imported.
        progress: Progress of the data preparation.
        start_engine: Class of the engine.
        among: Position among workers that exchange weights; None: no other worker.

    Raises:
        ConfigError: Replicas, batch and checkpoint do not fit together.
        DataError: The showers are damaged or do not fit the preset.
        TryAgain: The workers found different checkpoints.
    """
    checkpoints = run_checkpoints(config, folder, cluster)
    saved = among.saved if among else resume_point(checkpoints, folder, progress.say)
    threads = options.threads or max(1, this_machine().cores // workers_here)
    engine = start_engine(config, cluster, threads=threads, progress=progress)
    workers = len(cluster.workers) if cluster and engine.strategy == "multiworker" else 1
    if cluster and workers > 1:
        engine.agree_on_checkpoint(cluster, saved.state.step if saved else None)
    precision = (
        saved.state.numerics.precision
        if saved
        else engine.resolve_precision(config.training.precision)
    )
    numerics = _numerics(config, engine, options, precision, threads=threads, workers=workers)
    if saved:
        _check_batch(numerics, saved.state.numerics)
    training_set = open_training_set(shards, config.model, config.data, progress=progress)
    sampler = EpochSampler(
        training_set.train_counts,
        seed=config.training.seed,
        global_batch_size=numerics.global_batch_size,
        shards_per_group=config.data.shards_per_group,
        last_batch=config.data.last_batch,
        worker=among.worker if among else 0,
        workers=among.workers if among else 1,
    )
    return TrainingContext(
        config,
        folder,
        cluster,
        engine,
        numerics,
        checkpoints,
        saved,
        training_set,
        sampler,
    )


def with_precision(config: RunConfig, precision: str) -> RunConfig:
    """Returns `config` with a resolved precision."""
    training = config.training.model_copy(update={"precision": precision})
    return config.model_copy(update={"training": training})


def _numerics(
    config: RunConfig,
    engine: Engine,
    options: ComputeOptions,
    precision: str,
    *,
    threads: int,
    workers: int,
) -> Numerics:
    device = engine.conv_device()
    return Numerics(
        processor=this_machine().processor,
        device=engine.device_kind(),
        threads=threads,
        replicas=engine.replicas,
        workers=workers,
        global_batch_size=config.global_batch(engine.replicas),
        precision=precision,
        conv_impl=choose_conv_impl(with_precision(config, precision), device, options.conv_impl),
        instructions=settings.onednn_instructions() or DEFAULT_INSTRUCTIONS,
        **engine.software(),
    )


def _check_batch(now: Numerics, before: Numerics) -> None:
    """Refuses another global batch: the position in the data counts global batches."""
    if now.global_batch_size != before.global_batch_size:
        raise ConfigError(
            f"the run was trained with a global batch of {before.global_batch_size}, not"
            f" {now.global_batch_size} ({now.replicas} replicas); use"
            f" --global-batch={before.global_batch_size} to resume it"
        )
