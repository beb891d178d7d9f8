"""Processes and devices of JAX: the axis of replicas over which a batch is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.core.hardware import Accelerator
from cloudgan.training.engines.jax_step import REPLICAS
from cloudgan.training.planned_devices import refuse_missing_accelerators

if TYPE_CHECKING:
    from cloudgan.training.cluster import Cluster

_HEARTBEAT_SECONDS = 30
"""After which JAX ends the processes of a run that lost one; its default is 100."""


class JaxDevices:
    """The devices of all processes of a run, those of each process in a row."""

    def __init__(self, cluster: Cluster | None, replicas: int | None) -> None:
        """Connects the processes.

        Args:
            cluster: Position of this process; None: it is alone.
            replicas: Of each process; None: one per device.

        Raises:
            ConfigError: Devices are missing.
            TryAgain: The other processes did not answer.
        """
        self.processes = len(cluster.workers) if cluster else 1
        if replicas:
            jax.config.update("jax_num_cpu_devices", replicas)
        if cluster and self.processes > 1:
            _join(cluster)
        try:
            found = jax.local_devices()
        except RuntimeError as error:
            raise ConfigError(
                f"JAX cannot use its devices ({str(error).splitlines()[0]}); set JAX_PLATFORMS=cpu to"
                " train on the processor"
            ) from error
        self.kind = "CPU" if found[0].platform == "cpu" else str(found[0].device_kind)
        count = 0 if self.kind == "CPU" else len(found)
        refuse_missing_accelerators(count, "JAX")
        if replicas and replicas != len(found) and (self.processes > 1 or replicas > len(found)):
            raise ConfigError(
                f"--replicas={replicas}, but JAX finds {len(found)} devices in this process; omit"
                " --replicas, or make fewer devices visible"
            )
        self._local = found[:replicas]
        every = self._local if self.processes == 1 else jax.devices()
        self.all = sorted(every, key=lambda device: (device.process_index, device.id))
        mesh = Mesh(np.array(self.all), (REPLICAS,))
        self.mesh = mesh
        self._shared = NamedSharding(mesh, PartitionSpec())
        self._divided = NamedSharding(mesh, PartitionSpec(REPLICAS))

    @property
    def replicas(self) -> int:
        """Replicas of all processes."""
        return len(self.all)

    @property
    def first_replica(self) -> int:
        """Number of the first replica of this process."""
        return self.all.index(self._local[0])

    @property
    def local_replicas(self) -> int:
        """Replicas of this process."""
        return len(self._local)

    def accelerators(self) -> tuple[Accelerator, ...]:
        """Returns the accelerators of this process, by name."""
        if self.kind == "CPU":
            return ()
        return (Accelerator(name=self.kind, count=len(self._local), memory_gib=None),)

    def share(self, values: Any) -> Any:
        """Returns arrays that each replica has whole; `values` are the same in every process."""
        return jax.tree.map(
            lambda value: jax.make_array_from_process_local_data(
                self._shared, np.array(value), np.shape(value)
            ),
            values,
        )

    def divide(self, rows: np.ndarray[Any, Any]) -> Any:
        """Returns the global array of which this process has `rows`, (rows, ...)."""
        count = len(rows) * self.replicas // self.local_replicas
        return jax.make_array_from_process_local_data(self._divided, rows, (count, *rows.shape[1:]))

    def gather(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns the `values` of every process, (processes, ...); a collective operation."""
        if self.processes == 1:
            return values[None]
        return np.asarray(multihost_utils.process_allgather(values))


def _join(cluster: Cluster) -> None:
    """Connects this process with the others, at the address of the first one.

    Raises:
        TryAgain: They did not answer.
    """
    try:
        jax.distributed.initialize(
            coordinator_address=cluster.workers[0],
            num_processes=len(cluster.workers),
            process_id=cluster.index,
            cluster_detection_method="deactivate",
            heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
        )
    except RuntimeError as error:
        raise TryAgain(
            f"the {len(cluster.workers)} processes of JAX did not connect at {cluster.workers[0]}"
            f" ({str(error).splitlines()[0]}); restart all of them"
        ) from error


def own_copy(value: Any) -> np.ndarray[Any, Any]:
    """Returns an array that each replica has whole."""
    return np.asarray(value.addressable_data(0))
