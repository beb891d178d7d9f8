"""Record lines, checkpoints and tracked numbers of the chief; other workers write nothing."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.gpu_energy import gpu_joules
from cloudgan.core.hardware import this_machine
from cloudgan.core.memory import peak_memory_bytes
from cloudgan.schema import record
from cloudgan.schema.epoch_row import epoch_row, quality_note
from cloudgan.schema.provenance import git_commit, installed_wheels, versions
from cloudgan.schema.record import Started
from cloudgan.training.checkpoint import State
from cloudgan.training.expected_memory import expected_peak_bytes
from cloudgan.training.gan import scaled_learning_rate
from cloudgan.training.shared_work import ALONE
from cloudgan.training.tracking import Tracking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.core.progress import Progress
    from cloudgan.data.pipeline.image_buffers import ReadingTime
    from cloudgan.schema.record import Validated
    from cloudgan.schema.record_line import StopReason
    from cloudgan.training.calibration import BatchNormRecalibrator
    from cloudgan.training.checkpoint import Checkpoint
    from cloudgan.training.context import TrainingContext
    from cloudgan.training.gan import Gan
    from cloudgan.training.quality_evaluator import QualityEvaluator
    from cloudgan.training.shared_work import SharedWork
    from cloudgan.training.train_loop import TrainLoop


class RunRecorder:
    """Writes record and checkpoints as the loop reports events."""

    def __init__(
        self,
        context: TrainingContext,
        gan: Gan,
        recalibrator: BatchNormRecalibrator | None,
        progress: Progress,
        reading: ReadingTime,
        *,
        evaluator: QualityEvaluator,
        start_time: float,
        work: SharedWork = ALONE,
        read_back: Callable[[], None] = lambda: None,
        more_arrays: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Writes nothing yet; calls `read_back` before it reads weights."""
        self._read_back, self._more_arrays, self._work = read_back, more_arrays, work
        self._reading, self._read_before = reading, 0.0
        self._context, self._gan, self._progress = context, gan, progress
        self._recalibrator, self._recalibrated_step = recalibrator, -1
        self._recalibrated: list[Any] = []
        self.evaluator = evaluator
        self._start_time = start_time
        self._saved_step = context.saved.state.step if context.saved else -1
        self._saved_at = time.perf_counter()
        self._pending_seconds = 0.0
        self._joules_before = gpu_joules()
        self._partial_epoch: record.Epoch | None = None
        self._tracking = Tracking(context.config, context.folder, progress.say)

    def write(self, line: record.Line) -> None:
        """Appends a line to the record, and tracks it."""
        if self._context.is_chief:
            record.append(self._context.folder.record_file, line)
            self._tracking.write(line)

    def record_start(self, step: int, train_seconds: float) -> None:
        """Records the start of this process; saves the first checkpoint of a new run."""
        startup_seconds = time.perf_counter() - self._start_time
        self.write(start_line(self._context, step, startup_seconds))
        if self._context.saved:
            self._resumed(self._context.saved)
        else:
            self.save(step, train_seconds)

    def show_epoch(self, train_loop: TrainLoop) -> None:
        """Shows the progress of the run in the epoch that starts, if it has one left."""
        self._read_before = self._reading.seconds
        training, sampler = self._context.config.training, self._context.sampler
        if train_loop.epoch >= training.epochs:
            return
        batch, number = sampler.global_batch_size, train_loop.epoch + 1
        limited = training.max_steps or training.max_seconds
        self._progress.start(
            self._context.folder.path.name,
            None if training.max_seconds else self._context.last_step * batch,
            "showers",
            done=train_loop.step * batch,
            count=f"epoch {number}" if limited else f"{number}/{training.epochs}",
        )

    def _resumed(self, saved: Checkpoint) -> None:
        """Records the resume, and what makes it differ in the bits."""
        path, state = saved.path, saved.state
        changes = self._context.reproducibility_changes()
        self.write(
            record.Resumed(
                time=utc_now(), step=state.step, path=str(path), reproducibility_changes=changes
            )
        )
        self._progress.say(f"resumes after step {state.step} ({path})")
        if changes:
            self._progress.say(f"numbers change from here: {'; '.join(changes)}")

    def save_due(self, train_loop: TrainLoop) -> bool:
        """Whether the interval in steps or seconds since the last checkpoint has passed."""
        wanted = self._context.config.checkpoint
        if wanted.every_steps and train_loop.step - max(0, self._saved_step) >= wanted.every_steps:
            return True
        return time.perf_counter() - self._saved_at >= wanted.every_seconds

    def save_state(self, train_loop: TrainLoop) -> float:
        """Saves the state unless it is saved already; returns the duration in seconds."""
        if train_loop.step == self._saved_step:
            return 0.0
        self._partial_epoch = self._epoch_line(train_loop, None, 0.0)
        return self.save(train_loop.step, train_loop.train_seconds)

    def save(self, step: int, train_seconds: float) -> float:
        """Saves a checkpoint; returns the duration in seconds."""
        self._saved_step, self._saved_at = step, time.perf_counter()
        if not self._context.is_chief:
            return 0.0
        state = State(
            step=step,
            train_seconds=train_seconds,
            config_hash=self._context.config.config_hash(),
            config=self._context.config,
            numerics=self._context.numerics,
            summary=self._context.training_set.summary,
            **self.evaluator.history.state(),
        )
        began = time.perf_counter()
        path, size = self._context.checkpoints.save(state, self._arrays(step))
        seconds = time.perf_counter() - began
        problem = self._context.checkpoints.copy_problem
        if problem:
            self._progress.say(
                f"checkpoint saved locally but not copied: {problem}; retried with the next one"
            )
        self.write(
            record.Checkpointed(
                time=utc_now(),
                step=step,
                path=str(path),
                seconds=seconds,
                bytes=size,
                copied=None if not self._context.config.checkpoint.url else problem is None,
            )
        )
        return seconds

    def _arrays(self, step: int) -> dict[str, Any]:
        """Returns all variables, the averaged generator recalibrated; training keeps its own state."""
        self._read_back()
        arrays = {name: variable.numpy() for name, variable in self._gan.variables().items()}
        if self._gan.ema_generator:
            names = [name for name in arrays if name.startswith("ema_generator/")]
            arrays |= zip(names, self._inference_weights(step), strict=True)
        return {**arrays, **self._more_arrays()}

    def _inference_weights(self, step: int, work: SharedWork = ALONE) -> list[Any]:
        """Returns the weights for inference after `step`, in Keras order.

        With the processes of `work` a collective operation: only the chief saves, so that it alone may
        have them already.
        """
        self._read_back()
        if not (self._gan.ema_generator and self._recalibrator):
            weights: list[Any] = self._gan.inference_generator.get_weights()
            return weights
        if step != self._recalibrated_step or work.processes > 1:
            average = self._gan.ema_generator.get_weights()
            self._recalibrated = self._recalibrator.recalibrate(average, work)
            self._recalibrated_step = step
        return self._recalibrated

    def finish_epoch(
        self,
        train_loop: TrainLoop,
        held_out_losses_of: Callable[[], dict[str, dict[str, float]] | None] | None,
        *,
        validates: bool = True,
    ) -> None:
        """Computes held-out losses, validates if due, and writes the epoch's line."""
        if train_loop.step == train_loop.start_step:
            return
        busy = self._input_utilisation(train_loop)
        began = time.perf_counter()
        tested = held_out_losses_of() if held_out_losses_of else None
        validated = self._evaluate(train_loop.step) if validates else None
        seconds = self._pending_seconds + time.perf_counter() - began
        line = self._epoch_line(train_loop, tested, seconds)
        line = line.model_copy(update={"input_utilisation": busy})
        self._pending_seconds, self._partial_epoch = 0.0, None
        self.write(line)
        self._progress.say(epoch_row(line, validated))
        self._record_validation(validated, train_loop)

    def validate_pending(self, train_loop: TrainLoop) -> bool:
        """Validates an epoch that an earlier process saved but did not validate.

        Returns:
            Whether a validation was pending; the same on every worker.
        """
        if not self.evaluator.is_due(train_loop.step):
            return False
        began = time.perf_counter()
        validated = self._evaluate(train_loop.step)
        self._pending_seconds = time.perf_counter() - began
        if validated:
            self._progress.say(f"epoch {validated.epoch + 1:>2}  {quality_note(validated)}")
        self._record_validation(validated, train_loop)
        return True

    def _evaluate(self, step: int) -> Validated | None:
        if not self.evaluator.is_due(step):
            return None
        return self.evaluator.evaluate(step, partial(self._inference_weights, step, self._work))

    def _record_validation(self, validated: Validated | None, train_loop: TrainLoop) -> None:
        """Writes and saves a validation; replaces a checkpoint of this step without it."""
        if validated is None:
            return
        self.write(validated)
        if validated.best or train_loop.step == self._saved_step:
            self.save(train_loop.step, train_loop.train_seconds)

    def record_failure(self, train_loop: TrainLoop, message: str) -> None:
        """Records a failure, and the partial epoch that the last checkpoint contains."""
        if self._partial_epoch and self._partial_epoch.steps:
            self.write(self._partial_epoch)
        self.record_stop(train_loop, "failed", message)

    def record_stop(self, train_loop: TrainLoop, reason: StopReason, message: str = "") -> None:
        """Records the end, and shows the reason unless it is a failure."""
        self._progress.end()
        if message and reason != "failed":
            self._progress.say(message)
        before, joules = self._joules_before, gpu_joules()
        self.write(
            record.Stopped(
                time=utc_now(),
                step=train_loop.step,
                reason=reason,
                program_seconds=time.perf_counter() - self._start_time,
                train_seconds=train_loop.train_seconds,
                message=message,
                peak_memory_bytes=peak_memory_bytes(),
                gpu_joules=None if before is None or joules is None else max(0.0, joules - before),
            )
        )

    def _input_utilisation(self, train_loop: TrainLoop) -> float | None:
        if not train_loop.epoch_seconds:
            return None
        could = self._context.numerics.threads * train_loop.epoch_seconds
        return min(1.0, (self._reading.seconds - self._read_before) / could)

    def _epoch_line(
        self, train_loop: TrainLoop, tested: Any, validation_seconds: float
    ) -> record.Epoch:
        sampler, epoch = self._context.sampler, train_loop.start_epoch
        begin = sampler.steps_through(epoch - 1) if epoch else 0
        ended = train_loop.step == sampler.steps_through(epoch)
        steps = train_loop.step - train_loop.start_step
        return record.Epoch(
            time=utc_now(),
            step=train_loop.step,
            epoch=epoch,
            first=train_loop.includes_tracing,
            complete=train_loop.start_step == begin and ended,
            steps=steps,
            samples=steps * sampler.global_batch_size,
            carried_samples=sampler.samples_carried(epoch) if ended else 0,
            dropped_samples=sampler.samples_dropped_per_epoch if ended else 0,
            train_seconds=train_loop.epoch_seconds,
            trace_seconds=train_loop.trace_seconds,
            validation_seconds=validation_seconds,
            checkpoint_seconds=train_loop.checkpoint_seconds,
            samples_per_second=train_loop.samples_per_second(),
            losses=train_loop.losses(),
            held_out_losses=tested,
        )


def start_line(context: TrainingContext, step: int, startup_seconds: float) -> Started:
    """Returns the first record line of a process: hardware, software and data."""
    config = context.config
    return Started(
        time=utc_now(),
        step=step,
        config_hash=config.config_hash(),
        training_showers=context.training_set.count,
        held_out_showers=context.training_set.held_out_count,
        hardware=this_machine(context.engine.accelerators()),
        numerics=context.numerics,
        versions=versions(),
        git_commit=git_commit(),
        strategy=context.engine.strategy,
        loop=config.training.loop,
        learning_rate=scaled_learning_rate(config, context.numerics.global_batch_size),
        notes=context.training_set.describe(),
        data_sha256=context.training_set.digests,
        startup_seconds=startup_seconds,
        expected_memory_bytes=expected_peak_bytes(config, context.numerics),
        image=settings.image(),
        smoke_seconds=settings.smoke_seconds(),
        wheels=installed_wheels(),
    )
