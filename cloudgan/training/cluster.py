"""Position of this process among the workers, and the GPUs of each. Imports no TensorFlow."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import nvidia_gpus
from cloudgan.core.settings import variable


@dataclass(frozen=True)
class Cluster:
    """Position of this process among the workers, from TF_CONFIG.

    Attributes:
        workers: Addresses of all workers, the chief first.
        index: Of this worker.
        ordinary: Workers that TF_CONFIG does not list as chief.
    """

    workers: tuple[str, ...]
    index: int
    ordinary: int

    @property
    def is_chief(self) -> bool:
        """Whether this process writes record and checkpoints."""
        return self.index == 0


def read_cluster(tf_config: str | None) -> Cluster | None:
    """Reads TF_CONFIG (https://www.tensorflow.org/guide/distributed_training, read 2026-11-21).

    Raises:
        ConfigError: It does not name a cluster and a task.
    """
    if not tf_config:
        return None
    try:
        found = json.loads(tf_config)
        cluster, task = found["cluster"], found["task"]
        chiefs = [*cluster.get("chief", ()), *cluster["worker"]]
        index = int(task["index"])
        if task["type"] == "worker":
            index += len(cluster.get("chief", ()))
        elif task["type"] != "chief":
            raise ConfigError(
                f"TF_CONFIG gives this process the task {task['type']!r}; valid are 'worker' and"
                " 'chief'"
            )
        if not 0 <= index < len(chiefs):
            raise ConfigError(
                f"TF_CONFIG makes this process worker {index} of {len(chiefs)}; indices count"
                " from 0"
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            "TF_CONFIG is set but does not name a cluster and a task, such as"
            ' {"cluster": {"worker": ["host:2222"]}, "task": {"type": "worker", "index": 0}};'
            " unset it to train in this process alone"
        ) from error
    return Cluster(tuple(chiefs), index, ordinary=len(cluster["worker"]))


_VISIBLE = "CUDA_VISIBLE_DEVICES"


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Returns environment variables per worker that give each its own GPUs; empty without GPUs.

    Raises:
        ConfigError: The number of workers does not divide the GPUs.
    """
    gpus = visible_gpus()
    if not gpus:
        return [{} for _ in range(workers)]
    if len(gpus) % workers:
        raise ConfigError(
            f"{workers} workers cannot share {len(gpus)} GPUs evenly; use a divisor as --workers,"
            f" --strategy=mirrored for one process with all GPUs, or {_VISIBLE} to select some"
        )
    each = len(gpus) // workers
    return [{_VISIBLE: ",".join(gpus[each * i : each * (i + 1)])} for i in range(workers)]


def visible_gpus() -> list[str]:
    """Returns the GPUs that this process may use; as in CUDA a negative number ends the list."""
    asked = variable(_VISIBLE)
    if asked is None:
        return [str(number) for number in range(len(nvidia_gpus()))]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    hidden = next((i for i, name in enumerate(names) if name.startswith("-")), len(names))
    return names[:hidden]
