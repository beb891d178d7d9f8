"""The training loop of one process, block by block, driven by Keras' `fit` or by cloudgan.

The inner loop runs steps inside one compiled function; between two blocks the loop counts, records
losses, saves, and stops where all workers agreed to.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from cloudgan.core.errors import CloudganError
from cloudgan.data.pipeline.input_pipeline import FLOATS, INTEGERS
from cloudgan.schema.liveness import LivenessFile
from cloudgan.schema.losses import PASSES, loss_columns, loss_table
from cloudgan.training.stopping import StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from cloudgan.core.progress import Progress
    from cloudgan.data.pipeline.epoch_sampler import EpochSampler
    from cloudgan.schema.config import TrainingConfig
    from cloudgan.schema.record_line import StopReason
    from cloudgan.training.step import GanStep
    from cloudgan.training.stopping import StopFlag

STOP_REASONS: tuple[StopReason, ...] = (
    "interrupted",
    "terminated",
    "max_seconds",
    "reached",
    "plateau",
)
"""Reasons for which a worker may stop all workers, in order of precedence."""


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
        def one_more(done: tf.Tensor, losses: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            shares = strategy.run(step, args=(iterator.get_next(),))
            return done + 1, losses + strategy.reduce(tf.distribute.ReduceOp.SUM, shares, axis=None)

        none = tf.zeros((len(PASSES), len(loss_columns())), step.loss_dtype)
        _, losses = tf.while_loop(
            lambda done, _: done < steps, one_more, (tf.zeros_like(steps), none)
        )
        agreed = strategy.run(tf.identity, args=(votes,))
        return losses, strategy.reduce(tf.distribute.ReduceOp.SUM, agreed, axis=None)

    return run


class Exchange(Protocol):
    """Exchanges weights with other workers between two blocks of steps (`cloudgan.parallel`)."""

    def begin(self, step: int) -> None:
        """Joins, before the first step of this process."""

    def steps_until(self, step: int) -> int:
        """Returns the steps from `step` to the next exchange, at least 1."""

    def after_block(self, train_loop: TrainLoop) -> None:
        """Exchanges if it is due.

        Raises:
            StopTraining: The run ends.
        """

    def before_last_save(self, train_loop: TrainLoop) -> None:
        """Exchanges what was trained since the last exchange."""

    def leave(self, step: int, reason: StopReason) -> None:
        """Waits until all workers have ended; `step` is saved."""

    def arrays(self) -> Mapping[str, Any]:
        """Returns what a checkpoint of this worker needs besides the networks."""


def no_votes() -> tf.Tensor:
    """Returns a zero vote for each of `STOP_REASONS`."""
    return tf.zeros(len(STOP_REASONS), tf.int32)


class TrainLoop:
    """Counts steps and epochs; `advance` runs a block of steps."""

    def __init__(
        self,
        run_steps: Callable[..., Any],
        sampler: EpochSampler,
        training: TrainingConfig,
        *,
        flag: StopFlag,
        progress: Progress,
        step: int,
        train_seconds: float,
        steps_per_loop: int,
        save: Callable[[TrainLoop], float],
        save_due: Callable[[TrainLoop], bool],
        dummy_iterator: Callable[[], Any] = lambda: None,
        liveness: LivenessFile | None = None,
        exchange: Exchange | None = None,
    ) -> None:
        """Starts at `step`, after `train_seconds` of training by earlier processes.

        `dummy_iterator` returns an iterator for `stop_if_requested`, with the element type of the
        batches; it is never read.
        """
        self._run_steps, self._sampler, self._training = run_steps, sampler, training
        self._flag, self._progress = flag, progress
        self.step, self.train_seconds = step, train_seconds
        self._steps_per_loop = steps_per_loop
        self._save, self._save_due, self._dummy_iterator = save, save_due, dummy_iterator
        self._liveness = liveness or LivenessFile(None)
        self._exchange = exchange
        self.first = True
        self._sums = self._earlier_sums = np.zeros((len(PASSES), len(loss_columns())))
        self.begin_epoch()

    @property
    def epoch(self) -> int:
        """The epoch of the next step, counted from 0."""
        return self._sampler.epoch_of(self.step)

    @property
    def steps_left_in_epoch(self) -> int:
        """Steps until the end of the epoch that `begin_epoch` started."""
        return max(0, self._sampler.steps_through(self.start_epoch) - self.step)

    @property
    def blocks_per_epoch(self) -> int:
        """Maximum number of calls of `advance` per epoch."""
        return -(-self._sampler.most_steps_per_epoch // self._steps_per_loop)

    def begin_epoch(self) -> None:
        """Resets the counters of the epoch."""
        self.start_epoch, self.start_step = self.epoch, self.step
        self.includes_tracing = self.first
        self._earlier_sums = self._earlier_sums + self._sums
        self._sums = np.zeros((len(PASSES), len(loss_columns())))
        self.epoch_seconds = self.trace_seconds = self.checkpoint_seconds = 0.0
        self._traced_steps = 0

    def advance(self, iterator: Any) -> None:
        """Runs the next block of steps, at most to the end of the epoch.

        Raises:
            StopTraining: All workers agreed to stop here.
            CloudganError: A loss is NaN or infinite.
        """
        steps = min(self._steps_per_loop, self.steps_left_in_epoch, self._steps_allowed())
        if not steps:
            return
        if self._exchange:
            steps = min(steps, self._exchange.steps_until(self.step))
        began = time.perf_counter()
        losses, votes = self._run_steps(
            iterator, tf.constant(steps, tf.int32), tf.constant(self._votes())
        )
        sums, agreed = np.asarray(losses), np.asarray(votes)  # waits for the device
        self._count(steps, sums, time.perf_counter() - began)
        self._flag.stepped = True
        self._liveness.update(self.step, self.epoch)
        if not np.isfinite(sums).all():
            raise CloudganError(
                f"a loss is NaN or infinite up to step {self.step}: {self.losses()}; the last"
                " checkpoint is older. Rerun with a smaller model.learning_rate"
            )
        self._stop_if(agreed)
        if self._exchange:
            self._exchange.after_block(self)
        if self._save_due(self):
            self.save()

    def save(self) -> None:
        """Saves a checkpoint of this step."""
        self.checkpoint_seconds += self._save(self)
        self._liveness.update(self.step, self.epoch)

    def end_exchanges(self) -> None:
        """Exchanges what was trained since the last exchange with other workers."""
        if self._exchange:
            self._exchange.before_last_save(self)

    def stop_if_requested(self) -> None:
        """Stops all workers if one requested it; every worker calls this after the same step.

        Raises:
            StopTraining: A worker requested it.
        """
        none, votes = tf.constant(0, tf.int32), tf.constant(self._votes())
        _, agreed = self._run_steps(self._dummy_iterator(), none, votes)
        self._stop_if(np.asarray(agreed))

    @property
    def loss_sums(self) -> np.ndarray[Any, Any]:
        """Sums of the losses over all steps of this process, (passes, columns)."""
        return self._earlier_sums + self._sums

    def losses(self) -> dict[str, dict[str, float]]:
        """Returns the mean losses of the epoch so far, by pass and term."""
        steps = max(1, self.step - self.start_step)
        return loss_table(self._sums / steps)

    def samples_per_second(self) -> float:
        """Returns the throughput of this epoch without its first call; 0 after the first call only."""
        steps = self.step - self.start_step - self._traced_steps
        seconds = self.epoch_seconds - self.trace_seconds
        return steps * self._sampler.global_batch_size / seconds if steps and seconds > 0 else 0.0

    def _steps_allowed(self) -> int:
        end = self._sampler.steps_through(self._training.epochs - 1)
        return max(0, min(end, self._training.max_steps or end) - self.step)

    def _votes(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        limit = self._training.max_seconds
        if limit is not None and self.train_seconds >= limit:
            self._flag.request("max_seconds")
        return np.array([self._flag.reason == reason for reason in STOP_REASONS], np.int32)

    def _count(self, steps: int, sums: np.ndarray[Any, Any], seconds: float) -> None:
        self.step += steps
        self._sums += sums
        self.epoch_seconds += seconds
        self.train_seconds += seconds
        if self.first:
            self.first, self.trace_seconds, self._traced_steps = False, seconds, steps
        total = sums[PASSES.index("generator"), loss_columns().index("total")] / steps
        self._progress.advance(
            steps * self._sampler.global_batch_size, f"step {self.step}, generator loss {total:.2f}"
        )

    def _stop_if(self, agreed: np.ndarray[Any, Any]) -> None:
        limit = self._training.max_steps
        if limit is not None and self.step >= limit:
            raise StopTraining("max_steps")
        for reason, votes in zip(STOP_REASONS, agreed, strict=True):
            if votes:
                raise StopTraining(reason)


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


def run_custom(
    train_loop: TrainLoop, dataset: Any, *, epochs: int, finish_epoch: Callable[[TrainLoop], None]
) -> None:
    """Trains until `epochs` epochs are complete; calls `finish_epoch` after each."""
    iterator = iter(dataset)
    while train_loop.epoch < epochs:
        train_loop.begin_epoch()
        while train_loop.steps_left_in_epoch:
            train_loop.advance(iterator)
        finish_epoch(train_loop)


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
