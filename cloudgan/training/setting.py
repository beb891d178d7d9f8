"""Everything one process trains with, put together once: devices, data, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.record import Numerics
from cloudgan.core.tuning import DEFAULT_INSTRUCTIONS, XLA_FLAG, XLA_VARIABLE
from cloudgan.data.order import Order
from cloudgan.data.training_set import TrainingSet, open_training_set
from cloudgan.models.formulation import choose_formulation
from cloudgan.training.agreement import agree_on_checkpoint
from cloudgan.training.checkpoint import Checkpoints, State, read_state
from cloudgan.training.precision import arithmetic, resolved
from cloudgan.training.strategy import (
    choose,
    device_kind,
    make_strategy,
    set_up_devices,
    unused_gpus,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.config import RunConfig
    from cloudgan.core.progress import Progress
    from cloudgan.core.tuning import Choice
    from cloudgan.run_folder import RunFolder
    from cloudgan.training.cluster import Cluster
    from cloudgan.training.tuning import Decided


@dataclass(frozen=True)
class Setting:
    """What one process trains with: made once, then only read.

    Attributes:
        numerics: What, beside the configuration, decides the bits.
        saved: The newest checkpoint and what it says; None for a new run.
        tuned: How the way to compute was chosen; empty: not at all.
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
    tuned: str = ""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes."""
        return self.cluster is None or self.cluster.is_chief

    @property
    def first_step(self) -> int:
        """Steps that were trained before."""
        return self.saved[1].step if self.saved else 0

    @property
    def last_step(self) -> int:
        """Steps after which training ends, unless something ends it sooner."""
        if self.is_reached:
            return self.first_step
        training = self.config.training
        end = self.order.steps_through(training.epochs - 1)
        return min(end, training.max_steps or end)

    @property
    def is_reached(self) -> bool:
        """Whether the best checkpoint is all that `--until` asks for, before anything is trained."""
        training, best = self.config.training, self.saved[1].best if self.saved else None
        return bool(training.until and best and training.ranking.holds(best.numbers))

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
        """Steps per call of the device, at most to the next checkpoint.

        The host costs a tenth of a step of the small networks on a CPU, and more beside an
        accelerator. A step of the large ones on a CPU takes seconds: there each is a call, so that
        a signal is heard in time. No clock decides: every worker must find the same number.
        """
        if self.numerics.device != "CPU":
            usual = 20
        else:
            usual = 10 if self.config.model.networks in {"mini", "smoke"} else 1
        steps = self.config.training.steps_per_loop or usual
        return min(steps, self.config.checkpoint.every_steps or steps)

    def numbers_change(self) -> tuple[str, ...]:
        """What decides the bits and differs from the process that saved the checkpoint."""
        if not self.saved:
            return ()
        before = self.saved[1].numerics.model_dump()
        now = self.numerics.model_dump()
        return tuple(
            f"{key}: {before[key]} -> {now[key]}" for key in now if now[key] != before[key]
        )


def make_setting(
    config: RunConfig,
    folder: RunFolder,
    shards: Path,
    *,
    cluster: Cluster | None,
    workers_here: int,
    decided: Decided,
    progress: Progress,
) -> Setting:
    """Wakes TensorFlow up, opens the data and looks for a checkpoint.

    Args:
        config: What is wanted.
        folder: The run's own.
        shards: Folder of shards that `convert` wrote.
        cluster: This process' place; None when it is alone.
        workers_here: Processes that share this machine's cores.
        decided: How to compute, from before TensorFlow was imported.
        progress: Shows the preparation of the data.

    Raises:
        ConfigError: Replicas, batch and checkpoint do not fit together.
        DataError: The showers are not what they should be.
        TryAgain: The workers found different checkpoints.
    """
    checkpoint = config.checkpoint
    checkpoints = Checkpoints(folder.checkpoints, keep=checkpoint.keep, url=checkpoint.url)
    latest = checkpoints.latest()
    saved = (latest, read_state(latest)) if latest else None
    choice = decided.choice
    threads = choice.threads or max(1, this_machine().cores // workers_here)
    set_up_devices(config.training, threads=threads, inter_threads=choice.inter_threads)
    if warning := unused_gpus():
        progress.say(warning)
    name = choose(config.training, cluster)
    strategy = make_strategy(config, name)
    workers = len(cluster.workers) if cluster and name == "multiworker" else 1
    if cluster and workers > 1:
        agree_on_checkpoint(strategy, cluster, saved[1].step if saved else None)
    precision = saved[1].numerics.precision if saved else arithmetic(config.training.precision)
    numerics = _numerics(config, strategy, choice, precision, threads=threads, workers=workers)
    if saved:
        _check_batch(numerics, saved[1].numerics)
    training_set = open_training_set(shards, config.model, config.data, progress=progress)
    order = Order(
        training_set.train_counts,
        seed=config.training.seed,
        global_batch_size=numerics.global_batch_size,
        shards_per_group=config.data.shards_per_group,
        last_batch=config.data.last_batch,
    )
    return Setting(
        config,
        folder,
        cluster,
        name,
        strategy,
        numerics,
        checkpoints,
        saved,
        training_set,
        order,
        decided.told,
    )


def _numerics(
    config: RunConfig,
    strategy: tf.distribute.Strategy,
    choice: Choice,
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
        kernels="oneDNN" if settings.is_on("TF_ENABLE_ONEDNN_OPTS") else "Eigen",
        formulation=choose_formulation(
            resolved(config, precision), device_kind(), choice.formulation
        ),
        instructions=settings.onednn_instructions() or DEFAULT_INSTRUCTIONS,
        inter_threads=choice.inter_threads,
        xla=XLA_FLAG in (settings.variable(XLA_VARIABLE) or ""),
        tensorflow=tf.__version__,
        keras=keras.__version__,
    )


def _check_batch(now: Numerics, before: Numerics) -> None:
    """The position in the data is a number of global batches, so their size cannot change."""
    if now.global_batch_size != before.global_batch_size:
        raise ConfigError(
            f"the run was trained with a global batch of {before.global_batch_size}, now it would"
            f" be {now.global_batch_size} on {now.replicas} replicas; use"
            f" --global_batch={before.global_batch_size} to continue it"
        )
