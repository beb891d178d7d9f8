"""Which process among several this one is. No TensorFlow, so that the command line may ask."""

from __future__ import annotations

import json
from dataclasses import dataclass

from cloudgan.core.errors import ConfigError


@dataclass(frozen=True)
class Cluster:
    """This process' place among the workers: TF_CONFIG, read and checked.

    Attributes:
        workers: Addresses of all, the chief first.
        index: This one's, among all.
        ordinary: How many of them TF_CONFIG calls worker; the others it calls chief.
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
        ConfigError: It is set and says nothing that we can join.
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
                f"TF_CONFIG gives this process the task {task['type']!r}; cloudgan trains as"
                " 'worker' or 'chief' only"
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
