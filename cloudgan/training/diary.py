"""What the chief writes down: record lines, checkpoints, TensorBoard. Other workers write nothing."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cloudgan.core import record
from cloudgan.core.clock import utc_now
from cloudgan.core.memory import peak_memory_bytes
from cloudgan.training.checkpoint import State
from cloudgan.training.start_line import start_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.core.validated import Validated
    from cloudgan.data.reading_time import ReadingTime
    from cloudgan.training.finishing import Finisher
    from cloudgan.training.gan import Gan
    from cloudgan.training.session import Session
    from cloudgan.training.setting import Setting
    from cloudgan.training.stopping import Reason
    from cloudgan.training.validating import Validator


class Diary:
    """Knows what happened; the session tells it."""

    def __init__(
        self,
        setting: Setting,
        gan: Gan,
        finisher: Finisher | None,
        progress: Progress,
        reading: ReadingTime,
        *,
        validator: Validator,
        began_seconds: float,
    ) -> None:
        self._reading, self._read_before = reading, 0.0
        self._setting, self._gan, self._progress = setting, gan, progress
        self._finisher, self._finished_step = finisher, -1
        self._finished: list[Any] = []
        self.validator = validator
        self._began_seconds = began_seconds
        self._saved_step = setting.saved[1].step if setting.saved else -1
        self._saved_at = time.perf_counter()
        self._owed_seconds = 0.0
        self._part: record.Epoch | None = None
        self._board = None
        if setting.config.training.tensorboard and setting.is_chief:
            self._board = tf.summary.create_file_writer(str(setting.folder.path / "tensorboard"))

    def write(self, line: record.Line) -> None:
        """Appends a line to the record."""
        if self._setting.is_chief:
            record.append(self._setting.folder.record_file, line)

    def start(self, step: int, train_seconds: float) -> None:
        """Notes that this process begins to train, and where it goes on; saves what is new."""
        startup_seconds = time.perf_counter() - self._began_seconds
        self.write(start_line(self._setting, step, startup_seconds))
        if self._setting.saved:
            self._resumed(*self._setting.saved)
        else:
            self.save(step, train_seconds)

    def begin(self, session: Session) -> None:
        """Shows the epoch that begins."""
        self._read_before = self._reading.seconds
        training, order = self._setting.config.training, self._setting.order
        limited = training.max_steps or training.max_seconds
        of = "" if limited else f"/{training.epochs}"
        left = order.steps_through(session.epoch) - session.step
        self._progress.start(
            f"epoch {session.epoch + 1}{of}", left * order.global_batch_size, "showers"
        )

    def _resumed(self, path: Path, state: State) -> None:
        """Notes that training goes on, and whether to the same bits."""
        changes = self._setting.numbers_change()
        self.write(
            record.Resumed(time=utc_now(), step=state.step, path=str(path), numbers_change=changes)
        )
        self._progress.say(f"continues after step {state.step} ({path})")
        if changes:
            self._progress.say(f"numbers change from here: {'; '.join(changes)}")

    def save_due(self, session: Session) -> bool:
        """Whether enough steps or seconds went by since the last checkpoint."""
        wanted = self._setting.config.checkpoint
        if wanted.every_steps and session.step - max(0, self._saved_step) >= wanted.every_steps:
            return True
        return time.perf_counter() - self._saved_at >= wanted.every_seconds

    def save_session(self, session: Session) -> float:
        """Saves the present state unless it is saved already; returns the seconds it took."""
        if session.step == self._saved_step:
            return 0.0
        self._part = self._epoch_line(session, None, 0.0)
        return self.save(session.step, session.train_seconds)

    def save(self, step: int, train_seconds: float) -> float:
        """Saves a checkpoint; returns the seconds it took."""
        self._saved_step, self._saved_at = step, time.perf_counter()
        if not self._setting.is_chief:
            return 0.0
        state = State(
            step=step,
            train_seconds=train_seconds,
            config_hash=self._setting.config.config_hash(),
            config=self._setting.config,
            numerics=self._setting.numerics,
            summary=self._setting.training_set.summary,
            best=self.validator.best,
            validated_step=self.validator.validated_step,
        )
        began = time.perf_counter()
        path, size = self._setting.checkpoints.save(state, self._arrays(step))
        seconds = time.perf_counter() - began
        problem = self._setting.checkpoints.copy_problem
        if problem:
            self._progress.say(
                f"checkpoint is here but not copied: {problem}; tried again with the next"
            )
        self.write(
            record.Checkpointed(
                time=utc_now(),
                step=step,
                path=str(path),
                seconds=seconds,
                bytes=size,
                copied=None if not self._setting.config.checkpoint.url else problem is None,
            )
        )
        return seconds

    def _arrays(self, step: int) -> dict[str, Any]:
        """All variables, with the average as it will generate; training itself does not see that."""
        arrays = {name: variable.numpy() for name, variable in self._gan.variables().items()}
        if self._gan.average:
            names = [name for name in arrays if name.startswith("average/")]
            arrays |= zip(names, self._generating(step), strict=True)
        return arrays

    def _generating(self, step: int) -> list[Any]:
        """Weights that showers are made with after `step`, in Keras' order."""
        if not (self._gan.average and self._finisher):
            weights: list[Any] = self._gan.generates.get_weights()
            return weights
        if step != self._finished_step:
            self._finished = self._finisher.finish(self._gan.average)
            self._finished_step = step
        return self._finished

    def finish_epoch(
        self,
        session: Session,
        tester: Callable[[], dict[str, dict[str, float]] | None] | None,
        *,
        validates: bool = True,
    ) -> None:
        """Measures the held-back losses, validates where that is due, and writes the epoch's line."""
        if session.step == session.begun_step:
            return
        busy = self._reader_busy(session)
        began = time.perf_counter()
        tested = tester() if tester else None
        validated = self._look(session.step) if validates else None
        seconds = self._owed_seconds + time.perf_counter() - began
        line = self._epoch_line(session, tested, seconds)
        line = line.model_copy(update={"reader_busy": busy})
        self._owed_seconds, self._part = 0.0, None
        self.write(line)
        self._summarise(line, validated)
        self._note(validated, session)

    def validate_owed(self, session: Session) -> bool:
        """Validates what an earlier process saved at the end of an epoch and had no time to look at.

        Returns:
            Whether anything was owed: the same in every worker.
        """
        if not self.validator.is_due(session.step):
            return False
        began = time.perf_counter()
        validated = self._look(session.step)
        self._owed_seconds = time.perf_counter() - began
        self._note(validated, session)
        return True

    def _look(self, step: int) -> Validated | None:
        if not self.validator.is_due(step):
            return None
        return self.validator.look(step, partial(self._generating, step))

    def _note(self, validated: Validated | None, session: Session) -> None:
        """Writes and tells what was found, and saves it: also over a checkpoint that lacks it."""
        if validated is None:
            return
        self.write(validated)
        self._progress.say(self.validator.describe(validated))
        if validated.best or session.step == self._saved_step:
            self.save(session.step, session.train_seconds)

    def failed(self, session: Session, message: str) -> None:
        """Notes why it ended, and the epoch's steps that a checkpoint holds: none repeats them."""
        if self._part and self._part.steps:
            self.write(self._part)
        self.stopped(session, "failed", message)

    def stopped(self, session: Session, reason: Reason, message: str = "") -> None:
        """Notes the end, and tells why where that is no failure."""
        if message and reason != "failed":
            self._progress.say(message)
        self.write(
            record.Stopped(
                time=utc_now(),
                step=session.step,
                reason=reason,
                program_seconds=time.perf_counter() - self._began_seconds,
                train_seconds=session.train_seconds,
                message=message,
                peak_memory_bytes=peak_memory_bytes(),
            )
        )

    def _reader_busy(self, session: Session) -> float | None:
        if not session.epoch_seconds:
            return None
        could = self._setting.numerics.threads * session.epoch_seconds
        return min(1.0, (self._reading.seconds - self._read_before) / could)

    def _epoch_line(self, session: Session, tested: Any, validation_seconds: float) -> record.Epoch:
        order, epoch = self._setting.order, session.begun_epoch
        begin = order.steps_through(epoch - 1) if epoch else 0
        ended = session.step == order.steps_through(epoch)
        steps = session.step - session.begun_step
        return record.Epoch(
            time=utc_now(),
            step=session.step,
            epoch=epoch,
            first=session.begun_cold,
            complete=session.begun_step == begin and ended,
            steps=steps,
            samples=steps * order.global_batch_size,
            carried_samples=order.samples_carried(epoch) if ended else 0,
            dropped_samples=order.samples_dropped_per_epoch if ended else 0,
            train_seconds=session.epoch_seconds,
            trace_seconds=session.trace_seconds,
            validation_seconds=validation_seconds,
            checkpoint_seconds=session.checkpoint_seconds,
            samples_per_second=session.samples_per_second(),
            losses=session.losses(),
            test_losses=tested,
        )

    def _summarise(self, line: record.Epoch, validated: Validated | None) -> None:
        if self._board is None:
            return
        with self._board.as_default(step=line.step):
            for part, table in (("train", line.losses), ("test", line.test_losses or {})):
                for name, terms in table.items():
                    for term, value in terms.items():
                        tf.summary.scalar(f"{part}/{name}/{term}", value)
            for name, value in (validated.numbers if validated else {}).items():
                tf.summary.scalar(f"quality/{name}", value)
            tf.summary.scalar("samples_per_second", line.samples_per_second)
        self._board.flush()
