"""Position of this process among the workers, and the GPUs of each. Imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from cloudgan.core.documents import parse_json, validated
from cloudgan.core.errors import ConfigError, TryAgain, show
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


class _Peers(BaseModel):
    model_config = ConfigDict(strict=True)

    worker: list[str] = Field(min_length=1)
    chief: list[str] = Field(default=[], max_length=1)

    @field_validator("worker", "chief")
    @classmethod
    def _are_addresses(cls, addresses: list[str]) -> list[str]:
        for address in addresses:
            host, _, port = address.rpartition(":")
            is_port = port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _MAX_PORT
            if not (host and is_port and host.isprintable()):
                raise ValueError(f"{show(address)} is not an address such as host:2222")
        return addresses


class _Task(BaseModel):
    type: Literal["worker", "chief"]
    index: int = Field(ge=0)


class _TfConfig(BaseModel):
    cluster: _Peers
    task: _Task


def read_cluster(tf_config: str | None) -> Cluster | None:
    """Reads TF_CONFIG (https://www.tensorflow.org/guide/distributed_training, read 2026-11-21).

    Raises:
        ConfigError: It does not name a cluster and a task.
    """
    if not tf_config:
        return None
    try:
        found = validated(
            _TfConfig, parse_json(tf_config, "TF_CONFIG", ConfigError), "TF_CONFIG", ConfigError
        )
    except ConfigError as error:
        raise ConfigError(
            f"{error}; expected a cluster and a task, such as"
            ' {"cluster": {"worker": ["host:2222"]}, "task": {"type": "worker", "index": 0}};'
            " unset it to train in this process alone"
        ) from error
    cluster, task = found.cluster, found.task
    addresses = (*cluster.chief, *cluster.worker)
    index = task.index + (len(cluster.chief) if task.type == "worker" else 0)
    if index >= len(cluster.chief if task.type == "chief" else addresses):
        raise ConfigError(
            f"TF_CONFIG makes this process worker {index} of {len(addresses)}; indices count from 0"
        )
    return Cluster(addresses, index, ordinary=len(cluster.worker))


def refuse_different_checkpoints(steps: Sequence[int | None]) -> None:
    """Checks that all workers found the same checkpoint.

    Args:
        steps: Step of the checkpoint of each worker; None without one.

    Raises:
        TryAgain: They differ, for example because a copy reached the store meanwhile.
    """
    if len(set(steps)) == 1:
        return
    found_by = ", ".join(
        f"worker {index}: {'none' if step is None else f'step {step}'}"
        for index, step in enumerate(steps)
    )
    raise TryAgain(
        f"the workers found different checkpoints ({found_by}); restart all of them with the same"
        " --checkpoints or a shared folder"
    )


_MAX_PORT = 65_535
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
