"""A master between its workers and rank 0: serves as any master does, and exchanges with rank 0.

After every `master_sync_every` updates of its centre it exchanges with rank 0 by the rule of its
workers, and serves none of them meanwhile. It saves its centre and its rules when rank 0 wants a
point, and lets its workers save for it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.data.summary import TrainingSummary
from cloudgan.parallel.centre import Centre, Point, rank_checkpoints
from cloudgan.parallel.flat_weights import FlatLayout
from cloudgan.parallel.master_link import MasterLink
from cloudgan.parallel.messages import Answer, Report, Tag, Wanted, WorkerReport
from cloudgan.parallel.serving import Serving
from cloudgan.parallel.update_rules import make_rule, make_rule_of_masters
from cloudgan.schema.record import Numerics, Started
from cloudgan.training.checkpoint import State, read_checkpoint
from cloudgan.training.stopping import REASONS

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.parallel.centre import ResumedSteps
    from cloudgan.parallel.communicator import Communicator
    from cloudgan.parallel.layout import Layout
    from cloudgan.parallel.messages import Update
    from cloudgan.parallel.profile import Profile
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.stopping import StopFlag

_CENTRE, _RULE, _LINK = "centre", "rule/", "link/"
"""Arrays of its checkpoint: its centre, its rule with its workers, and that with rank 0."""


class LowerMaster(Serving):
    """Serves its workers until all have ended, then rank 0 until all masters have."""

    def __init__(
        self,
        world: Communicator,
        layout: Layout,
        config: RunConfig,
        folder: RunFolder,
        *,
        flag: StopFlag,
        profile: Profile,
        resumed: ResumedSteps | None,
    ) -> None:
        """Prepares the master; `resumed` is None for a new run."""
        super().__init__(
            world, layout, flag, profile, worker_steps=resumed.workers if resumed else None
        )
        self._config, self._resumed = config, resumed
        self._step = resumed.masters[layout.masters.index(world.rank)] if resumed else 0
        self._top = layout.roles[world.rank].parent or 0
        self._is_first = layout.children(self._top)[0] == world.rank
        copier = ThreadPoolExecutor(1, "copy")
        self._own = rank_checkpoints(config, folder, world.rank, copier)
        self._report = Report(self._profile.seconds)
        self._exchanged_clock = 0

    def run(self) -> None:
        """Serves until the run has ended.

        Raises:
            CloudganError: A worker froze, rank 0 is silent, or the checkpoint could not be written.
        """
        self._start()
        self._serve()
        self._end()

    def _start(self) -> None:
        """Receives what the workers join with, joins rank 0, and lets the workers begin."""
        joined = {rank: self._join(rank) for rank in self._children}
        first = joined[self._first]
        more = first if self._is_first else {}
        step = sum(self._worker_steps.values())
        self._world.send_json(more | {"step": step}, self._top, Tag.JOIN)
        if self._is_first and not self._resumed:
            self._pass_arrays_on()
        flat = FlatLayout.from_json(first["flat"])
        started = Started.model_validate_json(first["started"])
        self._numerics: Numerics = started.numerics
        self._summary = TrainingSummary.model_validate_json(first["summary"])
        make: dict[str, Any] = {
            "trainable": flat.trainable_size,
            "learning_rate": started.learning_rate,
        }
        parallel, masters = self._config.parallel, len(self._layout.masters)
        self._rule = make_rule(parallel, workers=len(self._children), **make)
        self._rule_to_top = make_rule_of_masters(parallel, workers=masters, **make)
        self._link = MasterLink(self._world, self._top, self._rule_to_top, flat.size, self._profile)
        self._link.receive_centre()
        self._centre = Centre(flat, self._link.fetched.copy(), None, decay=0.0)
        self._received = np.empty(flat.size, np.float32)
        if self._step:
            self._restore()
        else:
            self._rule_to_top.begin(self._centre.weights)
        self._send_centre()

    def _pass_arrays_on(self) -> None:
        message = self._world.wait(self._first, Tag.ARRAYS)
        packed = np.empty(message.bytes, np.uint8)
        self._world.receive(packed, message.source, message.tag)
        self._world.send(packed, self._top, Tag.ARRAYS)

    def _restore(self) -> None:
        """Continues from its own checkpoint, and removes later ones."""
        self._own.remove_later(self._step)
        arrays = read_checkpoint(self._own.fetch(self._step)).arrays
        self._centre.weights[:] = arrays[_CENTRE]
        self._link.fetched[:] = arrays[_CENTRE]
        for rule, prefix in ((self._rule, _RULE), (self._rule_to_top, _LINK)):
            found = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            rule.restore(found)

    def _counted(self, number: int, update: Update, staleness: int) -> int:
        steps = self._steps_since(number, update)
        self._step += steps
        report = self._report.workers.setdefault(number, WorkerReport(update))
        report.update = update
        report.staleness[staleness] += 1
        return steps

    def _is_exchange_due(self) -> bool:
        updates = self._centre.clock - self._exchanged_clock
        return updates >= self._config.parallel.master_sync_every

    def _moved(self) -> None:
        """Does nothing: points are opened by exchanges with rank 0, which count their own time."""

    def _after_message(self) -> None:
        if self._is_exchange_due():
            self._exchange()
            self._answer_held()
        super()._after_message()

    def _exchange(self) -> None:
        """Exchanges with rank 0, and opens the point that it wants."""
        self._exchanged_clock = self._centre.clock
        began = time.perf_counter()
        answer = self._link.exchange(self._centre.weights, self._send_report, began)
        if answer.wanted & Wanted.STOP:
            self._stop = self._stop or REASONS[answer.reason]
        if answer.wanted & Wanted.SAVE:
            self._point = self._new_point(answer)

    def _send_report(self) -> None:
        self._world.send_json(self._report.as_json(), self._top, Tag.REPORT)
        self._report.workers.clear()

    def _new_point(self, answer: Answer) -> Point:
        """Copies the present centre and both rules."""
        point = Point.of(self._centre, self._rule, self._step, None)
        link = {f"{_LINK}{name}": a.copy() for name, a in self._rule_to_top.state().items()}
        point.rule = {f"{_RULE}{name}": a for name, a in point.rule.items()} | link
        if answer.wanted & Wanted.RECALIBRATE:
            point.recalibrates, point.average = True, self._link.average
        return point

    def _close_point(self) -> None:
        """Saves the open point if all workers have, and confirms it to rank 0."""
        point = self._point
        if point is None or not self._is_saved(point):
            return
        if point.written is None:
            point.written = self._write(point)
        if not self._own.is_copied():
            return
        self._point = None
        self._world.send(self._steps_of(point), self._top, Tag.SAVED)
        if point.inference is not None:
            self._world.send(point.inference, self._top, Tag.RECALIBRATED)

    def _steps_of(self, point: Point) -> Any:
        below = (point.worker_steps[number] for number in self._worker_steps)
        return np.array([point.step, *below], np.float64)

    def _write(self, point: Point) -> tuple[Path, int, float]:
        state = State(
            step=point.step,
            train_seconds=0.0,
            config_hash=self._config.config_hash(),
            config=self._config,
            numerics=self._numerics,
            summary=self._summary,
        )
        began = time.perf_counter()
        path, size = self._own.save(state, {_CENTRE: point.weights, **point.rule})
        ended = time.perf_counter()
        self._profile.spent("save", began, ended)
        return path, size, ended - began

    def _end(self) -> None:
        """Exchanges what came since the last exchange, saves, and waits for the other masters."""
        if self._report.workers:
            self._exchange()
        self._wait_for_point()
        point = self._new_point(Answer(Wanted.NOTHING))
        self._is_saved(point)
        self._write(point)
        while not self._own.is_copied():
            time.sleep(0.01)
        reason = REASONS.index(self._stop or "finished")
        done = np.concatenate([[float(reason)], self._steps_of(point)])
        self._world.send(done, self._top, Tag.DONE)
        while not (answer := self._link.receive_answer()).wanted & Wanted.END:
            self._point = self._new_point(answer)  # the first worker fits statistics for rank 0
            self._wait_for_point()
        self._end_children()
