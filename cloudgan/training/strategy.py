"""Devices and `tf.distribute` strategy of a process, and agreement between its workers."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, TryAgain, install_command
from cloudgan.core.hardware import Accelerator, nvidia_gpus
from cloudgan.training.cluster import refuse_different_checkpoints
from cloudgan.training.planned_devices import refuse_missing_accelerators

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.training_config import TrainingConfig
    from cloudgan.training.cluster import Cluster

# TensorFlow errors after the loss of another worker.
_GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_LOST = re.compile("Collective ops is aborted|coordination service|heartbeat", re.IGNORECASE)


def choose_strategy(training: TrainingConfig, cluster: Cluster | None) -> str:
    """Returns the configured strategy; `auto` resolves to one that uses all devices."""
    if training.strategy != "auto":
        return training.strategy
    if cluster and len(cluster.workers) > 1:
        return "multiworker"
    if settings.has_tpu():
        return "tpu"
    devices = len(tf.config.list_physical_devices("GPU")) or 1
    return "mirrored" if (training.replicas or devices) > 1 else "one"


def set_up_devices(training: TrainingConfig, *, threads: int, stages: Sequence[str] = ()) -> None:
    """Sets threads and logical devices; TensorFlow takes them only before its first operation.

    Args:
        training: Configured replicas.
        threads: Of all replicas. Operations of one replica do not wait for threads that another one uses:
            each operation has its replica's share, and as many operations as threads run at a time.
        stages: Layers from which on a network is on the next device; without GPUs, on the next
            logical device of the processor.

    Raises:
        ConfigError: More replicas or stages than GPUs, or TensorFlow already runs with other settings.
    """
    gpus = tf.config.list_physical_devices("GPU")
    asked = training.replicas
    if asked and gpus and asked > len(gpus):
        raise ConfigError(
            f"--replicas={asked}, but {len(gpus)} GPUs found; use --replicas={len(gpus)} or less"
        )
    if stages and gpus and len(stages) >= len(gpus):
        raise ConfigError(
            f"--stages={','.join(stages)} needs {len(stages) + 1} GPUs, and {len(gpus)} found; give"
            " fewer stages, or omit them"
        )
    parts = max(asked or 1, len(stages) + 1)
    each = threads if gpus else max(1, threads // (asked or 1))
    try:
        tf.config.threading.set_intra_op_parallelism_threads(each)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, enable=True)
        if parts > 1 and not gpus:
            (cpu,) = tf.config.list_physical_devices("CPU")
            device = tf.config.LogicalDeviceConfiguration()
            tf.config.set_logical_device_configuration(cpu, [device] * parts)
    except RuntimeError as error:
        raise ConfigError(
            f"TensorFlow already runs in this process with other threads or devices ({error}); restart"
            " the process (in a notebook: the kernel) and call cloudgan before TensorFlow"
        ) from error


def stage_devices(stages: Sequence[str]) -> list[str]:
    """Returns the devices of a network that is divided at `stages`."""
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    return [f"{kind}:{number}" for number in range(len(stages) + 1)]


def make_strategy(config: RunConfig, name: str) -> tf.distribute.Strategy:
    """Creates the strategy called `name`.

    Raises:
        ConfigError: Its devices are missing, or fewer than planned.
    """
    if name == "tpu":
        return _tpu()
    gpus = tf.config.list_physical_devices("GPU")
    refuse_missing_accelerators(len(gpus))
    kind = "GPU" if gpus else "CPU"
    count = config.training.replicas or (
        len(tf.config.list_logical_devices("GPU")) if kind == "GPU" else 1
    )
    devices = [f"{kind}:{number}" for number in range(count)]
    if name == "one" and config.parallel.stages:
        # OneDeviceStrategy would put the variables of all stages on its device.
        return tf.distribute.get_strategy()
    if name == "one":
        return tf.distribute.OneDeviceStrategy(f"{kind}:0")
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(devices)
    implementation = tf.distribute.experimental.CommunicationImplementation.AUTO
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def _tpu() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError, RuntimeError) as error:
        raise ConfigError(
            f"no TPU found on this machine ({str(error).splitlines()[0]}); run this on a TPU VM"
            f" after {install_command('tpu')}, or use --strategy=auto"
        ) from error
    refuse_missing_accelerators(len(tf.config.list_logical_devices("TPU")))
    return tf.distribute.TPUStrategy(resolver)


def lost_worker(error: tf.errors.OpError, cluster: Cluster | None) -> TryAgain | None:
    """Returns an error that names the lost worker; None if the failure has another reason."""
    if cluster is None or len(cluster.workers) == 1:
        return None
    said = str(error)
    if not isinstance(error, _GONE) and not _LOST.search(said):
        return None
    found = re.search(r"/job:(worker|chief)/replica:0/task:(\d+)", said)
    who = "another worker"
    if found:
        chiefs = len(cluster.workers) - cluster.ordinary
        index = int(found[2]) + (chiefs if found[1] == "worker" else 0)
        if index != cluster.index and index < len(cluster.workers):
            who = f"worker {index} ({cluster.workers[index]})"
    return TryAgain(
        f"{who} stopped answering, so this worker stops; restart all workers to resume from the last"
        " checkpoint"
    )


@contextmanager
def translate_lost_workers(cluster: Cluster | None) -> Iterator[None]:
    """Translates TensorFlow's error after the loss of another worker to TryAgain."""
    try:
        yield
    except tf.errors.OpError as error:
        if known := lost_worker(error, cluster):
            raise known from error
        raise


def accelerators() -> tuple[Accelerator, ...]:
    """Returns the accelerators that TensorFlow sees, by name."""
    memory = {gpu.name: gpu.memory_gib for gpu in nvidia_gpus()}
    found: dict[str, int] = {}
    for gpu in tf.config.list_physical_devices("GPU"):
        details: dict[str, Any] = tf.config.experimental.get_device_details(gpu)
        name = str(details.get("device_name", "GPU"))
        found[name] = found.get(name, 0) + 1
    tpus = tf.config.list_logical_devices("TPU")
    if tpus:
        found["TPU core"] = len(tpus)
    return tuple(
        Accelerator(name=name, count=count, memory_gib=memory.get(name))
        for name, count in found.items()
    )


def unused_gpus() -> str | None:
    """Returns a warning if TensorFlow cannot use the GPUs of this machine; None if they are hidden."""
    if settings.variable("CUDA_VISIBLE_DEVICES") or tf.config.list_physical_devices("GPU"):
        return None
    if not (there := nvidia_gpus()):
        return None
    return (
        f"this machine has {len(there)} x {there[0].name}, but TensorFlow finds no GPU and uses the"
        " CPU: install cloudgan[gpu] instead of cloudgan[train], or set CUDA_VISIBLE_DEVICES=-1 to"
        " use the CPU"
    )


def device_kind() -> str:
    """Returns the name of the computing device; CPU without an accelerator."""
    found = accelerators()
    return found[0].name if found else "CPU"


def agree_on_checkpoint(
    strategy: tf.distribute.Strategy, cluster: Cluster, step: int | None
) -> None:
    """Checks that all workers found the same checkpoint; a collective operation.

    Args:
        strategy: Over all workers.
        cluster: Position of this worker.
        step: Step of its checkpoint; None without one.

    Raises:
        TryAgain: They differ, for example because a copy reached the store meanwhile.
    """
    own = np.zeros(len(cluster.workers), np.int32)
    own[cluster.index] = 0 if step is None else step + 1

    @tf.function
    def collect(values: tf.Tensor) -> Any:
        everywhere = strategy.run(tf.identity, args=(values,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, everywhere, axis=None)

    replicas_each = int(strategy.num_replicas_in_sync) // len(cluster.workers)
    found = np.asarray(collect(tf.constant(own))) // replicas_each
    refuse_different_checkpoints([value - 1 if value else None for value in found.tolist()])
