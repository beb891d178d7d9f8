"""The training loop of one process: blocks of steps, and all that happens between two of them.

An engine, TensorFlow or JAX, runs a block of steps. Between two blocks the loop counts, saves,
validates and writes the record, and stops where all workers agreed to. Of several workers the chief
writes alone; what all of them compute together, all do after the same step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
import numpy as np

from cloudgan.core import settings
from cloudgan.core.arrays import Array
from cloudgan.core.clock import utc_now
from cloudgan.core.errors import CloudganError
from cloudgan.data.batches import ReadingTime
from cloudgan.schema import record
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.losses import PASSES, loss_columns, loss_note, loss_table
from cloudgan.schema.record_line import StopReason
from cloudgan.training.checkpoint import State
from cloudgan.training.context import LossTable, TrainedWeights, TrainingContext
from cloudgan.training.forecast import time_notice
from cloudgan.training.quality import QualityEvaluator
from cloudgan.training.record import Recorder
from cloudgan.training.stopping import (
    EXIT_CODES,
    SIGN_SECONDS,
    STOP_REASONS,
    Exchange,
    Outcome,
    StopTraining,
)


def _no_losses() -> Array:
    return np.zeros((len(PASSES), len(loss_columns())))


@dataclass
class EpochPart:
    """What this process trains of one epoch.

    Attributes:
        number: Of the epoch, from 0.
        first_step: Of this process in the epoch.
        read_before: Seconds of the readers before it.
        traces: Whether its first call of the device traces the steps.
        step: Last step so far.
        sums: Losses over the steps, (passes, columns).
        seconds: Of training; `trace_seconds` of them for the `traced_steps` of the first call.
        checkpoint_seconds: That training waited for checkpoints.
    """

    number: int
    first_step: int
    read_before: float
    traces: bool
    step: int
    sums: Array = field(default_factory=_no_losses)
    seconds: float = 0.0
    trace_seconds: float = 0.0
    traced_steps: int = 0
    checkpoint_seconds: float = 0.0

    @property
    def steps(self) -> int:
        """Steps of this process so far."""
        return self.step - self.first_step

    def losses(self) -> LossTable:
        """Returns the mean losses so far, by pass and term."""
        return loss_table(self.sums / max(1, self.steps))

    def steps_per_second(self) -> float:
        """Returns the speed without the call that traced; 0 after that call only."""
        steps, seconds = self.steps - self.traced_steps, self.seconds - self.trace_seconds
        return steps / seconds if steps and seconds > 0 else 0.0


class TrainLoop:
    """Counts the steps of one process, and does what is due between two blocks of them.

    Attributes:
        step: Of the run.
        train_seconds: Of the run, without start, validations and checkpoints.
        epoch: What was trained since `begin_epoch`, of `epochs`.
        reading: Time that the readers of the batches take.
    """

    def __init__(
        self,
        context: TrainingContext,
        weights: TrainedWeights,
        evaluator: QualityEvaluator,
        exchange: Exchange | None = None,
    ) -> None:
        """Starts where the checkpoint of `context` was saved; the weights are set."""
        self._context, self._training = context, context.config.training
        self._sampler, self._engine = context.sampler, context.engine
        self._weights, self._evaluator = weights, evaluator
        self._flag, self._progress = context.flag, context.progress
        self._exchange = exchange or Exchange()
        self._recorder = Recorder(
            *(context.config, context.folder, context.sampler, context.progress),
            start_time=context.start_time,
            writes=context.is_chief,
        )
        self._liveness = LivenessFile(settings.liveness_file())
        self.reading = ReadingTime()
        state = context.saved.state if context.saved else None
        self.step, self.train_seconds = (state.step, state.train_seconds) if state else (0, 0.0)
        self._saved_step, self._saved_at = state.step if state else -1, time.perf_counter()
        self._uncopied: record.Checkpointed | None = None
        self._saved_part: record.Epoch | None = None
        self._pending_seconds = 0.0  # of a validation before the first epoch
        self._traces, self._is_time_said = True, not context.is_chief
        self.epochs = context.config.training.epochs
        self._earlier_sums = _no_losses()
        self.epoch = self._new_epoch()

    def start(self) -> None:
        """Records the start of this process; saves the first checkpoint of a new run."""
        context = self._context
        changes = context.reproducibility_changes()
        self._recorder.start(context.start_line(), context.saved, changes)
        if changes:
            self._progress.say(f"numbers change from here: {'; '.join(changes)}")
        if not context.saved:
            self._write_checkpoint()
        self._exchange.begin(self.step)
        self._recorder.show_epoch(self.step, context.last_step)

    @property
    def next_epoch(self) -> int:
        """The epoch of the next step, counted from 0."""
        return self._sampler.epoch_of(self.step)

    @property
    def steps_left_in_epoch(self) -> int:
        """Steps until the end of the epoch that `begin_epoch` started."""
        return max(0, self._sampler.steps_through(self.epoch.number) - self.step)

    @property
    def blocks_per_epoch(self) -> int:
        """Maximum number of calls of `advance` per epoch."""
        return -(-self._sampler.most_steps_per_epoch // self._context.steps_per_loop)

    @property
    def loss_sums(self) -> Array:
        """Sums of the losses over all steps of this process, (passes, columns)."""
        return self._earlier_sums + self.epoch.sums

    @property
    def has_all_steps(self) -> bool:
        """Whether the run has as many steps as it may have."""
        limit = self._training.max_steps
        return limit is not None and self.step >= limit

    @property
    def epoch_seconds(self) -> float:
        """Seconds of training in this epoch."""
        return self.epoch.seconds

    def begin_epoch(self) -> None:
        """Resets the counters of the epoch."""
        self._earlier_sums = self.loss_sums
        self.epoch = self._new_epoch()

    def _new_epoch(self) -> EpochPart:
        read = self.reading.seconds
        return EpochPart(self.next_epoch, self.step, read, self._traces, self.step)

    def advance(self, iterator: Any) -> None:
        """Trains the next block of steps, at most to the end of the epoch.

        Raises:
            StopTraining: All workers agreed to stop here.
            CloudganError: A loss is NaN or infinite.
        """
        left = max(0, self._context.end_step - self.step)
        steps = min(self._context.steps_per_loop, self.steps_left_in_epoch, left)
        if not steps:
            return
        steps = min(steps, self._exchange.steps_until(self.step))
        began = time.perf_counter()
        losses, votes = self._engine.run_steps(iterator, steps, self._votes())
        sums, agreed = np.asarray(losses), np.asarray(votes)  # waits for the device
        seconds, epoch = time.perf_counter() - began, self.epoch
        self.step = epoch.step = self.step + steps
        epoch.sums += sums
        epoch.seconds += seconds
        self.train_seconds += seconds
        if self._traces:
            self._traces, epoch.trace_seconds, epoch.traced_steps = False, seconds, steps
        self._progress.advance(steps * self._sampler.global_batch_size, loss_note(sums / steps))
        self._flag.stepped = True
        self._liveness.update(self.step, self.next_epoch)
        if not np.isfinite(sums).all():
            raise CloudganError(
                f"a loss is NaN or infinite up to step {self.step}: {epoch.losses()}; the last"
                " checkpoint is older. Rerun with a smaller model.learning_rate"
            )
        self._say_time()
        self._stop_if(agreed)
        self._exchange.after_block(self)
        self._record_copied()
        wanted, since = self._context.config.checkpoint, self.step - max(0, self._saved_step)
        if (wanted.every_steps and since >= wanted.every_steps) or (
            time.perf_counter() - self._saved_at >= wanted.every_seconds
        ):
            self.save()

    def finish_epoch(self) -> None:
        """Records the epoch, validates it if that is due, and begins the next one.

        Raises:
            StopTraining: All workers agreed to stop here.
        """
        is_due = self._evaluator.is_due(self.step)
        self.record_epoch(self._engine.held_out_losses)
        self.begin_epoch()
        if is_due:
            self.stop_if_requested()
        self._recorder.show_epoch(self.step, self._context.last_step)

    def record_epoch(
        self,
        held_out_losses: Callable[[], LossTable | None] | None = None,
        *,
        validates: bool = True,
    ) -> None:
        """Computes held-out losses, validates if that is due, and writes the line of the epoch."""
        epoch = self.epoch
        if not epoch.steps:
            return
        busy = None
        if epoch.seconds:
            could = self._context.numerics.threads * epoch.seconds
            busy = min(1.0, (self.reading.seconds - epoch.read_before) / could)
        began = time.perf_counter()
        tested = held_out_losses() if held_out_losses else None
        validated = self._validate() if validates else None
        seconds = self._pending_seconds + time.perf_counter() - began
        line = self._epoch_line(tested, seconds, busy)
        self._pending_seconds, self._saved_part = 0.0, None
        self._recorder.finish_epoch(line, validated)
        self._record_validation(validated)

    def validate_pending(self) -> None:
        """Validates an epoch that an earlier process saved but did not validate.

        Raises:
            StopTraining: All workers agreed to stop.
        """
        if not self._evaluator.is_due(self.step):
            return
        trains = self.step < self._context.last_step
        if trains:
            # Waits for the compilation in the background: it runs a collective operation too.
            self.stop_if_requested()
        began = time.perf_counter()
        validated = self._validate()
        self._pending_seconds = time.perf_counter() - began
        if validated:
            self._recorder.show_validation(validated)
        self._record_validation(validated)
        if trains:
            self.stop_if_requested()

    def save(self) -> None:
        """Saves a checkpoint of this step, if it is not saved already."""
        if self.step == self._saved_step:
            return
        self._saved_part = self._epoch_line(None, 0.0, None)
        self.epoch.checkpoint_seconds += self._write_checkpoint()
        self._liveness.update(self.step, self.next_epoch)

    def stop_if_requested(self) -> None:
        """Stops all workers if one requested it; every worker calls this after the same step.

        Raises:
            StopTraining: A worker requested it.
        """
        _, agreed = self._engine.run_steps(None, 0, self._votes())
        self._stop_if(np.asarray(agreed))

    def fail(self, message: str) -> None:
        """Records a failure, and the partial epoch that the last checkpoint contains."""
        # Without signs of life: the rank that receives them may be lost.
        self._context.checkpoints.is_copied(within=None)
        self._record_copied()
        if self._saved_part and self._saved_part.steps:
            self._recorder.write(self._saved_part)
        self._recorder.stop(self.step, "failed", self.train_seconds, message)

    def end(self, reason: StopReason) -> Outcome:
        """Exchanges what is left, saves a checkpoint, waits for its copy and records the end."""
        history = self._evaluator.history
        reason = history.stop or reason
        self._exchange.before_last_save(self)
        self.save()
        self._record_copied(wait=True)
        is_asked = reason in EXIT_CODES or not self._context.is_chief
        message = "" if is_asked else history.stop_message()
        self._recorder.stop(self.step, reason, self.train_seconds, message)
        self._exchange.leave(self.step, reason)
        return Outcome(
            reason=reason,
            step=self.step,
            epoch=self.next_epoch,
            train_seconds=self.train_seconds,
            checkpoint=self._context.checkpoints.path_of(self.step),
            best=history.best,
        )

    def _votes(self) -> Array:
        limit = self._training.max_seconds
        if limit is not None and self.train_seconds >= limit:
            self._flag.request("max_seconds")
        return np.array([self._flag.reason == reason for reason in STOP_REASONS], np.int32)

    def _stop_if(self, agreed: Array) -> None:
        if self.has_all_steps:
            raise StopTraining("max_steps")
        for reason, votes in zip(STOP_REASONS, agreed, strict=True):
            if votes:
                raise StopTraining(reason)

    def _say_time(self) -> None:
        """Says the expected time once, as soon as the speed is known; a limit is said already."""
        rate = self.epoch.steps_per_second()
        if self._is_time_said or self._training.max_seconds or not rate:
            return
        self._is_time_said = True
        seconds = max(0, self._context.end_step - self.step) / rate
        for line in time_notice(self._context.config, seconds, self._context.numerics.device):
            self._progress.say(line)

    def _validate(self) -> record.Validated | None:
        weights = partial(self._weights.inference, self.step, self._evaluator.work)
        return self._evaluator.evaluate(self.step, weights)

    def _record_validation(self, validated: record.Validated | None) -> None:
        """Writes and saves a validation; replaces a checkpoint of this step without it."""
        if validated is None:
            return
        self._recorder.write(validated)
        if validated.best or self.step == self._saved_step:
            self._write_checkpoint()

    def _write_checkpoint(self) -> float:
        """Saves a checkpoint, on the chief; returns the seconds that the training waited."""
        context = self._context
        self._saved_step, self._saved_at = self.step, time.perf_counter()
        if not context.is_chief:
            return 0.0
        self._record_copied(wait=True)
        state = State(
            step=self.step,
            train_seconds=self.train_seconds,
            config_hash=context.config.config_hash(),
            config=context.config,
            numerics=context.numerics,
            summary=context.training_set.summary,
            **self._evaluator.history.state(),
        )
        more = self._exchange.arrays()
        began = time.perf_counter()
        path, size = context.checkpoints.save(state, {**self._weights.arrays(self.step), **more})
        seconds = time.perf_counter() - began
        self._uncopied = record.Checkpointed(
            time=utc_now(), step=self.step, path=str(path), seconds=seconds, bytes=size
        )
        self._record_copied(wait=self._exchange.waits_for_copies)
        return seconds

    def _record_copied(self, *, wait: bool = False) -> None:
        """Records the last checkpoint once its copy in the store is made, or has failed."""
        checkpoints = self._context.checkpoints
        while self._uncopied and wait and not checkpoints.is_copied(within=SIGN_SECONDS):
            self._liveness.goes_on()
            self._exchange.waits()
        if self._uncopied and checkpoints.is_copied():
            self._recorder.checkpointed(self._uncopied, checkpoints.copy_problem)
            self._uncopied = None

    def _epoch_line(
        self, tested: LossTable | None, validation_seconds: float, busy: float | None
    ) -> record.Epoch:
        epoch, sampler = self.epoch, self._sampler
        begin = sampler.steps_through(epoch.number - 1) if epoch.number else 0
        return self._recorder.epoch_line(
            self.step,
            epoch.number,
            epoch.steps,
            is_whole=epoch.first_step == begin,
            first=epoch.traces,
            train_seconds=epoch.seconds,
            trace_seconds=epoch.trace_seconds,
            validation_seconds=validation_seconds,
            checkpoint_seconds=epoch.checkpoint_seconds,
            samples_per_second=epoch.steps_per_second() * sampler.global_batch_size,
            losses=epoch.losses(),
            held_out_losses=tested,
            input_utilisation=busy,
        )


def run_custom(loop: TrainLoop, dataset: Any) -> None:
    """Trains until the epochs are complete."""
    iterator = iter(dataset)
    while loop.next_epoch < loop.epochs:
        loop.begin_epoch()
        while loop.steps_left_in_epoch:
            loop.advance(iterator)
        loop.finish_epoch()


class FitAdapter(keras.Model):
    """Makes Keras' `fit` run the same blocks of steps as the custom loop.

    Keras 3.15's own training function cannot run under MultiWorkerMirroredStrategy (it reduces
    scalars over axis 0, keras-team/keras#20585) nor take several batches per step.
    """

    def __init__(self, loop: TrainLoop) -> None:
        super().__init__()
        self._loop = loop
        self.built = True  # otherwise `fit` looks for a `call`

    def make_train_function(self, force: bool = False) -> None:
        """Sets the function that `fit` calls: one block of steps."""
        del force
        self.train_function = self._train_block

    def _train_block(self, iterator: Any) -> dict[str, float]:
        # Epochs differ by one step if the last batch is carried over, but Keras calls the same
        # number of blocks in each: a block past the end of an epoch is empty.
        self._loop.advance(iterator)
        return {name: row["total"] for name, row in self._loop.epoch.losses().items()}

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Does nothing: Keras 3.15 would reduce a PerReplica batch and fail."""


def run_fit(loop: TrainLoop, dataset: Any) -> None:
    """Does the same with Keras' `fit`; call it inside the scope."""
    if loop.next_epoch >= loop.epochs:
        return
    gan = FitAdapter(loop)
    gan.compile(jit_compile=False)  # "auto" means XLA, 16 times slower on CPU (conv3d)
    gan.fit(
        dataset,
        epochs=loop.epochs,
        initial_epoch=loop.next_epoch,
        steps_per_epoch=loop.blocks_per_epoch,
        shuffle=False,  # the dataset has its own order
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_epoch_begin=lambda *_: loop.begin_epoch(),
                on_epoch_end=lambda *_: loop.finish_epoch(),
            )
        ],
        verbose=0,
    )
