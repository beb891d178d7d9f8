"""The engine of TensorFlow: `tf.distribute` strategies, compiled steps, tf.data."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.core import settings
from cloudgan.core.progress import Progress
from cloudgan.data.batches import Batch, ReadingTime
from cloudgan.data.input_pipeline import FLOATS, INTEGERS, input_pipeline
from cloudgan.schema.config import RunConfig
from cloudgan.schema.losses import PASSES, loss_columns, loss_table
from cloudgan.training.cluster import XLA_FLAG, XLA_VARIABLE, Cluster
from cloudgan.training.context import LossTable, TrainingContext
from cloudgan.training.step import GanStep
from cloudgan.training.stopping import STOP_REASONS
from cloudgan.training.tensorflow_backend import (
    accelerators,
    choose_strategy,
    make_strategy,
    set_up_devices,
    translated_errors,
    unused_gpus,
    word_adder,
)


class TensorFlowEngine:
    """Implements `cloudgan.training.context.Engine`; steps are compiled in the background."""

    errors: tuple[type[Exception], ...] = (tf.errors.OpError,)

    def __init__(
        self, config: RunConfig, cluster: Cluster | None, *, threads: int, progress: Progress
    ) -> None:
        stages = config.parallel.stages
        set_up_devices(config.training, threads=threads, stages=stages)
        if warning := unused_gpus():
            progress.say(warning)
        self.strategy = "one" if stages else choose_strategy(config.training, cluster)
        self._strategy = make_strategy(config, self.strategy)
        self.workers = len(cluster.workers) if cluster and self.strategy == "multiworker" else 1
        self.replicas = int(self._strategy.num_replicas_in_sync)
        self.accelerators = accelerators()
        self._adder: Callable[[Any], Any] | None = None
        self.software: dict[str, Any] = {
            "math_library": "oneDNN" if settings.is_on("TF_ENABLE_ONEDNN_OPTS") else "Eigen",
            "xla": XLA_FLAG in (settings.variable(XLA_VARIABLE) or ""),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
        }
        self.held_out_losses: Callable[[], LossTable | None] | None = None

    @staticmethod
    def translated_errors(cluster: Cluster | None) -> AbstractContextManager[None]:
        """Translates errors for damaged showers and lost workers to those for a user."""
        return translated_errors(cluster)

    def scope(self) -> AbstractContextManager[Any]:
        """Returns the scope of the strategy."""
        scope: AbstractContextManager[Any] = self._strategy.scope()
        return scope

    def add(self, words: NDArray[np.int32]) -> Any:
        """Sums over the processes; the first call traces, while no collective is traced or run."""
        if self._adder is None:
            self._adder = word_adder(self._strategy, self.workers)
        return self._adder(words)

    def local_devices(self, local_replicas: int) -> tuple[str | None, ...]:
        """Returns the devices of this process' replicas; None for one replica: TensorFlow's choice."""
        if self.strategy == "tpu" or local_replicas == 1:
            return (None,)
        return tuple(self._strategy.extended.worker_devices)

    def compile(self, context: TrainingContext, step: GanStep) -> None:
        """Traces and compiles the steps, then the held-out losses, in one thread: see `precompiled`."""
        self._context = context
        self._run = compile_steps(self._strategy, step)
        if context.first_step >= context.last_step:
            return
        thread = ThreadPoolExecutor(1, "precompile")
        self._run = precompiled(thread, self._strategy, self._run, self._blank())
        if context.ends_an_epoch:
            tester = thread.submit(in_scope, self._strategy, partial(self._tester, step))
            self.held_out_losses = lambda: tester.result()()  # noqa: PLW0108 -- waits when called

    def run_steps(self, iterator: Any, steps: int, votes: Any) -> tuple[Any, Any]:
        """Runs steps in one call of the device."""
        batches = iter(self._blank()) if iterator is None else iterator
        losses, agreed = self._run(batches, tf.constant(steps, tf.int32), tf.constant(votes))
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

    def read_back(self) -> None:
        """Does nothing: TensorFlow's steps change the variables."""

    def _blank(self) -> Any:
        batch = self._context.numerics.global_batch_size // self.replicas
        blank = dummy_batches(batch, self._context.config.model.image_shape)
        return self._strategy.distribute_datasets_from_function(lambda _: blank)

    def _tester(self, step: GanStep) -> Callable[[], LossTable | None]:
        context, size = self._context, self._context.numerics.global_batch_size
        batches = context.held_out_batches
        if not batches:
            return lambda: None
        held_out = context.training_set.held_out_batch(batches * size)
        own = range(context.first_replica, context.first_replica + context.local_replicas)
        dataset = self._strategy.distribute_datasets_from_function(
            lambda _: held_out_pipeline(
                held_out, global_batch_size=size, replicas=context.numerics.replicas, own=own
            )
        )
        return held_out_losses(self._strategy, step, dataset, batches)


def compile_steps(strategy: tf.distribute.Strategy, step: GanStep) -> Callable[..., Any]:
    """Compiles `steps` steps for all replicas into one call.

    Returns:
        A function of (iterator, steps, votes) that returns the sum over steps of the global mean
        losses, (passes, columns), and the sum over replicas of `votes`; both are the same on every
        worker after the same step.
    """

    # Without autograph: no branch of a step depends on a tensor, and the translation delays the start.
    @tf.function(autograph=False)
    def run(iterator: Any, steps: tf.Tensor, votes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def add_step(batch: Any, losses: tf.Tensor) -> tf.Tensor:
            return losses + step(batch)

        # The losses stay on the replicas until the last step: a reduction waits for all of them.
        def one_more(done: tf.Tensor, losses: Any) -> tuple[tf.Tensor, Any]:
            return done + 1, strategy.run(add_step, args=(iterator.get_next(), losses))

        def none() -> tf.Tensor:
            return tf.zeros((len(PASSES), len(loss_columns())), step.loss_dtype)

        first = (tf.zeros_like(steps), strategy.run(none))
        _, losses = tf.while_loop(lambda done, _: done < steps, one_more, first)
        agreed = strategy.run(tf.identity, args=(votes,))
        total = tf.distribute.ReduceOp.SUM
        return strategy.reduce(total, losses, axis=None), strategy.reduce(total, agreed, axis=None)

    return run


def no_votes() -> tf.Tensor:
    """Returns a zero vote for each of `STOP_REASONS`."""
    return tf.zeros(len(STOP_REASONS), tf.int32)


def in_scope(strategy: tf.distribute.Strategy, call: Callable[[], Any]) -> Any:
    """Calls a function inside the scope of `strategy`."""
    with strategy.scope():
        return call()


def precompiled(
    thread: Executor, strategy: tf.distribute.Strategy, run: Callable[..., Any], dataset: Any
) -> Callable[..., Any]:
    """Compiles the steps in a thread; returns a function that waits for it, then runs steps.

    Collective operations are numbered per process as they are traced and as they run, so no two may be
    traced, or run, at the same time: all is compiled in one thread, and what is submitted while steps
    run must not run a collective operation itself. `dataset` is like the real one, and never read.
    """
    # Here, in the thread that makes the real one: of two iterators over two devices that two threads made
    # at the same time, each read a device's batches from the other (TensorFlow 2.21, 5 of 400 pairs).
    iterator = iter(dataset)

    def first() -> Any:
        return run(iterator, tf.constant(0, tf.int32), no_votes())

    ready = thread.submit(in_scope, strategy, first)

    def wait_and_run(iterator: Any, steps: Any, votes: Any) -> Any:
        ready.result()
        return run(iterator, steps, votes)

    return wait_and_run


def dummy_batches(batch: int, image_shape: tuple[int, int, int]) -> tf.data.Dataset:
    """Returns an endless dataset of zeros with the elements of the input pipeline, (batch, ...)."""
    shapes = ((batch, *image_shape, 1), *[(batch, 1)] * 3)
    element = {name: tf.zeros(shape) for name, shape in zip(FLOATS, shapes, strict=True)}
    element |= {name: tf.zeros((1,), tf.int64) for name in INTEGERS}
    return tf.data.Dataset.from_tensors(element).repeat()


def held_out_losses(
    strategy: tf.distribute.Strategy, step: GanStep, dataset: Any, batches: int
) -> Callable[[], LossTable]:
    """Traces the losses, without updates, of `batches` global batches of held-out showers.

    Returns:
        A function that returns their mean; every worker calls it after the same step, because of the
        reduction.
    """

    @tf.function(autograph=False)
    def run(batch: Any) -> tf.Tensor:
        shares = strategy.run(step.evaluate, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

    run.get_concrete_function(dataset.element_spec)

    def mean() -> LossTable:
        iterator = iter(dataset)
        return loss_table(np.mean([np.asarray(run(next(iterator))) for _ in range(batches)], 0))

    return mean


def held_out_pipeline(
    held_out: Batch, *, global_batch_size: int, replicas: int, own: range
) -> tf.data.Dataset:
    """Returns an endless dataset of global batches of the same showers for a worker's `own` replicas.

    For a finite dataset TensorFlow checks at each batch whether all workers have one: a collective
    operation that would interleave with those of the steps when a background thread traces this.
    """
    size = global_batch_size // replicas
    firsts = [
        (step, replica * size)
        for step in range(len(held_out.energy) // global_batch_size)
        for replica in own
    ]
    steps, rows = (np.array(column, np.int64)[:, None] for column in zip(*firsts, strict=True))
    places = tf.data.Dataset.from_tensor_slices({"step": steps, "first_row": rows})
    blocks = steps * global_batch_size + rows + np.arange(size)
    values = held_out._asdict() | {"image": held_out.image[..., None]}
    showers = tf.data.Dataset.from_tensor_slices(
        {name: np.asarray(value)[blocks] for name, value in values.items()}
    )
    both = tf.data.Dataset.zip(showers, places).map(lambda batch, place: {**batch, **place})
    options = tf.data.Options()
    options.autotune.enabled = False  # as in the input pipeline
    return both.repeat().prefetch(2 * len(own)).with_options(options)
