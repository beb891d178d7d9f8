"""What the chief writes down: record lines, checkpoints, TensorBoard. Other workers write nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cloudgan.core import record
from cloudgan.core.clock import utc_now
from cloudgan.core.memory import peak_memory_bytes
from cloudgan.training.checkpoint import State

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.data.reading_time import ReadingTime
    from cloudgan.training.finishing import Finisher
    from cloudgan.training.gan import Gan
    from cloudgan.training.session import Session
    from cloudgan.training.setting import Setting
    from cloudgan.training.stopping import Reason


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
        began_seconds: float,
    ) -> None:
        self._reading, self._read_before = reading, 0.0
        self._setting, self._gan, self._progress = setting, gan, progress
        self._finisher = finisher
        self._began_seconds = began_seconds
        self._saved_step = setting.saved[1].step if setting.saved else -1
        self._saved_at = time.perf_counter()
        self._board = None
        if setting.config.training.tensorboard and setting.is_chief:
            self._board = tf.summary.create_file_writer(str(setting.folder.path / "tensorboard"))

    def write(self, line: record.Line) -> None:
        """Appends a line to the record."""
        if self._setting.is_chief:
            record.append(self._setting.folder.record_file, line)

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

    def resumed(self, path: Path, state: State) -> None:
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
        )
        began = time.perf_counter()
        path, size = self._setting.checkpoints.save(state, self._arrays())
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

    def _arrays(self) -> dict[str, Any]:
        """All variables, with the average as it will generate; training itself does not see that."""
        arrays = {name: variable.numpy() for name, variable in self._gan.variables().items()}
        if self._gan.average and self._finisher:
            names = [name for name in arrays if name.startswith("average/")]
            arrays |= zip(names, self._finisher.finish(self._gan.average), strict=True)
        return arrays

    def finish_epoch(
        self, session: Session, tester: Callable[[], dict[str, dict[str, float]] | None] | None
    ) -> None:
        """Measures the held-back losses and writes the epoch's line; begins the next."""
        if session.step == session.begun_step:
            return
        busy = self._reader_busy(session)
        began = time.perf_counter()
        tested = tester() if tester else None
        line = self._epoch_line(session, tested, time.perf_counter() - began)
        line = line.model_copy(update={"reader_busy": busy})
        self.write(line)
        self._summarise(line)
        if tester and session.epoch < self._setting.config.training.epochs:
            self.begin(session)

    def stopped(self, session: Session, reason: Reason, message: str = "") -> None:
        """Notes the end."""
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

    def _summarise(self, line: record.Epoch) -> None:
        if self._board is None:
            return
        with self._board.as_default(step=line.step):
            for part, table in (("train", line.losses), ("test", line.test_losses or {})):
                for name, terms in table.items():
                    for term, value in terms.items():
                        tf.summary.scalar(f"{part}/{name}/{term}", value)
            tf.summary.scalar("samples_per_second", line.samples_per_second)
        self._board.flush()
