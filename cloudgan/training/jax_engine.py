"""The engine of JAX: the same mathematics, random numbers and order of showers, compiled by XLA.

One process per machine, with one replica per device. TensorFlow is not imported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.core.hardware import Accelerator
from cloudgan.core.progress import Progress
from cloudgan.data.batches import Batch, BatchReader, Floats, ReadingTime
from cloudgan.schema.config import RunConfig
from cloudgan.schema.losses import PASSES, loss_columns, loss_table
from cloudgan.training import step as training
from cloudgan.training.cluster import (
    Cluster,
    refuse_missing_accelerators,
)
from cloudgan.training.context import LossTable, TrainingContext
from cloudgan.training.jax_backend import (
    REPLICAS,
    device_kind,
    pure,
    sum_over_replicas,
)

_STEPS_AHEAD = 3
_SHOWERS = ("image", "energy", "angle", "ecal")
_HEARTBEAT_SECONDS = 30
"""After which JAX ends the processes of a run that lost one; its default is 100."""


class JaxEngine:
    """Implements `cloudgan.training.context.Engine`; steps are compiled at the first call.

    The replicas are the devices of all processes, those of each process in a row. The state of a run is
    in arrays that all replicas have whole; `read_back` copies it into the variables.
    """

    errors: tuple[type[Exception], ...] = (jax.errors.JaxRuntimeError,)

    def __init__(
        self, config: RunConfig, cluster: Cluster | None, *, threads: int, progress: Progress
    ) -> None:
        del threads, progress  # threads were set before JAX was imported
        if keras.config.backend() != "jax":
            raise ConfigError(
                f"--engine=jax: Keras already runs on {keras.config.backend()} in this process; restart it"
                " (in a notebook: the kernel), or train with the command `cloudgan train`"
            )
        self.workers = len(cluster.workers) if cluster else 1
        self._local = connect(cluster, config.training.replicas)
        self._mesh = mesh_of(self._local, cluster)
        every = list(self._mesh.devices)
        self.replicas, self._first_replica = len(every), every.index(self._local[0])
        alone = "mirrored" if self.replicas > 1 else "one"
        self.strategy = "multiworker" if self.workers > 1 else alone
        if self.replicas > 1 and config.training.batch_norm == "synchronized":
            raise ConfigError(
                f"--engine=jax with {self.replicas} replicas has no synchronised batch norm (training."
                "batch_norm); use batch_norm: replica, or --engine=tensorflow"
            )
        own = Accelerator(name=device_kind(), count=len(self._local), memory_gib=None)
        self.accelerators: tuple[Accelerator, ...] = () if own.name == "CPU" else (own,)
        self.software: dict[str, Any] = {
            "math_library": "XLA",
            "xla": True,
            "jax": jax.__version__,
            "keras": keras.__version__,
        }
        self.held_out_losses: Callable[[], LossTable | None] | None = None

    @staticmethod
    @contextmanager
    def translated_errors(cluster: Cluster | None) -> Iterator[None]:
        """Translates errors after the loss of another worker to TryAgain."""
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if cluster is None or len(cluster.workers) == 1:
                raise
            raise TryAgain(
                f"another worker stopped answering ({str(error).splitlines()[0]}), so this worker stops;"
                " restart all workers to resume from the last checkpoint"
            ) from error

    def scope(self) -> AbstractContextManager[Any]:
        """Returns an empty scope: variables are of this process, a step works on copies."""
        return nullcontext()

    def add(self, words: np.ndarray[Any, Any]) -> Any:
        """Sums over the processes."""
        return self._gather(words).sum(0, dtype=np.int32)

    def local_devices(self, local_replicas: int) -> tuple[str | None, ...]:
        """Returns no device: the first one of the process generates."""
        del local_replicas
        return (None,)

    def compile(self, context: TrainingContext, step: training.GanStep) -> None:
        """Makes functions of the state of the networks, for one replica or for each of several."""
        self._context, self._variables = context, list(context.gan.variables().values())
        self._state: list[Any] | None = None
        self._rows = context.numerics.global_batch_size // self.replicas
        take, evaluate = pure(step, self._variables), pure(step.evaluate, self._variables)

        def take_step(batch: dict[str, Any], number: Any, state: list[Any], sums: Any) -> Any:
            losses, state = take(state, self._placed(batch, number))
            return state, sums + sum_over_replicas([losses])[0]

        def test(batch: dict[str, Any], number: Any, state: list[Any]) -> Any:
            losses, _ = evaluate(state, self._placed(batch, number))
            return sum_over_replicas([losses])[0]

        self._take, self._evaluate = self._compiled(take_step), self._compiled(test)
        if context.ends_an_epoch:
            self.held_out_losses = self._held_out_losses

    def run_steps(self, iterator: Any, steps: int, votes: Any) -> tuple[Any, Any]:
        """Runs steps, each a call of the device; they queue up there."""
        state = self._current()
        sums = self._shared(np.zeros((len(PASSES), len(loss_columns())), np.float32))
        for _ in range(steps):
            batch, number = next(iterator)
            state, sums = self._take(self._batch(batch), np.int32(number), state, sums)
        self._state = state
        return _own_copy(sums), self._gather(votes).sum(0)

    def batches(self, reading: ReadingTime, step: int) -> Iterator[tuple[Batch[Floats], int]]:
        """Yields batches with their numbers, the rows of this process from `step` on; threads read ahead."""
        context, local = self._context, len(self._local) * self._rows
        reader = BatchReader(context.training_set, context.sampler, local, reading)
        first_row = self._first_replica * self._rows
        with ThreadPoolExecutor(context.numerics.threads, "read") as threads:
            ahead: deque[Any] = deque()
            for number in count(step):
                ahead.append(threads.submit(reader.read, number, first_row))
                if len(ahead) > _STEPS_AHEAD:
                    yield ahead.popleft().result()

    def read_back(self) -> None:
        """Copies the state of the last step into the variables of the networks."""
        for variable, value in zip(self._variables, self._state or (), strict=False):
            variable.assign(_own_copy(value))

    def _current(self) -> list[Any]:
        if self._state is None:
            self._state = [self._shared(variable.value) for variable in self._variables]
        return self._state

    def _shared(self, value: Any) -> Any:
        """Returns an array that each replica has whole; the same in every process."""
        return jax.make_array_from_process_local_data(
            NamedSharding(self._mesh, PartitionSpec()), np.array(value), np.shape(value)
        )

    def _batch(self, rows: Batch[Floats]) -> dict[str, Any]:
        """Returns the global arrays of which this process has `rows`."""
        divided, found = NamedSharding(self._mesh, PartitionSpec(REPLICAS)), {}
        for name in _SHOWERS:
            own = getattr(rows, name)
            shape = (len(own) * self.replicas // len(self._local), *own.shape[1:])
            found[name] = jax.make_array_from_process_local_data(divided, own, shape)
        return found

    def _gather(self, values: Any) -> np.ndarray[Any, Any]:
        """Returns the `values` of every process, (processes, ...); a collective operation."""
        if self.workers == 1:
            return np.asarray(values)[None]
        return np.asarray(multihost_utils.process_allgather(values))

    def _placed(self, batch: dict[str, Any], number: Any) -> training.Batch:
        """Returns the batch of a replica with its place: the step's number and its first row."""
        replica = jax.lax.axis_index(REPLICAS) if self.replicas > 1 else 0
        place = {"step": number, "first_row": replica * self._rows}
        return batch | {name: jnp.reshape(value, 1) for name, value in place.items()}  # type: ignore[return-value]

    def _compiled(self, call: Callable[..., Any]) -> Any:
        """Compiles a function of a batch, whose rows are divided, and of values that all replicas have."""
        if self.replicas == 1:
            return jax.jit(call)
        shared = PartitionSpec()

        def divided(batch: Any, *rest: Any) -> Any:
            parts = (PartitionSpec(REPLICAS), *(shared for _ in rest))
            return jax.shard_map(
                call, mesh=self._mesh, in_specs=parts, out_specs=shared, check_vma=False
            )(batch, *rest)

        return jax.jit(divided)

    def _held_out_losses(self) -> LossTable | None:
        """Returns the mean losses over the held-out showers; None with too few; a collective operation."""
        batches, size = self._context.held_out_batches, self._context.numerics.global_batch_size
        if not batches:
            return None
        held_out = self._context.training_set.held_out_batch(batches * size)
        held_out = held_out._replace(image=held_out.image[..., None])
        first, own = self._first_replica * self._rows, len(self._local) * self._rows
        tables = []
        for number in range(batches):
            rows = slice(number * size + first, number * size + first + own)
            part = held_out._replace(**{name: getattr(held_out, name)[rows] for name in _SHOWERS})
            table = self._evaluate(self._batch(part), np.int32(number), self._current())
            tables.append(_own_copy(table))
        return loss_table(np.mean(tables, axis=0))


def connect(cluster: Cluster | None, replicas: int | None) -> list[Any]:
    """Connects the processes, at the address of the first one; returns the devices of this one.

    Each process has `replicas`; None: one per device.

    Raises:
        ConfigError: The devices cannot be used, or are not as many as the plan or `replicas` says.
        TryAgain: The processes did not connect.
    """
    processes = len(cluster.workers) if cluster else 1
    if replicas:
        jax.config.update("jax_num_cpu_devices", replicas)
    if cluster and processes > 1:
        try:
            jax.distributed.initialize(
                coordinator_address=cluster.workers[0],
                num_processes=processes,
                process_id=cluster.index,
                cluster_detection_method="deactivate",
                heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
            )
        except RuntimeError as error:
            raise TryAgain(
                f"the {processes} processes of JAX did not connect at {cluster.workers[0]}"
                f" ({str(error).splitlines()[0]}); restart all of them"
            ) from error
    try:
        found, kind = jax.local_devices(), device_kind()
    except RuntimeError as error:
        raise ConfigError(
            f"JAX cannot use its devices ({str(error).splitlines()[0]}); set JAX_PLATFORMS=cpu to"
            " train on the processor"
        ) from error
    refuse_missing_accelerators(0 if kind == "CPU" else len(found), "JAX")
    if replicas and replicas != len(found) and (processes > 1 or replicas > len(found)):
        raise ConfigError(
            f"--replicas={replicas}, but JAX finds {len(found)} devices in this process; omit"
            " --replicas, or make fewer devices visible"
        )
    return list(found[:replicas])


def mesh_of(local: list[Any], cluster: Cluster | None) -> Mesh:
    """Returns the devices of all processes in the order of the replicas; `local` are those of this one."""
    every = jax.devices() if cluster and len(cluster.workers) > 1 else local
    every = sorted(every, key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(every), (REPLICAS,))


def _own_copy(value: Any) -> np.ndarray[Any, Any]:
    """Returns an array that each replica has whole."""
    return np.asarray(value.addressable_data(0))
