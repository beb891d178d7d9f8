"""What rank 0 keeps of a run with ranks: its record, its checkpoints, and the validations of its centre.

The centre of a complete point is written as the run's ordinary checkpoint, with the steps of each
worker, so that a run resumes where all ranks can. A thread validates the centre meanwhile.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Progress
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.parallel.centre import Centre, Point, generator_arrays
from cloudgan.parallel.master import Above, Master
from cloudgan.parallel.messages import Described, Report, Update
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.record import RunRecord
from cloudgan.parallel.update_rules import make_rule, make_rule_of_masters
from cloudgan.schema.record_line import StopReason
from cloudgan.schema.stop_criterion import BestCheckpoint
from cloudgan.training.checkpoint import Checkpoints, State
from cloudgan.training.quality import QualityHistory
from cloudgan.training.stopping import EXIT_CODES, Outcome

_AVERAGED = "ema_generator/"
_AVERAGE = "average"
"""The centre's average, without fitted statistics, among the arrays of the update rule."""

Measure = Callable[[Sequence[Any]], tuple[dict[str, float], int]]
"""From the weights of a generator, in Keras order, to its metrics and the number of showers."""


class RunKeeper(Above):
    """The run, above the master of rank 0."""

    def __init__(
        self,
        rank: Rank,
        progress: Progress,
        *,
        start_time: float,
        validator: Callable[[], Measure] | None,
    ) -> None:
        """`start_time` is `time.perf_counter()` at the start of the program.

        `validator` imports TensorFlow and opens the data at the first validation; None: none.
        """
        self._rank, self._config, self._progress = rank, rank.config, progress
        self._start_time, self._validator = start_time, validator
        self._saved = rank.point[0] if rank.point else None
        self._quality = QualityHistory(
            rank.config.training, self._saved.state if self._saved else None
        )
        self._measure: Measure | None = None
        self._validation: Future[tuple[dict[str, float], int, float, float]] | None = None
        self._thread = ThreadPoolExecutor(1, "validation")
        self._due: int | None = None
        self._saved_at = time.perf_counter()
        self._saved_step = self._saved.state.step if self._saved else -1
        progress.start("starting the workers")

    def begin(self, master: Master, described: Described) -> None:
        """Begins with the centre of the point; a new run with the weights that the first worker sends, as a point."""
        config, flat, rank = self._config, described.flat, self._rank
        self._described = described
        if self._saved:
            self._template = dict(self._saved.arrays)
        else:
            with np.load(io.BytesIO(master.receive_arrays().tobytes())) as archive:
                self._template = {name: archive[name] for name in archive.files}
        self._averaged = sorted(n for n in self._template if n.startswith(_AVERAGED))
        make = make_rule_of_masters if rank.layout.has_top else make_rule
        rule = make(
            config.parallel,
            workers=len(master.child_ranks),
            trainable=flat.leading_size,
            learning_rate=described.started.learning_rate,
        )
        weights = np.empty(flat.size, np.float32)
        flat.pack((self._template[name] for name in flat.names), weights)
        decay = config.model.ema_decay
        average = weights.copy() if decay else None
        if rank.point:
            state = dict(rank.point[1])
            if decay:
                average = np.array(state.pop(_AVERAGE), np.float32)
            rule.restore(state)
        copier = ThreadPoolExecutor(1, "copy")  # of the rule first: the run's has all that it needs
        self._checkpoints = Checkpoints.of_run(config, rank.folder, copier=copier)
        self._rules = rank.checkpoints(copier)
        sampler = EpochSampler(
            (described.started.training_showers,),
            seed=config.training.seed,
            global_batch_size=described.started.numerics.global_batch_size,
            last_batch=config.data.last_batch,
        )
        self._record = RunRecord(
            rank, sampler, self._progress, ages=master.ages, start_time=self._start_time
        )
        self._record.start(described.started)
        master.stop = self._quality.stop or master.stop
        master.centre = Centre(weights, flat.leading_size, average, decay=decay)
        master.rule = rule
        if not self._saved:
            master.open_saved_point(Point.of(master.centre, master.rule, 0))

    def count(self, number: int, update: Update, steps: int, staleness: Counter[int]) -> None:
        """Counts updates of a worker."""
        self._record.update(number, update, steps, staleness)

    def count_master(self, rank: int, report: Report) -> None:
        """Counts what a master below has done."""
        self._record.report(rank, report)

    def moved(self, master: Master) -> None:
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
        if is_due and not master.point and not master.rule.pending:
            self._open_point(master)

    def write(self, master: Master, point: Point) -> bool:
        """Validates a point if that is due, writes it, and records it once it is copied."""
        if point.written is None:
            if point.epoch is not None and not self._is_validated(master, point):
                return False
            point.written = self._save(point)
        if not (self._rules.is_copied() and self._checkpoints.is_copied()):
            return False
        path, size, seconds = point.written
        problem = self._rules.copy_problem or self._checkpoints.copy_problem
        self._record.checkpointed(str(path), seconds, size, step=point.step, problem=problem)
        return True

    def check(self, master: Master) -> None:
        """Closes a point that is validated and copied, and looks at the limit of time while steps are left."""
        master.close_point()
        limit = self._config.training.max_seconds
        is_late = limit is not None and self._record.train_seconds >= limit
        if is_late and sum(master.worker_steps.values()) < self._record.last_step:
            master.stop = master.stop or "max_seconds"

    def end(self, master: Master) -> Outcome:
        """Saves the centre after the last update, and records the end."""
        record = self._record
        record.finish_epoch()
        master.wait_for_point()
        is_unseen = self._validator and record.step > self._quality.validated_step
        if is_unseen and self._due is None and self._reason(master) in {"finished", "max_steps"}:
            # The centre of a run that was resumed may end its last epoch some steps early.
            self._due = record.epoch_to_validate()
        if record.step != self._saved_step or self._due is not None:
            self._open_point(master)
            master.wait_for_point()
        reason = self._reason(master)
        is_told = self._validator and reason not in EXIT_CODES
        record.stop(reason, self._quality.stop_message() if is_told else "")
        return Outcome(
            reason=reason,
            step=record.step,
            epoch=record.epoch,
            train_seconds=record.train_seconds,
            checkpoint=self._checkpoints.path_of(record.step),
            best=self._quality.best,
        )

    def failed(self, error: CloudganError) -> None:
        """Records why the run fails."""
        self._record.stop("failed", str(error))

    def _reason(self, master: Master) -> StopReason:
        if master.stop:
            return master.stop
        limit = self._config.training.max_steps
        # The centre of a run that was resumed lacks steps that its workers have trained.
        trained = sum(master.worker_steps.values())
        return "max_steps" if limit and trained >= limit else "finished"

    def _is_save_due(self) -> bool:
        wanted = self._config.checkpoint
        steps = self._record.step - max(0, self._saved_step)
        if not steps:
            return False
        if wanted.every_steps and steps >= wanted.every_steps:
            return True
        return time.perf_counter() - self._saved_at >= wanted.every_seconds

    def _open_point(self, master: Master) -> None:
        """Opens a point, with the validation that is due."""
        point = Point.of(master.centre, master.rule, self._record.step)
        point.epoch, point.recalibrates = self._due, self._described.recalibrates
        master.point, self._due = point, None
        self._saved_step, self._saved_at = self._record.step, time.perf_counter()

    def _is_validated(self, master: Master, point: Point) -> bool:
        """Whether the validation of a point is known, and then records it; the first call starts it."""
        if self._validation is None:
            self._validation = self._thread.submit(self._validate, self._inference_weights(point))
        if not self._validation.done():
            return False
        metrics, showers, began, ended = self._validation.result()
        self._validation = None
        found = BestCheckpoint(step=point.step, epoch=point.epoch or 0, metrics=metrics)
        line = self._quality.add(
            found,
            showers=showers,
            seconds=ended - began,
            program_seconds=ended - self._start_time,
        )
        self._rank.profile.spent("validate", began, ended, is_beside=True)
        self._record.validated(line)
        master.stop = master.stop or self._quality.stop
        return True

    def _validate(self, weights: Sequence[Any]) -> tuple[dict[str, float], int, float, float]:
        """Returns metrics and showers of a generator, and when this began and ended; in the thread."""
        began = time.perf_counter()
        if self._measure is None:
            assert self._validator  # noqa: S101  a point without one has no epoch
            self._measure = self._validator()
        return *self._measure(weights), began, time.perf_counter()

    def _inference_weights(self, point: Point) -> list[Any]:
        """Returns the weights that generate showers, in Keras order."""
        if self._averaged and point.average is not None and point.inference is not None:
            shapes = [self._template[name].shape for name in self._averaged]
            ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
            parts = np.split(point.inference, ends[:-1])
            return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        own = point.average if self._averaged and point.average is not None else point.weights
        return list(generator_arrays(self._described.flat, own))

    def _save(self, point: Point) -> tuple[Path, int, float]:
        """Writes a complete point; returns path and size of the run's checkpoint, and the seconds."""
        began = time.perf_counter()
        state = State(
            step=point.step,
            train_seconds=self._record.train_seconds,
            config_hash=self._config.config_hash(),
            config=self._config,
            numerics=self._described.started.numerics,
            summary=self._described.summary,
            **self._quality.state(),
            worker_steps=tuple(steps for _, steps in sorted(point.worker_steps.items())),
            master_steps=tuple(steps for _, steps in sorted(point.master_steps.items())),
        )
        average = {} if point.average is None else {_AVERAGE: point.average}
        self._rules.save(state, {**point.rule, **average})
        # Each worker has optimizers of its own: those of the template are written as they are.
        arrays = {**self._template, **self._described.flat.views(point.weights)}
        if self._averaged:
            arrays |= zip(self._averaged, self._inference_weights(point), strict=True)
        path, size = self._checkpoints.save(state, arrays)
        ended = time.perf_counter()
        self._rank.profile.spent("save", began, ended)
        return path, size, ended - began
