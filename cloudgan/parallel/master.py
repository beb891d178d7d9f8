"""The master: keeps the centre, answers workers in order of arrival, and saves. Needs no TensorFlow."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.summary import TrainingSummary
from cloudgan.parallel.centre import AVERAGE, Centre, Point, PointFiles
from cloudgan.parallel.communicator import ANYONE
from cloudgan.parallel.flat_weights import FlatLayout
from cloudgan.parallel.master_record import MasterRecord
from cloudgan.parallel.messages import Answer, Tag, Update, Wanted
from cloudgan.parallel.update_rules import make_rule
from cloudgan.schema.record import Started
from cloudgan.training.outcome import Outcome
from cloudgan.training.quality_history import QualityHistory
from cloudgan.training.stopping import EXIT_CODES, REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.progress import Progress
    from cloudgan.parallel.communicator import Communicator, Message
    from cloudgan.parallel.layout import Layout
    from cloudgan.parallel.update_rules import Floats
    from cloudgan.parallel.validator import Measured, Validator
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.checkpoint import Checkpoint
    from cloudgan.training.stopping import Reason, StopFlag

FIRST_SILENCE_SECONDS = 1800.0
"""A worker traces and compiles before its first update."""

LEAST_SILENCE_SECONDS = 60.0
_SILENT_INTERVALS = 20.0
_LOOK_SECONDS = 0.5


@dataclass
class _Worker:
    """A worker as its master knows it.

    Attributes:
        rank: Of its leader.
        number: Of the worker.
        step: Own steps of the worker.
        clock: Of the centre that it fetched last.
        heard_at: `time.monotonic` of its last message.
        longest: Seconds between two of its updates.
        updates: Received from it.
        is_done: Whether it has ended.
    """

    rank: int
    number: int
    step: int = 0
    clock: int = 0
    heard_at: float = 0.0
    longest: float = 0.0
    updates: int = 0
    is_done: bool = False

    def heard(self) -> None:
        """Notes a message of the worker."""
        now = time.monotonic()
        if self.updates > 1:
            self.longest = max(self.longest, now - self.heard_at)
        self.heard_at = now

    def is_silent(self, now: float) -> bool:
        """Whether the worker has frozen: twenty times its longest interval without a message."""
        limit = max(LEAST_SILENCE_SECONDS, _SILENT_INTERVALS * self.longest)
        return now - self.heard_at > (limit if self.updates > 1 else FIRST_SILENCE_SECONDS)


class Master:
    """Serves the workers of a world until all have ended.

    Attributes:
        updates: Received from all workers.
        waiting_cpu: CPU seconds while it waited for messages.
        service_cpu: CPU seconds of what it did with them.
    """

    def __init__(
        self,
        world: Communicator,
        layout: Layout,
        config: RunConfig,
        folder: RunFolder,
        *,
        flag: StopFlag,
        progress: Progress,
        start_time: float,
        resumed: tuple[Checkpoint, dict[str, Floats]] | None,
        validator: Validator | None,
    ) -> None:
        """Prepares the master.

        Args:
            world: All ranks.
            layout: Of the world.
            config: Of the run.
            folder: Of the run.
            flag: Stop requests.
            progress: Shows the progress of all workers together.
            start_time: `time.perf_counter()` at the start of the program.
            resumed: The point from which all ranks resume, and the arrays of the rule; None: a new run.
            validator: Validates the centre after epochs; None: never.
        """
        self._world, self._config, self._folder = world, config, folder
        self._flag, self._progress, self._start_time = flag, progress, start_time
        self._resumed, self._validator = resumed, validator
        self._workers = {
            rank: _Worker(rank, layout.roles[rank].worker or 0) for rank in layout.children(0)
        }
        self._first = layout.group_of(0)[0]
        self._layout = layout
        self._held: list[_Worker] = []
        self._point: Point | None = None
        self._due: int | None = None
        self._looked_at = 0.0
        self._saved_at = time.perf_counter()
        saved = resumed[0].state if resumed else None
        self._saved_step = saved.step if saved else -1
        self.updates = 0
        self.waiting_cpu = self.service_cpu = 0.0
        self._quality = QualityHistory(config.training, saved)
        self._stop: Reason | None = self._quality.stop
        self._received = np.empty(0, np.float32)

    def run(self) -> Outcome:
        """Serves until all workers have ended, and saves the centre.

        Raises:
            CloudganError: A worker froze, or a checkpoint could not be written.
        """
        self._start()
        try:
            self._serve()
            self._end()
        except CloudganError as error:
            self._record.stop("failed", str(error))
            raise
        reason = self._reason()
        message = "" if reason in EXIT_CODES else self._quality_message()
        self._record.stop(reason, message)
        for worker in self._workers.values():
            self._send(worker, Answer(Wanted.END))
        return Outcome(
            reason,
            self._record.step,
            self._record.epoch,
            self._record.train_seconds,
            self._files.path_of(self._record.step),
            self._quality.best,
        )

    def _start(self) -> None:
        """Receives what the workers join with; answers each with the centre."""
        self._progress.start("starting the workers")
        joined = {rank: self._join(rank) for rank in self._workers}
        first = joined[self._first]
        flat = FlatLayout.from_json(first["flat"])
        started = Started.model_validate_json(first["started"])
        summary = TrainingSummary.model_validate_json(first["summary"])
        self._recalibrates = bool(first["recalibrates"])
        template = self._resumed[0].arrays if self._resumed else self._receive_arrays()
        self._flat = flat
        self._rule = make_rule(
            self._config.parallel,
            workers=len(self._workers),
            trainable=flat.trainable_size,
            learning_rate=started.learning_rate,
        )
        self._centre = self._make_centre(flat, template)
        self._received = np.empty(flat.size, np.float32)
        self._files = PointFiles(
            self._config,
            self._folder,
            flat,
            template,
            numerics=started.numerics,
            summary=summary,
        )
        sampler = EpochSampler(
            (started.training_showers,),
            seed=self._config.training.seed,
            global_batch_size=started.numerics.global_batch_size,
            last_batch=self._config.data.last_batch,
        )
        saved = self._resumed[0] if self._resumed else None
        self._record = MasterRecord(
            self._config,
            self._folder,
            sampler,
            self._progress,
            saved=saved,
            start_time=self._start_time,
        )
        self._record.start(started, saved)
        if not self._resumed:
            point = Point.of(self._centre, self._rule, 0, None)
            point.worker_steps = {worker.number: 0 for worker in self._workers.values()}
            self._save(point)
        self._resumed = None
        for worker in self._workers.values():
            worker.heard_at = time.monotonic()
            self._world.send(self._centre.weights, worker.rank, Tag.CENTRE)

    def _join(self, rank: int) -> dict[str, Any]:
        message = self._world.wait(rank, Tag.JOIN, meanwhile=self._look)
        found: dict[str, Any] = self._world.receive_json(message)
        worker = self._workers[rank]
        worker.step = int(found["step"])
        expected = self._resumed[0].state.worker_steps[worker.number] if self._resumed else 0
        if worker.step != expected:
            raise TryAgain(
                f"rank {rank} resumes after its step {worker.step}, and the checkpoint of the run has"
                f" step {expected} of it; start all ranks again"
            )
        return found

    def _receive_arrays(self) -> dict[str, Any]:
        message = self._world.wait(self._first, Tag.ARRAYS)
        packed = np.empty(message.bytes, np.uint8)
        self._world.receive(packed, message.source, message.tag)
        with np.load(io.BytesIO(packed.tobytes()), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def _make_centre(self, flat: FlatLayout, template: Mapping[str, Any]) -> Centre:
        weights = np.empty(flat.size, np.float32)
        flat.pack((template[name] for name in flat.names), weights)
        decay = self._config.model.ema_decay
        average = weights.copy() if decay else None
        if self._resumed:
            state = self._resumed[1]
            if decay:
                average = np.array(state.pop(AVERAGE), np.float32)
            self._rule.restore(state)
        return Centre(flat, weights, average, decay=decay)

    def _serve(self) -> None:
        seconds = self._record.master.seconds
        while any(not worker.is_done for worker in self._workers.values()):
            began, cpu = time.perf_counter(), time.thread_time()
            message = self._world.wait(meanwhile=self._look)
            arrived, cpu_arrived = time.perf_counter(), time.thread_time()
            seconds.wait += arrived - began
            self.waiting_cpu += cpu_arrived - cpu
            self._handle(message)
            seconds.update += time.perf_counter() - arrived
            self.service_cpu += time.thread_time() - cpu_arrived
            self._after_message()

    def _handle(self, message: Message) -> None:
        worker = self._workers[message.source]
        worker.heard()
        values = np.empty(message.bytes // (4 if message.tag == Tag.RECALIBRATED else 8))
        if message.tag == Tag.RECALIBRATED:
            self._recalibrated(message, values.size)
            return
        self._world.receive(values, message.source, message.tag)
        if message.tag == Tag.FETCH:
            worker.clock = self._centre.clock
            self._answer(worker)
        elif message.tag == Tag.UPDATE:
            self._update(worker, Update.from_array(values))
        elif message.tag == Tag.SAVED and self._point:
            self._point.worker_steps[worker.number] = int(values[0])
        elif message.tag == Tag.DONE:
            self._done(worker, int(values[0]), REASONS[int(values[1])])

    def _update(self, worker: _Worker, update: Update) -> None:
        self._world.receive(self._received, worker.rank, Tag.WEIGHTS)
        worker.updates += 1
        self.updates += 1
        steps, worker.step = update.step - worker.step, update.step
        staleness = self._centre.clock - worker.clock
        self._flag.stepped = True
        self._record.update(worker.number, worker.rank, update, steps, staleness)
        if not (np.isfinite(update.losses).all()):
            raise CloudganError(
                f"a loss of worker {worker.number} is NaN or infinite up to its step {worker.step};"
                " the last checkpoint is older. Rerun with a smaller model.learning_rate or fewer"
                " workers"
            )
        if self._rule.answers_first:
            self._answer(worker)
        self._centre.move(self._rule, self._received, staleness, steps)
        worker.clock = self._centre.clock
        if not (self._rule.answers_first or self._rule.fetches_first):
            self._held.append(worker)
            self._answer_held()

    def _answer_held(self) -> None:
        """Answers the workers that wait, unless a synchronous rule waits for more updates."""
        if self._rule.pending:
            return
        for worker in self._held:
            worker.clock = self._centre.clock
            self._answer(worker)
        self._held.clear()

    def _answer(self, worker: _Worker) -> None:
        wanted, point = self._wanted(worker), self._point
        if self._stop:
            wanted |= Wanted.STOP
        reason = REASONS.index(self._stop) if self._stop else 0
        self._send(worker, Answer(wanted, reason))
        self._world.send(self._centre.weights, worker.rank, Tag.CENTRE)
        if wanted & Wanted.RECALIBRATE and point and point.average is not None:
            self._world.send(point.average, worker.rank, Tag.CENTRE)

    def _wanted(self, worker: _Worker) -> Wanted:
        """Returns what the open point needs of a worker that trains; asks each worker once."""
        if not self._point or worker.number in self._point.asked:
            return Wanted.NOTHING
        self._point.asked.add(worker.number)
        if worker.rank == self._first and self._recalibrates:
            return Wanted.SAVE | Wanted.RECALIBRATE
        return Wanted.SAVE

    def _send(self, worker: _Worker, answer: Answer) -> None:
        self._world.send(answer.as_array(), worker.rank, Tag.ANSWER)

    def _done(self, worker: _Worker, step: int, reason: Reason) -> None:
        worker.is_done, worker.step = True, step
        if reason in EXIT_CODES:
            self._stop = self._stop or reason
        self._rule.worker_ended(self._centre.weights)
        self._answer_held()

    def _recalibrated(self, message: Message, size: int) -> None:
        weights = np.empty(size, np.float32)
        self._world.receive(weights, message.source, message.tag)
        if self._point:
            self._point.inference = weights

    def _after_message(self) -> None:
        """Ends epochs, opens a point if one is due, and writes it when it is complete."""
        record = self._record
        if record.is_epoch_over and record.step:
            epoch = record.epoch
            record.finish_epoch()
            record.show_epoch()
            every = self._config.training.validates_every
            if self._validator and record.epoch // every > epoch // every:
                self._due = record.epoch - 1
        if not self._point and (self._due is not None or self._is_save_due()):
            self._open_point()
        self._close_point()

    def _is_save_due(self) -> bool:
        wanted = self._config.checkpoint
        steps = self._record.step - max(0, self._saved_step)
        if not steps:
            return False
        if wanted.every_steps and steps >= wanted.every_steps:
            return True
        return time.perf_counter() - self._saved_at >= wanted.every_seconds

    def _open_point(self) -> None:
        """Opens a point, with the validation that is due."""
        self._point = Point.of(self._centre, self._rule, self._record.step, self._due)
        self._due = None
        self._saved_step, self._saved_at = self._record.step, time.perf_counter()

    def _close_point(self) -> None:
        """Writes the open point if all workers have saved and its validation is known."""
        point = self._point
        if point is None:
            return
        for worker in self._workers.values():
            if worker.is_done:
                point.worker_steps[worker.number] = worker.step
                if worker.number not in point.asked:
                    point.asked.add(worker.number)
                    self._ask_ended(worker, point)
        if len(point.worker_steps) < len(self._workers):
            return
        if self._recalibrates and point.inference is None:
            return
        if point.epoch is not None and self._validator:
            found = self._validator.result(
                point.step, point.epoch, self._files.inference_weights(point)
            )
            if found is None:
                return
            self._validated(found)
        self._point = None
        self._save(point)
        if self._due is not None:  # its epoch ended while this point was open
            self._open_point()

    def _ask_ended(self, worker: _Worker, point: Point) -> None:
        if worker.rank == self._first and self._recalibrates and point.average is not None:
            self._send(worker, Answer(Wanted.RECALIBRATE))
            self._world.send(point.average, worker.rank, Tag.CENTRE)

    def _validated(self, found: Measured) -> None:
        line = self._quality.add(
            found.checkpoint,
            showers=found.showers,
            seconds=found.seconds,
            program_seconds=found.program_seconds,
        )
        self._record.master.seconds.validate += line.seconds
        self._record.write(line)
        self._progress.say(self._quality.describe(line))
        self._stop = self._stop or self._quality.stop

    def _save(self, point: Point) -> None:
        began = time.perf_counter()
        path, size = self._files.save(
            point,
            train_seconds=self._record.train_seconds,
            quality=self._quality.state(),
        )
        seconds = time.perf_counter() - began
        problem = self._files.copy_problem
        self._record.checkpointed(str(path), seconds, size, step=point.step, problem=problem)

    def _end(self) -> None:
        """Saves the centre after the last update."""
        self._record.finish_epoch()
        while self._point:
            self._wait_for_point()
        if self._record.step == self._saved_step:
            return
        self._open_point()
        while self._point:
            self._wait_for_point()

    def _wait_for_point(self) -> None:
        """Receives what the open point waits for."""
        self._close_point()
        if not self._point:
            return
        message = self._world.poll(ANYONE, ANYONE)
        if message:
            self._handle(message)
        else:
            self._look()
            time.sleep(0.01)
        self._close_point()

    def _look(self) -> None:
        """Called while the master waits: signals, limits, and workers that froze."""
        if self._flag.reason:
            self._stop = self._stop or self._flag.reason
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        for worker in self._workers.values():
            if worker.heard_at and not worker.is_done and worker.is_silent(now):
                raise TryAgain(
                    f"worker {worker.number} (rank {worker.rank}) has sent nothing for"
                    f" {now - worker.heard_at:.0f} s and may be frozen; start all ranks again to resume"
                    " from the last checkpoint"
                )
        record = getattr(self, "_record", None)
        if record is None:
            return
        if self._point and self._validator:
            self._close_point()
        limit = self._config.training.max_seconds
        if limit is not None and record.train_seconds >= limit:
            self._stop = self._stop or "max_seconds"

    def _reason(self) -> Reason:
        if self._stop:
            return self._stop
        limit = self._config.training.max_steps
        return "max_steps" if limit and self._record.step >= limit else "finished"

    def _quality_message(self) -> str:
        return self._quality.stop_message() if self._validator else ""
