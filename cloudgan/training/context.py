"""The training context of one process: devices, data, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import keras
import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.pipeline.training_set import TrainingSet, open_training_set
from cloudgan.models.convolutions import choose_conv_impl
from cloudgan.schema.presets import find_profile
from cloudgan.schema.record import DEFAULT_INSTRUCTIONS, Numerics
from cloudgan.training.checkpoint import Checkpoint, Checkpoints, resume_point, run_checkpoints
from cloudgan.training.environment_checks import XLA_FLAG, XLA_VARIABLE
from cloudgan.training.precision import resolve_precision, with_precision
from cloudgan.training.quality_history import QualityHistory
from cloudgan.training.strategy import (
    agree_on_checkpoint,
    choose_strategy,
    device_kind,
    make_strategy,
    set_up_devices,
    unused_gpus,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.cluster import Cluster
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
    strategy_name: str
    strategy: tf.distribute.Strategy
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

    def quality_history(self) -> QualityHistory:
        """Returns what the validations of earlier processes showed."""
        return QualityHistory(self.config.training, self.saved.state if self.saved else None)

    @property
    def local_replicas(self) -> int:
        """Replicas of this process."""
        return self.numerics.replicas // self.numerics.workers

    @property
    def local_devices(self) -> tuple[str | None, ...]:
        """Devices of this process' replicas; None for one replica: TensorFlow's choice."""
        if self.strategy_name == "tpu" or self.local_replicas == 1:
            return (None,)
        return tuple(self.strategy.extended.worker_devices)

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
        before = self.saved.state.numerics.model_dump()
        now = self.numerics.model_dump()
        return tuple(
            f"{key}: {before[key]} -> {now[key]}" for key in now if now[key] != before[key]
        )


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
    among: WorkerAmong | None = None,
) -> TrainingContext:
    """Sets up TensorFlow, opens the data and finds the newest checkpoint.

    Args:
        config: The run.
        folder: Of the run.
        shards: Folder of shards from `cloudgan convert`.
        cluster: Position of this worker; None for a single process.
        workers_here: Processes that share the cores of this machine.
        options: Compute options, from before TensorFlow was imported.
        progress: Progress of the data preparation.
        among: Position among workers that exchange weights; None: no other worker.

    Raises:
        ConfigError: Replicas, batch and checkpoint do not fit together.
        DataError: The showers are damaged or do not fit the preset.
        TryAgain: The workers found different checkpoints.
    """
    checkpoints = run_checkpoints(config, folder, cluster)
    saved = among.saved if among else resume_point(checkpoints, folder, progress.say)
    threads = options.threads or max(1, this_machine().cores // workers_here)
    stages = config.parallel.stages
    set_up_devices(config.training, threads=threads, stages=stages)
    if warning := unused_gpus():
        progress.say(warning)
    name = "one" if stages else choose_strategy(config.training, cluster)
    strategy = make_strategy(config, name)
    workers = len(cluster.workers) if cluster and name == "multiworker" else 1
    if cluster and workers > 1:
        agree_on_checkpoint(strategy, cluster, saved.state.step if saved else None)
    precision = (
        saved.state.numerics.precision if saved else resolve_precision(config.training.precision)
    )
    numerics = _numerics(config, strategy, options, precision, threads=threads, workers=workers)
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
        name,
        strategy,
        numerics,
        checkpoints,
        saved,
        training_set,
        sampler,
    )


def _numerics(
    config: RunConfig,
    strategy: tf.distribute.Strategy,
    options: ComputeOptions,
    precision: str,
    *,
    threads: int,
    workers: int,
) -> Numerics:
    replicas = int(strategy.num_replicas_in_sync)
    return Numerics(
        processor=this_machine().processor,
        device=device_kind(),
        threads=threads,
        replicas=replicas,
        workers=workers,
        global_batch_size=config.global_batch(replicas),
        precision=precision,
        math_library="oneDNN" if settings.is_on("TF_ENABLE_ONEDNN_OPTS") else "Eigen",
        conv_impl=choose_conv_impl(
            with_precision(config, precision), device_kind(), options.conv_impl
        ),
        instructions=settings.onednn_instructions() or DEFAULT_INSTRUCTIONS,
        xla=XLA_FLAG in (settings.variable(XLA_VARIABLE) or ""),
        tensorflow=tf.__version__,
        keras=keras.__version__,
    )


def _check_batch(now: Numerics, before: Numerics) -> None:
    """Refuses another global batch: the position in the data counts global batches."""
    if now.global_batch_size != before.global_batch_size:
        raise ConfigError(
            f"the run was trained with a global batch of {before.global_batch_size}, not"
            f" {now.global_batch_size} ({now.replicas} replicas); use"
            f" --global-batch={before.global_batch_size} to resume it"
        )
