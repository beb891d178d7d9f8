"""The engine of JAX: the same mathematics, random numbers and order of showers, compiled by XLA.

One process per machine, with one replica per device. TensorFlow is not imported.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np
from jax.sharding import PartitionSpec

from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.data.pipeline.batch_reader import BatchReader, BatchRows
from cloudgan.schema.losses import PASSES, loss_columns, loss_table
from cloudgan.training.cluster import refuse_different_checkpoints
from cloudgan.training.engines.jax_devices import JaxDevices, own_copy
from cloudgan.training.engines.jax_draws import JaxDraws
from cloudgan.training.engines.jax_step import REPLICAS, JaxStep, Place, first_state, variables_of
from cloudgan.training.shared_work import ALONE
from cloudgan.training.train_loop import run_custom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.errors import CloudganError
    from cloudgan.core.hardware import Accelerator
    from cloudgan.core.progress import Progress
    from cloudgan.data.pipeline.image_buffers import ReadingTime
    from cloudgan.schema.config import RunConfig
    from cloudgan.training.cluster import Cluster
    from cloudgan.training.context import TrainingContext
    from cloudgan.training.draws import Draws
    from cloudgan.training.engines.engine import LossTable
    from cloudgan.training.engines.jax_step import Batch, State
    from cloudgan.training.gan import Gan
    from cloudgan.training.shared_work import SharedWork
    from cloudgan.training.train_loop import TrainLoop

_STEPS_AHEAD = 3
_SHOWERS = ("image", "energy", "angle", "ecal")


class JaxEngine:
    """Implements `cloudgan.training.engines.engine.Engine`."""

    errors: tuple[type[Exception], ...] = (jax.errors.JaxRuntimeError,)

    def __init__(
        self, config: RunConfig, cluster: Cluster | None, *, threads: int, progress: Progress
    ) -> None:
        """Connects processes and devices; `threads` were set before JAX was imported.

        Raises:
            ConfigError: Devices are missing, or the batch norm of several replicas is synchronised.
            TryAgain: The other processes did not answer.
        """
        del threads, progress
        if keras.config.backend() != "jax":
            raise ConfigError(
                f"--engine=jax: Keras already runs on {keras.config.backend()} in this process; restart it"
                " (in a notebook: the kernel), or train with the command `cloudgan train`"
            )
        self._devices = JaxDevices(cluster, config.training.replicas)
        self.replicas = self._devices.replicas
        alone = "mirrored" if self.replicas > 1 else "one"
        self.strategy = "multiworker" if self._devices.processes > 1 else alone
        if self.replicas > 1 and config.training.batch_norm == "synchronized":
            raise ConfigError(
                f"--engine=jax with {self.replicas} replicas has no synchronised batch norm (training."
                "batch_norm); use batch_norm: replica, or --engine=tensorflow"
            )

    @staticmethod
    @contextmanager
    def translate_lost_workers(cluster: Cluster | None) -> Iterator[None]:
        """Translates errors after the loss of another worker to TryAgain."""
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if known := lost_worker(error, cluster):
                raise known from error
            raise

    def scope(self) -> AbstractContextManager[Any]:
        """Returns an empty scope: variables are of this process, a step works on copies."""
        return nullcontext()

    def accelerators(self) -> tuple[Accelerator, ...]:
        """Returns the accelerators of this process, by name."""
        return self._devices.accelerators()

    def conv_device(self) -> str:
        """Returns XLA: the generated code of `fft` for a CPU runs in TensorFlow only."""
        return "XLA"

    def device_kind(self) -> str:
        """Returns the name of the computing device; CPU without an accelerator."""
        return self._devices.kind

    def software(self) -> dict[str, Any]:
        """Returns the fields of `Numerics` that name the libraries."""
        return {
            "math_library": "XLA",
            "xla": True,
            "jax": jax.__version__,
            "keras": keras.__version__,
        }

    def resolve_precision(self, precision: str) -> str:
        """Returns float32 or bfloat16 for `precision` on this machine."""
        if precision == "mixed":
            return "float32" if self._devices.kind == "CPU" else "bfloat16"
        return precision

    def agree_on_checkpoint(self, cluster: Cluster, step: int | None) -> None:
        """Checks that all workers found the same checkpoint; a collective operation."""
        del cluster
        found = self._devices.gather(np.array(-1 if step is None else step, np.int32))
        refuse_different_checkpoints([None if each < 0 else int(each) for each in found])

    def make_draws(self, seed: int) -> Draws:
        """Returns the random numbers of a run."""
        return JaxDraws(seed)

    def shared_work(self, context: TrainingContext) -> SharedWork:
        """Returns all work: `--engine=jax` does not validate."""
        del context
        return ALONE

    def local_devices(self, local_replicas: int) -> tuple[str | None, ...]:
        """Returns no device: `--engine=jax` does not validate."""
        del local_replicas
        return (None,)

    def compile(self, context: TrainingContext, gan: Gan, draws: Draws) -> JaxSteps:
        """Returns the steps; they are compiled at the first call."""
        return JaxSteps(context, self._devices, gan, draws)

    def known_error(self, error: Exception, cluster: Cluster | None) -> CloudganError | None:
        """Returns an error that says that another process is lost; None: another failure."""
        return lost_worker(error, cluster)


def lost_worker(error: Exception, cluster: Cluster | None) -> TryAgain | None:
    """Returns an error that says that another worker is lost; None for a single process."""
    if cluster is None or len(cluster.workers) == 1:
        return None
    return TryAgain(
        f"another worker stopped answering ({str(error).splitlines()[0]}), so this worker stops;"
        " restart all workers to resume from the last checkpoint"
    )


class JaxSteps:
    """Implements `cloudgan.training.engines.engine.Compiled`.

    The state of a run is in arrays that all replicas have whole; `read_back` copies it into the variables.
    """

    def __init__(
        self, context: TrainingContext, devices: JaxDevices, gan: Gan, draws: Draws
    ) -> None:
        self._context, self._devices, self._gan = context, devices, gan
        self._step = JaxStep(
            gan,
            context.config.model,
            draws,
            global_batch_size=context.numerics.global_batch_size,
            replicas=devices.replicas,
            layer_target=context.layer_target,
            shape_scale=context.shape_scale,
        )
        self._state: State | None = None
        self._take, self._evaluate = self._compiled(self._take_step), self._compiled(self._test)
        self.held_out_losses: Callable[[], LossTable | None] | None = (
            self._held_out_losses if context.ends_an_epoch else None
        )

    @property
    def _rows(self) -> int:
        """Rows of a replica."""
        return self._context.numerics.global_batch_size // self._devices.replicas

    def run_steps(
        self, iterator: Iterator[BatchRows], steps: int, votes: np.ndarray[Any, Any]
    ) -> tuple[Any, Any]:
        """Runs steps, each a call of the device; they queue up there."""
        state = self._current()
        sums = self._devices.share(np.zeros((len(PASSES), len(loss_columns())), np.float32))
        for _ in range(steps):
            rows = next(iterator)
            state, sums = self._take(self._batch(rows), np.int32(rows.step), state, sums)
        self._state = state
        return own_copy(sums), self._devices.gather(votes).sum(0)

    def batches(self, reading: ReadingTime, step: int) -> Iterator[BatchRows]:
        """Yields the rows of this process from `step` on; threads read ahead."""
        context, local = self._context, self._devices.local_replicas * self._rows
        reader = BatchReader(context.training_set, context.sampler, local, reading)
        first_row = self._devices.first_replica * self._rows
        with ThreadPoolExecutor(context.numerics.threads, "read") as threads:
            ahead: deque[Any] = deque()
            for number in count(step):
                ahead.append(threads.submit(reader.read, number, first_row))
                if len(ahead) > _STEPS_AHEAD:
                    yield ahead.popleft().result()

    def blank_iterator(self) -> Iterator[BatchRows]:
        """Returns an iterator for 0 steps."""
        return iter(())

    def train(
        self, loop: TrainLoop, batches: Any, finish_epoch: Callable[[TrainLoop], None]
    ) -> None:
        """Trains with cloudgan's own loop."""
        run_custom(
            loop, batches, epochs=self._context.config.training.epochs, finish_epoch=finish_epoch
        )

    def read_back(self) -> None:
        """Copies the state of the last step into the variables of the networks."""
        if self._state is None:
            return
        for variables, values in zip(variables_of(self._gan), self._state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(own_copy(value))
        ema = self._gan.ema_generator
        if ema:  # only trained weights are averaged, as in TensorFlow
            constants = self._gan.generator.non_trainable_variables
            for variable, value in zip(ema.non_trainable_variables, constants, strict=True):
                variable.assign(value)

    def _current(self) -> State:
        if self._state is None:
            self._state = self._devices.share(first_state(self._gan))
        return self._state

    def _batch(self, rows: Any) -> Batch:
        return {name: self._devices.divide(getattr(rows, name)) for name in _SHOWERS}

    def _compiled(self, call: Callable[..., Any]) -> Any:
        """Compiles a function of a batch, whose rows are divided, and of values that all replicas have."""
        if self._devices.replicas == 1:
            return jax.jit(call)
        shared = PartitionSpec()

        def divided(batch: Batch, *rest: Any) -> Any:
            parts = (PartitionSpec(REPLICAS), *(shared for _ in rest))
            return jax.shard_map(
                call, mesh=self._devices.mesh, in_specs=parts, out_specs=shared, check_vma=False
            )(batch, *rest)

        return jax.jit(divided)

    def _take_step(self, batch: Batch, step: Any, state: State, sums: Any) -> tuple[State, Any]:
        state, losses = self._step(state, batch, self._place(step))
        return state, sums + losses

    def _test(self, batch: Batch, step: Any, state: State) -> Any:
        return self._step.evaluate(state, batch, self._place(step))

    def _place(self, step: Any) -> Place:
        many = self._devices.replicas > 1
        return Place(step, (jax.lax.axis_index(REPLICAS) if many else 0) * self._rows)

    def _held_out_losses(self) -> LossTable | None:
        """Returns the mean losses over the held-out showers; None with too few; a collective operation."""
        batches, size = self._context.held_out_batches, self._context.numerics.global_batch_size
        if not batches:
            return None
        held_out = self._context.training_set.held_out_batch(batches * size)
        first = self._devices.first_replica * self._rows
        own = self._devices.local_replicas * self._rows
        tables = []
        for number in range(batches):
            rows = slice(number * size + first, number * size + first + own)
            part = held_out._replace(
                image=held_out.image[rows][..., None],
                **{name: getattr(held_out, name)[rows] for name in _SHOWERS[1:]},
            )
            table = self._evaluate(self._batch(part), np.int32(number), self._current())
            tables.append(own_copy(table))
        return loss_table(np.mean(tables, axis=0))
