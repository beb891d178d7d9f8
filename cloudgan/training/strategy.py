"""RunConfig -> tf.distribute.Strategy, and what of TensorFlow must be set before it wakes up."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.core.hardware import Accelerator, nvidia_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.config import RunConfig, TrainingConfig
    from cloudgan.training.cluster import Cluster

# How TensorFlow says, among much else, that a process it talked to is not there any more.
_GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_LOST = re.compile("Collective ops is aborted|coordination service|heartbeat", re.IGNORECASE)


def choose(training: TrainingConfig, cluster: Cluster | None) -> str:
    """Returns the strategy that `auto` means here."""
    if training.strategy != "auto":
        return training.strategy
    if cluster and len(cluster.workers) > 1:
        return "multiworker"
    if settings.has_tpu():
        return "tpu"
    devices = len(tf.config.list_physical_devices("GPU")) or 1
    return "mirrored" if (training.replicas or devices) > 1 else "one"


def set_up_devices(
    training: TrainingConfig, *, threads: int, inter_threads: int | None = None
) -> None:
    """Sets threads and logical devices; TensorFlow takes them only before its first operation.

    Args:
        training: Says how many replicas there are.
        threads: Of one operation.
        inter_threads: Operations at the same time; None: as many as threads.

    Raises:
        ConfigError: More replicas are asked than there are GPUs.
    """
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(inter_threads or threads)
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, enable=True)
    asked = training.replicas
    if asked and gpus and asked > len(gpus):
        raise ConfigError(f"{asked} replicas asked, {len(gpus)} GPUs found; use --replicas or less")
    if asked and asked > 1 and not gpus:
        (cpu,) = tf.config.list_physical_devices("CPU")
        device = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(cpu, [device] * asked)


def make_strategy(config: RunConfig, name: str) -> tf.distribute.Strategy:
    """Makes the strategy called `name`.

    Raises:
        ConfigError: It needs what is not here.
    """
    if name == "tpu":
        return _tpu()
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    count = config.training.replicas or (
        len(tf.config.list_logical_devices("GPU")) if kind == "GPU" else 1
    )
    devices = [f"{kind}:{number}" for number in range(count)]
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
            f"no TPU answers on this machine ({str(error).splitlines()[0]}); run this on a TPU VM"
            " with pip install 'cloudgan[tpu]', or use --strategy=auto"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def lost_worker(error: tf.errors.OpError, cluster: Cluster | None) -> TryAgain | None:
    """Returns which worker an operation was waiting for, or None where that is not why it failed."""
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
        f"{who} stopped answering, so this one stops too; start all workers again: the run goes on"
        " from its last checkpoint"
    )


@contextmanager
def lost_workers_told(cluster: Cluster | None) -> Iterator[None]:
    """Raises TryAgain in place of what TensorFlow raises when another worker is gone."""
    try:
        yield
    except tf.errors.OpError as error:
        if known := lost_worker(error, cluster):
            raise known from error
        raise


def accelerators() -> tuple[Accelerator, ...]:
    """Accelerators of this machine that TensorFlow sees, by name."""
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
    """Tells of GPUs that are here, not hidden on purpose, and that TensorFlow cannot use."""
    if settings.variable("CUDA_VISIBLE_DEVICES") or tf.config.list_physical_devices("GPU"):
        return None
    if not (there := nvidia_gpus()):
        return None
    return (
        f"this machine has {len(there)} x {there[0].name}, but TensorFlow finds no GPU and uses the"
        " CPU: install cloudgan[gpu] in place of cloudgan[train], or set CUDA_VISIBLE_DEVICES=-1 if"
        " that is what you want"
    )


def device_kind() -> str:
    """The kind of device that computes: its name decides the bits as much as its threads."""
    found = accelerators()
    return found[0].name if found else "CPU"
