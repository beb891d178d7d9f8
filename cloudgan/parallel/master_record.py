"""The run's record and progress, written by the master from what the workers report."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.memory import peak_memory_bytes
from cloudgan.parallel.profile import Seconds
from cloudgan.schema import record
from cloudgan.schema.epoch_row import epoch_row
from cloudgan.schema.exchange_line import Exchanged
from cloudgan.schema.liveness import LivenessFile
from cloudgan.schema.losses import PASSES, loss_columns, loss_note, loss_table
from cloudgan.training.tracking import Tracking

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.data.pipeline.epoch_sampler import EpochSampler
    from cloudgan.parallel.layout import Layout
    from cloudgan.parallel.messages import Report, Update
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import Started
    from cloudgan.schema.record_line import StopReason
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.checkpoint import Checkpoint


@dataclass
class RankTotals:
    """What one rank has done since it joined, and until the last epoch's end."""

    rank: int
    worker: int | None
    master: int | None
    seconds: Seconds = field(default_factory=Seconds)
    staleness: Counter[int] = field(default_factory=Counter)
    before: Seconds = field(default_factory=Seconds)

    def line(self, step: int, epoch: int) -> Exchanged:
        """Returns the epoch's line, and begins the next epoch."""
        spent = self.seconds.minus(self.before)
        line = Exchanged(
            time=utc_now(),
            step=step,
            epoch=epoch,
            rank=self.rank,
            worker=self.worker,
            master=self.master,
            updates=self.staleness.total(),
            seconds=asdict(spent),
            staleness={str(number): count for number, count in sorted(self.staleness.items())},
        )
        self.staleness = Counter()
        self.before = Seconds(**asdict(self.seconds))
        return line


class MasterRecord:
    """Counts steps and epochs of all workers, and writes the record of the run.

    Attributes:
        step: Steps of all workers together.
        epoch: Epoch in training, from 0.
        master: Totals of rank 0.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        layout: Layout,
        sampler: EpochSampler,
        progress: Progress,
        *,
        saved: Checkpoint | None,
        start_time: float,
    ) -> None:
        self._config, self._folder, self._sampler = config, folder, sampler
        self._progress, self._start_time = progress, start_time
        self._tracking = Tracking(config, folder, progress.say)
        self.step = saved.state.step if saved else 0
        self._earlier_seconds = saved.state.train_seconds if saved else 0.0
        self._began = time.perf_counter()
        self.epoch = sampler.epoch_of(self.step)
        self.master = RankTotals(0, None, None)
        self._layout = layout
        self._masters: dict[int, RankTotals] = {}
        self._workers: dict[int, RankTotals] = {}
        self._losses: dict[int, np.ndarray] = {}
        self._epoch_losses = np.zeros((len(PASSES), len(loss_columns())))
        self._trace: dict[int, tuple[float, int]] = {}
        self._is_first = True
        self._liveness = LivenessFile(settings.liveness_file())
        self._begin_epoch()

    @property
    def train_seconds(self) -> float:
        """Seconds of training of all processes so far, by the master's clock."""
        return self._earlier_seconds + time.perf_counter() - self._began

    def write(self, line: record.Line) -> None:
        """Appends a line to the run's record, and tracks it."""
        record.append(self._folder.record_file, line)
        self._tracking.write(line)

    def start(self, started: Started, saved: Checkpoint | None) -> None:
        """Records the start of this world, as the first worker described it."""
        update = {
            "time": utc_now(),
            "step": self.step,
            "strategy": self._config.parallel.mode,
            "startup_seconds": time.perf_counter() - self._start_time,
        }
        self.write(started.model_copy(update=update))
        if saved:
            self.write(
                record.Resumed(
                    time=utc_now(),
                    step=saved.state.step,
                    path=str(saved.path),
                    reproducibility_changes=("the order in which workers are answered",),
                )
            )
            self._progress.say(f"resumes after step {self.step} ({saved.path})")
        self._began = self._epoch_began = time.perf_counter()
        self.show_epoch()

    def show_epoch(self) -> None:
        """Shows the progress of the run in the epoch in training, if it has one left."""
        training = self._config.training
        if self.epoch >= training.epochs:
            return
        batch, last = (
            self._sampler.global_batch_size,
            self._sampler.steps_through(training.epochs - 1),
        )
        total, number = min(last, training.max_steps or last) * batch, self.epoch + 1
        limited = training.max_steps or training.max_seconds
        self._progress.start(
            self._folder.path.name,
            None if training.max_seconds else total,
            "showers",
            done=self.step * batch,
            count=f"epoch {number}" if limited else f"{number}/{training.epochs}",
        )

    def report(self, rank: int, report: Report) -> None:
        """Counts what a master below rank 0 has done; its workers are counted by `update`."""
        totals = self._masters.setdefault(rank, RankTotals(rank, None, 0))
        totals.seconds = report.seconds
        totals.staleness += report.staleness

    def update(self, worker: int, update: Update, steps: int, staleness: Counter[int]) -> None:
        """Counts updates of a worker.

        Args:
            worker: Its number.
            update: The last one.
            steps: Since the last update that was counted.
            staleness: Of all updates since then.
        """
        leader = self._layout.roles[self._layout.group_of(worker)[0]]
        totals = self._workers.setdefault(worker, RankTotals(leader.rank, worker, leader.parent))
        totals.seconds = update.seconds
        totals.staleness += staleness
        losses = update.losses.reshape(self._epoch_losses.shape)
        moved = losses - self._losses.get(worker, 0.0)
        self._epoch_losses += moved
        self._losses[worker] = losses
        self._trace.setdefault(worker, (update.trace_seconds, update.trace_steps))
        self.step += steps
        self._liveness.update(self.step, self.epoch)
        if steps:
            showers = steps * self._sampler.global_batch_size
            self._progress.advance(showers, loss_note(moved / steps))

    @property
    def is_epoch_over(self) -> bool:
        """Whether all steps of the epoch in training are done."""
        return self.step >= self._sampler.steps_through(self.epoch)

    def finish_epoch(self) -> None:
        """Writes the lines of the epoch; begins the next one."""
        steps = self.step - self._epoch_step
        if not steps:
            return
        seconds = time.perf_counter() - self._epoch_began
        ended = self.is_epoch_over
        batch = self._sampler.global_batch_size
        traces = list(self._trace.values()) if self._is_first else []
        trace_seconds = min(seconds, max((each for each, _ in traces), default=0.0))
        timed = steps - sum(count for _, count in traces)
        rate = timed * batch / (seconds - trace_seconds) if seconds > trace_seconds else 0.0
        line = record.Epoch(
            time=utc_now(),
            step=self.step,
            epoch=self.epoch,
            first=self._is_first,
            complete=ended and self._is_whole,
            steps=steps,
            samples=steps * batch,
            carried_samples=self._sampler.samples_carried(self.epoch) if ended else 0,
            dropped_samples=self._sampler.samples_dropped_per_epoch if ended else 0,
            train_seconds=seconds,
            trace_seconds=trace_seconds,
            validation_seconds=0.0,
            checkpoint_seconds=self._checkpoint_seconds,
            samples_per_second=max(0.0, rate),
            losses=loss_table(self._epoch_losses / steps),
            held_out_losses=None,
        )
        self.write(line)
        self._progress.say(epoch_row(line))
        below = (self._masters, self._workers)
        for totals in (self.master, *(each[n] for each in below for n in sorted(each))):
            self.write(totals.line(self.step, self.epoch))
        self.epoch = self._sampler.epoch_of(self.step)
        self._is_first = False
        self._begin_epoch()

    def checkpointed(
        self, path: str, seconds: float, size: int, *, step: int, problem: str | None
    ) -> None:
        """Records a checkpoint of the centre."""
        self._checkpoint_seconds += seconds
        if problem:
            self._progress.say(
                f"checkpoint saved locally but not copied: {problem}; retried with the next one"
            )
        copied = None if not self._config.checkpoint.url else problem is None
        self.write(
            record.Checkpointed(
                time=utc_now(), step=step, path=path, seconds=seconds, bytes=size, copied=copied
            )
        )

    def stop(self, reason: StopReason, message: str = "") -> None:
        """Records the end of this world."""
        self._progress.end()
        if message and reason != "failed":
            self._progress.say(message)
        self.write(
            record.Stopped(
                time=utc_now(),
                step=self.step,
                reason=reason,
                program_seconds=time.perf_counter() - self._start_time,
                train_seconds=self.train_seconds,
                message=message,
                peak_memory_bytes=peak_memory_bytes(),
            )
        )

    def _begin_epoch(self) -> None:
        before = self._sampler.steps_through(self.epoch - 1) if self.epoch else 0
        self._epoch_step, self._epoch_began = self.step, time.perf_counter()
        # Updates of several steps may pass an epoch's end by some.
        self._is_whole = self.step - before < self._sampler.most_steps_per_epoch / 2
        self._epoch_losses = np.zeros((len(PASSES), len(loss_columns())))
        self._checkpoint_seconds = 0.0
