"""Everything one process trains with, put together once: devices, data, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.record import Numerics
from cloudgan.data.order import Order
from cloudgan.data.image_view import ImageView
from cloudgan.data.training_set import TrainingSet
from cloudgan.training.checkpoint import Checkpoints, State, read_state
from cloudgan.training.strategy import (
    Cluster,
    choose,
    device_kind,
    make_strategy,
    set_up_devices,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.config import RunConfig
    from cloudgan.core.progress import Progress
    from cloudgan.run_folder import RunFolder


@dataclass(frozen=True)
class Setting:
    """What one process trains with: made once, then only read.

    Attributes:
        numerics: What, beside the configuration, decides the bits.
        saved: The newest checkpoint and what it says; None for a new run.
    """

    config: RunConfig
    folder: RunFolder
    cluster: Cluster | None
    strategy_name: str
    strategy: tf.distribute.Strategy
    numerics: Numerics
    checkpoints: Checkpoints
    saved: tuple[Path, State] | None
    training_set: TrainingSet
    order: Order

    @property
    def is_chief(self) -> bool:
        """Whether this process writes."""
        return self.cluster is None or self.cluster.is_chief

    @property
    def local_replicas(self) -> int:
        """Replicas of this process."""
        return self.numerics.replicas // self.numerics.workers

    @property
    def first_replica(self) -> int:
        """Number of this process' first replica among all."""
        return (self.cluster.index if self.cluster else 0) * self.local_replicas

    @property
    def steps_per_loop(self) -> int:
        """Steps per call of the device: the host is slow only beside an accelerator."""
        on_cpu = self.numerics.device == "CPU"
        return self.config.training.steps_per_loop or (1 if on_cpu else 20)

    def numbers_change(self) -> tuple[str, ...]:
        """What decides the bits and differs from the process that saved the checkpoint."""
        if not self.saved:
            return ()
        before = self.saved[1].numerics.model_dump()
        now = self.numerics.model_dump()
        return tuple(f"{key}: {before[key]} -> {now[key]}" for key in now if now[key] != before[key])


def make_setting(
    config: RunConfig,
    folder: RunFolder,
    shards: Path,
    *,
    cluster: Cluster | None,
    workers_here: int,
    progress: Progress,
) -> Setting:
    """Wakes TensorFlow up, opens the data and looks for a checkpoint.

    Args:
        config: What is wanted.
        folder: The run's own.
        shards: Folder of shards that `convert` wrote.
        cluster: This process' place; None when it is alone.
        workers_here: Processes that share this machine's cores.
        progress: Shows the preparation of the data.

    Raises:
        ConfigError: Replicas, batch and checkpoint do not fit together.
        DataError: The showers are not what they should be.
    """
    checkpoint = config.checkpoint
    checkpoints = Checkpoints(folder.checkpoints, keep=checkpoint.keep, url=checkpoint.url)
    latest = checkpoints.latest()
    saved = (latest, read_state(latest)) if latest else None
    machine = this_machine()
    threads = config.training.threads or (
        saved[1].numerics.threads if saved else max(1, machine.cores // workers_here)
    )
    set_up_devices(config.training, threads=threads)
    name = choose(config.training, cluster)
    strategy = make_strategy(config, name)
    replicas = int(strategy.num_replicas_in_sync)
    global_batch = _global_batch(config, replicas, saved[1] if saved else None)
    numerics = Numerics(
        processor=machine.processor,
        device=device_kind(),
        threads=threads,
        replicas=replicas,
        workers=len(cluster.workers) if cluster and name == "multiworker" else 1,
        global_batch_size=global_batch,
        precision=config.training.precision,
        tensorflow=tf.__version__,
        keras=keras.__version__,
    )
    model, data = config.model, config.data
    training_set = TrainingSet.open(
        shards,
        ImageView(shape=model.image_shape, scale=model.image_scale, power=model.image_power),
        held_back_fraction=data.held_back_fraction,
        cache=data.cache,
        progress=progress,
    )
    order = Order(
        training_set.train_counts,
        seed=config.training.seed,
        global_batch_size=global_batch,
        shards_per_group=data.shards_per_group,
        last_batch=data.last_batch,
    )
    return Setting(
        config, folder, cluster, name, strategy, numerics, checkpoints, saved, training_set, order
    )


def _global_batch(config: RunConfig, replicas: int, saved: State | None) -> int:
    asked = config.global_batch(replicas)
    if saved is None or saved.numerics.global_batch_size == asked:
        return asked
    before = saved.numerics.global_batch_size
    raise ConfigError(
        f"the run was trained with a global batch of {before}, now it would be {asked} on"
        f" {replicas} replicas; use --global_batch={before} to continue it"
    )
