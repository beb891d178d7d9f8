"""The master at rank 0: keeps the centre, the record and the checkpoints of the run. Needs no TensorFlow."""

from __future__ import annotations

import io
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.errors import CloudganError
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.summary import TrainingSummary
from cloudgan.parallel.centre import AVERAGE, Centre, Point, PointFiles
from cloudgan.parallel.flat_weights import FlatLayout
from cloudgan.parallel.master_record import MasterRecord
from cloudgan.parallel.messages import Report, Tag
from cloudgan.parallel.serving import Serving
from cloudgan.parallel.update_rules import make_rule, make_rule_of_masters
from cloudgan.schema.epoch_row import quality_note
from cloudgan.schema.record import Started
from cloudgan.training.outcome import Outcome
from cloudgan.training.quality_history import QualityHistory
from cloudgan.training.stopping import EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.parallel.communicator import Communicator, Message
    from cloudgan.parallel.layout import Layout
    from cloudgan.parallel.messages import Update
    from cloudgan.parallel.profile import Profile
    from cloudgan.parallel.update_rules import Floats
    from cloudgan.parallel.validator import Measured, Validator
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record_line import StopReason
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.checkpoint import Checkpoint
    from cloudgan.training.stopping import StopFlag


class Master(Serving):
    """Serves the workers of a world, or the masters below rank 0, until all have ended."""

    def __init__(
        self,
        world: Communicator,
        layout: Layout,
        config: RunConfig,
        folder: RunFolder,
        *,
        flag: StopFlag,
        profile: Profile,
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
            profile: Of this rank.
            progress: Shows the progress of all workers together.
            start_time: `time.perf_counter()` at the start of the program.
            resumed: The point from which all ranks resume, and the arrays of the rule; None: a new run.
            validator: Validates the centre after epochs; None: never.
        """
        saved = resumed[0].state if resumed else None
        super().__init__(
            world, layout, flag, profile, worker_steps=saved.worker_steps if saved else None
        )
        self._config, self._folder = config, folder
        self._progress, self._start_time = progress, start_time
        self._resumed, self._validator = resumed, validator
        self._due: int | None = None
        self._saved_at = time.perf_counter()
        self._saved_step = saved.step if saved else -1
        self._quality = QualityHistory(config.training, saved)
        self._stop = self._quality.stop

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
        self._end_children()
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
        joined = {rank: self._join(rank) for rank in self._children}
        first = joined[self._first]
        flat = FlatLayout.from_json(first["flat"])
        started = Started.model_validate_json(first["started"])
        summary = TrainingSummary.model_validate_json(first["summary"])
        self._recalibrates = bool(first["recalibrates"])
        template = self._resumed[0].arrays if self._resumed else self._receive_arrays()
        make = make_rule_of_masters if self._layout.has_top else make_rule
        self._rule = make(
            self._config.parallel,
            workers=len(self._children),
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
            self._layout,
            sampler,
            self._progress,
            saved=saved,
            start_time=self._start_time,
        )
        self._record.master.seconds = self._profile.seconds
        self._record.start(started, saved)
        if not self._resumed:
            point = Point.of(self._centre, self._rule, 0, None)
            for child in self._children.values():
                point.save(child, [0] * (len(child.workers) + self._layout.has_top))
            point.asked |= self._children.keys()
            self._point = point
            self._close_point()
        self._resumed = None
        self._send_centre()

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

    def _counted(self, number: int, update: Update, staleness: int) -> int:
        steps = self._steps_since(number, update)
        self._record.master.staleness[staleness] += 1
        self._record.update(number, update, steps, Counter({staleness: 1}))
        return steps

    def _handle(self, message: Message) -> None:
        if message.tag != Tag.REPORT:
            super()._handle(message)
            return
        child = self._children[message.source]
        child.heard()
        report = Report.from_json(self._world.receive_json(message))
        steps = 0
        for number, each in report.workers.items():
            more = self._steps_since(number, each.update)
            self._record.update(number, each.update, more, each.staleness)
            steps += more
        self._record.report(child.rank, report)
        self._record.master.staleness[self._centre.clock - child.clock] += 1
        self._update(child, steps)

    def _moved(self) -> None:
        """Ends epochs, and opens a point if one is due.

        Not within a synchronous round, and before the workers of a round are answered: they save when they
        have the answer, with the weights of the point.
        """
        record = self._record
        if record.is_epoch_over and record.step:
            epoch = record.epoch
            record.finish_epoch()
            record.show_epoch()
            every = self._config.training.validates_every
            if self._validator and record.epoch // every > epoch // every:
                self._due = record.epoch - 1
        is_due = self._due is not None or self._is_save_due()
        if is_due and not self._point and not self._rule.pending:
            self._open_point()

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
        self._point.recalibrates = self._recalibrates
        self._due = None
        self._saved_step, self._saved_at = self._record.step, time.perf_counter()

    def _close_point(self) -> None:
        """Writes the open point if all workers have saved and its validation is known; closes it when copied."""
        point = self._point
        if point is None or not self._is_saved(point):
            return
        if point.written is None:
            if point.epoch is not None and self._validator:
                found = self._validator.result(
                    point.step, point.epoch, self._files.inference_weights(point)
                )
                if found is None:
                    return
                self._validated(found)
            point.written = self._write(point)
        if not self._files.are_copied():
            return
        self._point = None
        path, size, seconds = point.written
        problem = self._files.copy_problem
        self._record.checkpointed(str(path), seconds, size, step=point.step, problem=problem)

    def _validated(self, found: Measured) -> None:
        line = self._quality.add(
            found.checkpoint,
            showers=found.showers,
            seconds=found.seconds,
            program_seconds=found.program_seconds,
        )
        ended = self._start_time + line.program_seconds
        self._profile.spent("validate", ended - line.seconds, ended, is_beside=True)
        self._record.write(line)
        self._progress.say(f"epoch {line.epoch + 1:>2}  {quality_note(line)}")
        self._stop = self._stop or self._quality.stop

    def _write(self, point: Point) -> tuple[Path, int, float]:
        began = time.perf_counter()
        path, size = self._files.save(
            point,
            train_seconds=self._record.train_seconds,
            quality=self._quality.state(),
        )
        ended = time.perf_counter()
        self._profile.spent("save", began, ended)
        return path, size, ended - began

    def _end(self) -> None:
        """Saves the centre after the last update."""
        self._record.finish_epoch()
        self._wait_for_point()
        if self._record.step == self._saved_step and self._due is None:
            return
        self._open_point()
        self._wait_for_point()

    def _check(self, now: float) -> None:
        """Closes a point that is validated and copied, and looks at the limit of time, too."""
        super()._check(now)
        record = getattr(self, "_record", None)
        if record is None:
            return
        self._close_point()
        limit = self._config.training.max_seconds
        if limit is not None and record.train_seconds >= limit:
            self._stop = self._stop or "max_seconds"

    def _reason(self) -> StopReason:
        if self._stop:
            return self._stop
        limit = self._config.training.max_steps
        # The centre of a run that was resumed lacks steps that its workers have trained.
        trained = sum(self._worker_steps.values())
        return "max_steps" if limit and trained >= limit else "finished"

    def _quality_message(self) -> str:
        return self._quality.stop_message() if self._validator else ""
