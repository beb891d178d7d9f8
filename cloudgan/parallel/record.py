"""The run's record and progress, written by rank 0 from what the workers report."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field

import numpy as np

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.progress import Progress
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.parallel.messages import Report, Update
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.trace import Seconds
from cloudgan.schema import record
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.losses import PASSES, loss_columns, loss_note, loss_table
from cloudgan.schema.record import Started
from cloudgan.schema.record_line import Exchanged, StopReason
from cloudgan.training.record import Recorder


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
        now, before = asdict(self.seconds), asdict(self.before)
        line = Exchanged(
            time=utc_now(),
            step=step,
            epoch=epoch,
            rank=self.rank,
            worker=self.worker,
            master=self.master,
            updates=self.staleness.total(),
            seconds={name: max(0.0, now[name] - before[name]) for name in now},
            staleness={str(number): count for number, count in sorted(self.staleness.items())},
        )
        self.staleness.clear()
        self.before = Seconds(**now)
        return line


class RunRecord:
    """Counts steps and epochs of all workers, and writes the record of the run."""

    def __init__(
        self,
        rank: Rank,
        sampler: EpochSampler,
        progress: Progress,
        *,
        ages: Counter[int],
        start_time: float,
    ) -> None:
        config, saved = rank.config, rank.point[0] if rank.point else None
        self._config, self._sampler, self._progress = config, sampler, progress
        self._saved = saved
        # The machine's energy is not that of all ranks.
        self._recorder = Recorder(
            config, rank.folder, sampler, progress, start_time=start_time, counts_energy=False
        )
        self.step = saved.state.step if saved else 0
        self._earlier_seconds = saved.state.train_seconds if saved else 0.0
        self._began = time.perf_counter()
        self.epoch = sampler.epoch_of(self.step)
        self._master = RankTotals(0, None, None, rank.profile.seconds, ages)
        self._layout = rank.layout
        self._masters: dict[int, RankTotals] = {}
        self._workers: dict[int, RankTotals] = {}
        self._losses: dict[int, np.ndarray] = {}
        self._epoch_losses = np.zeros((len(PASSES), len(loss_columns())))
        self._trace: dict[int, tuple[float, int]] = {}
        self._is_first = True
        self._peak_memory_bytes = 0
        self._liveness = LivenessFile(settings.liveness_file())
        self._begin_epoch()

    @property
    def train_seconds(self) -> float:
        """Seconds of training of all processes so far, by the master's clock."""
        return self._earlier_seconds + time.perf_counter() - self._began

    def write(self, line: record.Line) -> None:
        """Appends a line to the run's record, and tracks it."""
        self._recorder.write(line)

    def start(self, started: Started) -> None:
        """Records the start of this world, as the first worker described it."""
        update = {"time": utc_now(), "step": self.step, "strategy": self._config.parallel.mode}
        changes = ("the order in which workers are answered",)
        self._recorder.start(started.model_copy(update=update), self._saved, changes)
        self._began = self._epoch_began = time.perf_counter()
        self.show_epoch()

    @property
    def last_step(self) -> int:
        """Steps that the workers of the whole run train together."""
        training = self._config.training
        last = self._sampler.steps_through(training.epochs - 1)
        return min(last, training.max_steps or last)

    def show_epoch(self) -> None:
        """Shows the progress of the run in the epoch in training, if it has one left."""
        self._recorder.show_epoch(self.step, self.last_step)

    def epoch_to_validate(self) -> int | None:
        """Returns the epoch that ends with the last step of the run, if it is one of those to validate."""
        return self._sampler.epoch_to_validate(
            self.last_step, self._config.training.validates_every
        )

    def validated(self, line: record.Validated) -> None:
        """Records and shows a validation."""
        self._recorder.write(line)
        self._recorder.show_validation(line)

    def report(self, rank: int, report: Report) -> None:
        """Counts what a master below rank 0 has done; its workers are counted by `update`."""
        totals = self._masters.setdefault(rank, RankTotals(rank, None, 0))
        totals.seconds = report.seconds
        totals.staleness += report.staleness

    def update(self, worker: int, update: Update, steps: int, staleness: Counter[int]) -> None:
        """Counts updates of a worker, see `master.Above.count`."""
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
        self._peak_memory_bytes = max(self._peak_memory_bytes, update.peak_memory_bytes)
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
        batch = self._sampler.global_batch_size
        traces = list(self._trace.values()) if self._is_first else []
        trace_seconds = min(seconds, max((each for each, _ in traces), default=0.0))
        timed = steps - sum(count for _, count in traces)
        rate = timed * batch / (seconds - trace_seconds) if seconds > trace_seconds else 0.0
        line = self._recorder.epoch_line(
            self.step,
            self.epoch,
            steps,
            is_whole=self._is_whole,
            first=self._is_first,
            train_seconds=seconds,
            trace_seconds=trace_seconds,
            validation_seconds=0.0,
            checkpoint_seconds=self._checkpoint_seconds,
            samples_per_second=max(0.0, rate),
            losses=loss_table(self._epoch_losses / steps),
            held_out_losses=None,
        )
        self._recorder.finish_epoch(line)
        below = (self._masters, self._workers)
        for totals in (self._master, *(each[n] for each in below for n in sorted(each))):
            self.write(totals.line(self.step, self.epoch))
        self.epoch = self._sampler.epoch_of(self.step)
        self._is_first = False
        self._begin_epoch()

    def checkpointed(
        self, path: str, seconds: float, size: int, *, step: int, problem: str | None
    ) -> None:
        """Records a checkpoint of the centre."""
        self._checkpoint_seconds += seconds
        line = record.Checkpointed(
            time=utc_now(), step=step, path=path, seconds=seconds, bytes=size
        )
        self._recorder.checkpointed(line, problem)

    def stop(self, reason: StopReason, message: str = "") -> None:
        """Records the end of this world."""
        peak = self._peak_memory_bytes
        self._recorder.stop(self.step, reason, self.train_seconds, message, peak_elsewhere=peak)

    def _begin_epoch(self) -> None:
        before = self._sampler.steps_through(self.epoch - 1) if self.epoch else 0
        self._epoch_step, self._epoch_began = self.step, time.perf_counter()
        # Updates of several steps may pass an epoch's end by some.
        self._is_whole = self.step - before < self._sampler.most_steps_per_epoch / 2
        self._epoch_losses = np.zeros((len(PASSES), len(loss_columns())))
        self._checkpoint_seconds = 0.0
