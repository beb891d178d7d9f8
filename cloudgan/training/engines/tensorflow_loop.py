"""Compiled steps of TensorFlow, and Keras' `fit` around the same blocks of steps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from cloudgan.data.pipeline.input_pipeline import FLOATS, INTEGERS
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.training.train_loop import STOP_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from cloudgan.training.step import GanStep
    from cloudgan.training.train_loop import TrainLoop


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


class FitAdapter(keras.Model):
    """Makes `fit` run the same blocks of steps as the custom loop.

    Keras 3.15's own training function cannot run under MultiWorkerMirroredStrategy (it reduces
    scalars over axis 0, keras-team/keras#20585) nor take several batches per step.
    """

    def __init__(self, train_loop: TrainLoop) -> None:
        super().__init__()
        self._train_loop = train_loop
        self.built = True  # otherwise `fit` looks for a `call`

    def make_train_function(self, force: bool = False) -> None:
        """Sets the function that `fit` calls: one block of steps."""
        del force
        self.train_function = self._train_block

    def _train_block(self, iterator: Any) -> dict[str, float]:
        # Epochs differ by one step if the last batch is carried over, but Keras calls the same
        # number of blocks in each: a block past the end of an epoch is empty.
        self._train_loop.advance(iterator)
        return {name: row["total"] for name, row in self._train_loop.losses().items()}

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Does nothing: Keras 3.15 would reduce a PerReplica batch and fail."""


class _Epochs(keras.callbacks.Callback):
    def __init__(self, train_loop: TrainLoop, finish_epoch: Callable[[TrainLoop], None]) -> None:
        super().__init__()
        self._train_loop, self._finish_epoch = train_loop, finish_epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        self._train_loop.begin_epoch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs
        self._finish_epoch(self._train_loop)


def run_fit(
    train_loop: TrainLoop, dataset: Any, *, epochs: int, finish_epoch: Callable[[TrainLoop], None]
) -> None:
    """Trains until `epochs` epochs are complete, with Keras' `fit`; call it inside the scope."""
    if train_loop.epoch >= epochs:
        return
    gan = FitAdapter(train_loop)
    gan.compile(jit_compile=False)  # "auto" means XLA, 16 times slower on CPU (conv3d)
    gan.fit(
        dataset,
        epochs=epochs,
        initial_epoch=train_loop.epoch,
        steps_per_epoch=train_loop.blocks_per_epoch,
        shuffle=False,  # the dataset has its own order
        callbacks=[_Epochs(train_loop, finish_epoch)],
        verbose=0,
    )


class Precompiler:
    """Traces and compiles functions in a background thread, one after the other.

    Collective operations are numbered per process as they are traced and as they run, so no two
    may be traced, or run, at the same time. A function that is submitted while steps run must not
    run a collective operation itself.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        """Calls functions inside the scope of `strategy`."""
        self._strategy = strategy
        self._thread = ThreadPoolExecutor(1, "precompile")

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Queues a function; the future holds its result or error."""

        def call() -> Any:
            with self._strategy.scope():
                return function()

        return self._thread.submit(call)


def precompiled(
    precompiler: Precompiler, run: Callable[..., Any], dataset: Any
) -> Callable[..., Any]:
    """Compiles `run` in the background; returns a function that waits for it, then runs steps.

    Args:
        precompiler: Background thread.
        run: Result of `compile_steps`.
        dataset: Distributed dataset with the element type of the real one; never read.
    """
    ready = precompiler.submit(lambda: run(iter(dataset), tf.constant(0, tf.int32), no_votes()))

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
