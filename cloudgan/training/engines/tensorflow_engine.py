"""The engine of TensorFlow: `tf.distribute` strategies, compiled steps, tf.data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from cloudgan.core import settings
from cloudgan.data.pipeline.input_pipeline import input_pipeline, reader_error
from cloudgan.training.engines.tensorflow_loop import (
    Precompiler,
    compile_steps,
    dummy_batches,
    precompiled,
    run_fit,
)
from cloudgan.training.environment_checks import XLA_FLAG, XLA_VARIABLE
from cloudgan.training.evaluation import (
    compile_held_out_losses,
    held_out_losses,
    held_out_pipeline,
)
from cloudgan.training.precision import resolve_precision
from cloudgan.training.rng import Rng
from cloudgan.training.shared_work import shared_work
from cloudgan.training.step import GanStep
from cloudgan.training.strategy import (
    accelerators,
    agree_on_checkpoint,
    choose_strategy,
    device_kind,
    lost_worker,
    make_strategy,
    set_up_devices,
    translate_lost_workers,
    unused_gpus,
)
from cloudgan.training.train_loop import run_custom

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from cloudgan.core.errors import CloudganError
    from cloudgan.core.hardware import Accelerator
    from cloudgan.core.progress import Progress
    from cloudgan.data.pipeline.image_buffers import ReadingTime
    from cloudgan.schema.config import RunConfig
    from cloudgan.training.cluster import Cluster
    from cloudgan.training.context import TrainingContext
    from cloudgan.training.draws import Draws
    from cloudgan.training.engines.engine import LossTable
    from cloudgan.training.gan import Gan
    from cloudgan.training.shared_work import SharedWork
    from cloudgan.training.train_loop import TrainLoop

_LOOPS = {"custom": run_custom, "fit": run_fit}


class TensorFlowEngine:
    """Implements `cloudgan.training.engines.engine.Engine`."""

    errors: tuple[type[Exception], ...] = (tf.errors.OpError,)

    def __init__(
        self, config: RunConfig, cluster: Cluster | None, *, threads: int, progress: Progress
    ) -> None:
        """Sets up devices and strategy.

        Raises:
            ConfigError: Devices are missing, or TensorFlow already runs with other settings.
        """
        stages = config.parallel.stages
        set_up_devices(config.training, threads=threads, stages=stages)
        if warning := unused_gpus():
            progress.say(warning)
        self.strategy = "one" if stages else choose_strategy(config.training, cluster)
        self._strategy = make_strategy(config, self.strategy)
        self.replicas = int(self._strategy.num_replicas_in_sync)

    @staticmethod
    def translate_lost_workers(cluster: Cluster | None) -> AbstractContextManager[None]:
        """Translates errors after the loss of another worker to TryAgain."""
        return translate_lost_workers(cluster)

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the scope of the strategy."""
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def accelerators(self) -> tuple[Accelerator, ...]:
        """Returns the accelerators that TensorFlow sees, by name."""
        return accelerators()

    def device_kind(self) -> str:
        """Returns the name of the computing device; CPU without an accelerator."""
        return device_kind()

    conv_device = device_kind

    def software(self) -> dict[str, Any]:
        """Returns the fields of `Numerics` that name the libraries."""
        return {
            "math_library": "oneDNN" if settings.is_on("TF_ENABLE_ONEDNN_OPTS") else "Eigen",
            "xla": XLA_FLAG in (settings.variable(XLA_VARIABLE) or ""),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
        }

    def resolve_precision(self, precision: str) -> str:
        """Returns float32, bfloat16, float16 or float64 for `precision` on this machine."""
        return resolve_precision(precision)

    def agree_on_checkpoint(self, cluster: Cluster, step: int | None) -> None:
        """Checks that all workers found the same checkpoint; a collective operation."""
        agree_on_checkpoint(self._strategy, cluster, step)

    def make_draws(self, seed: int) -> Draws:
        """Returns the random numbers of a run."""
        return Rng(seed)

    def shared_work(self, context: TrainingContext) -> SharedWork:
        """Returns this process' share of a validation."""
        return shared_work(context, self._strategy)

    def local_devices(self, local_replicas: int) -> tuple[str | None, ...]:
        """Returns the devices of this process' replicas; None for one replica: TensorFlow's choice."""
        if self.strategy == "tpu" or local_replicas == 1:
            return (None,)
        return tuple(self._strategy.extended.worker_devices)

    def compile(self, context: TrainingContext, gan: Gan, draws: Draws) -> TensorFlowSteps:
        """Returns the steps; they are traced and compiled in the background."""
        assert isinstance(draws, Rng)  # noqa: S101 - made by `make_draws`
        return TensorFlowSteps(context, self._strategy, gan, draws)

    def known_error(self, error: Exception, cluster: Cluster | None) -> CloudganError | None:
        """Returns the user's error inside one of TensorFlow."""
        assert isinstance(error, tf.errors.OpError)  # noqa: S101 - one of `errors`
        return reader_error(error) or lost_worker(error, cluster)


class TensorFlowSteps:
    """Implements `cloudgan.training.engines.engine.Compiled`."""

    def __init__(
        self, context: TrainingContext, strategy: tf.distribute.Strategy, gan: Gan, rng: Rng
    ) -> None:
        self._context, self._strategy = context, strategy
        step = GanStep(
            gan,
            context.config.model,
            rng,
            global_batch_size=context.numerics.global_batch_size,
            layer_target=context.layer_target,
            shape_scale=context.shape_scale,
        )
        self._run = compile_steps(strategy, step)
        self.held_out_losses: Callable[[], LossTable | None] | None = None
        if context.first_step >= context.last_step:
            return
        precompiler = Precompiler(strategy)
        self._run = precompiled(precompiler, self._run, self._blank())
        if context.ends_an_epoch:
            tester = precompiler.submit(partial(self._tester, step))

            def test() -> Any:
                return tester.result()()

            self.held_out_losses = test

    def run_steps(self, iterator: Any, steps: int, votes: Any) -> tuple[Any, Any]:
        """Runs steps in one call of the device."""
        losses, agreed = self._run(iterator, tf.constant(steps, tf.int32), tf.constant(votes))
        return losses, agreed

    def batches(self, reading: ReadingTime, step: int) -> Any:
        """Returns the global batches from `step` on, with this worker's rows."""
        context = self._context
        return self._strategy.distribute_datasets_from_function(
            lambda _: input_pipeline(
                context.training_set,
                context.sampler,
                worker_first_replica=context.first_replica,
                local_replicas=context.local_replicas,
                replicas=context.numerics.replicas,
                start_step=step,
                threads=context.numerics.threads,
                reading=reading,
            )
        )

    def blank_iterator(self) -> Any:
        """Returns an iterator with the element type of the batches; it is never read."""
        return iter(self._blank())

    def train(
        self, loop: TrainLoop, batches: Any, finish_epoch: Callable[[TrainLoop], None]
    ) -> None:
        """Trains with the configured loop."""
        training = self._context.config.training
        _LOOPS[training.loop](loop, batches, epochs=training.epochs, finish_epoch=finish_epoch)

    def read_back(self) -> None:
        """Does nothing: TensorFlow's steps change the variables."""

    def _blank(self) -> Any:
        context = self._context
        batch = context.numerics.global_batch_size // context.numerics.replicas
        blank = dummy_batches(batch, context.config.model.image_shape)
        return self._strategy.distribute_datasets_from_function(lambda _: blank)

    def _tester(self, step: GanStep) -> Any:
        """Returns a traced function of the held-out losses; it returns None with too few showers."""
        context, size = self._context, self._context.numerics.global_batch_size
        batches = context.held_out_batches
        if not batches:
            return lambda: None
        held_out = context.training_set.held_out_batch(batches * size)
        dataset = self._strategy.distribute_datasets_from_function(
            lambda _: held_out_pipeline(
                held_out,
                global_batch_size=size,
                replicas=context.numerics.replicas,
                own=range(context.first_replica, context.first_replica + context.local_replicas),
            )
        )
        compiled = compile_held_out_losses(self._strategy, step)
        compiled.get_concrete_function(dataset.element_spec)
        return lambda: held_out_losses(compiled, dataset, batches)
