"""A master below rank 0 as a worker of rank 0: exchanges its centre by the rule of its workers.

It does so after every `master_sync_every` updates of its centre, and serves no worker meanwhile. It
saves its centre and its rules when rank 0 wants a point, and lets its workers save for it.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from cloudgan.parallel.centre import Centre, Point
from cloudgan.parallel.master import Above, Master
from cloudgan.parallel.messages import Answer, Described, Report, Tag, Update, Wanted, WorkerReport
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.update_rules import UpdateRule, make_rule, make_rule_of_masters
from cloudgan.parallel.worker import Link
from cloudgan.training.checkpoint import State
from cloudgan.training.stopping import REASONS

_CENTRE, _RULE, _LINK = "centre", "rule/", "link/"
"""Arrays of its checkpoint: its centre, its rule with its workers, and that with rank 0."""


class Parent(Above):
    """The master above a master."""

    def __init__(self, rank: Rank) -> None:
        self._rank, self._step = rank, rank.first_step
        self._own = rank.checkpoints()
        self._report = Report(rank.profile.seconds)
        self._exchanged_clock = 0

    def begin(self, master: Master, described: Described) -> tuple[Centre, UpdateRule]:
        """Joins rank 0; returns its weights, or those of the own checkpoint."""
        rank, parallel, flat = self._rank, self._rank.config.parallel, described.flat
        self._described = described
        rate = described.started.learning_rate
        make: dict[str, Any] = {"trainable": flat.leading_size, "learning_rate": rate}
        rule = make_rule(parallel, workers=len(master.child_ranks), **make)
        self._rule = make_rule_of_masters(parallel, workers=rank.siblings, **make)
        self._link = Link(rank, self._rule, flat.size)
        self._link.join(
            sum(master.worker_steps.values()),
            described if rank.describes else None,
            master.receive_arrays() if rank.sends_arrays else None,
        )
        if self._step:
            self._restore(rule)
        else:
            self._rule.begin(self._link.fetched)
        return Centre(self._link.fetched.copy(), flat.leading_size), rule

    def count(self, number: int, update: Update, steps: int, staleness: Counter[int]) -> None:
        """Counts updates of a worker for the next report."""
        self._step += steps
        report = self._report.workers.setdefault(number, WorkerReport(update))
        report.update = update
        report.staleness += staleness

    def is_due(self, master: Master) -> bool:
        """Whether the centre has moved `master_sync_every` times since the last exchange."""
        updates = master.centre.clock - self._exchanged_clock
        return updates >= self._rank.config.parallel.master_sync_every

    def exchange(self, master: Master) -> None:
        """Exchanges the centre with rank 0, and opens the point that it wants."""
        self._exchanged_clock = master.centre.clock
        began = time.perf_counter()
        answer = self._link.exchange(master.centre.weights, self._send_report, began)
        if answer.wanted & Wanted.STOP:
            master.stop = master.stop or REASONS[answer.reason]
        if answer.wanted & Wanted.SAVE:
            master.point = self._new_point(master, answer)

    def write(self, master: Master, point: Point) -> bool:
        """Writes the part of this master, and confirms it to rank 0 once it is copied."""
        self._save(point)
        if not self._own.is_copied():
            return False
        self._link.saved(self._steps_of(master, point))
        if point.inference is not None:
            self._link.recalibrated(point.inference)
        return True

    def end(self, master: Master) -> None:
        """Exchanges what came since the last exchange, saves, and waits for the other masters."""
        if self._report.workers:
            self.exchange(master)
        master.wait_for_point()
        point = self._new_point(master, Answer(Wanted.NOTHING))
        master.is_saved(point)
        self._save(point)
        while not self._own.is_copied():
            time.sleep(0.01)
        self._link.done(master.stop or "finished", self._steps_of(master, point))
        while not (answer := self._link.receive_answer()).wanted & Wanted.END:
            master.point = self._new_point(master, answer)  # the first worker fits statistics
            master.wait_for_point()

    def _restore(self, rule: UpdateRule) -> None:
        """Continues from the own checkpoint, and removes later ones."""
        self._own.remove_later(self._step)
        arrays = self._rank.read_part().arrays
        self._link.fetched[:] = arrays[_CENTRE]
        for each, prefix in ((rule, _RULE), (self._rule, _LINK)):
            each.restore(
                {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            )

    def _send_report(self) -> None:
        self._rank.world.send_json(self._report.as_json(), self._rank.master, Tag.REPORT)
        self._report.workers.clear()

    def _new_point(self, master: Master, answer: Answer) -> Point:
        """Copies the present centre and both rules."""
        point = Point.of(master.centre, master.rule, self._step)
        link = {f"{_LINK}{name}": a.copy() for name, a in self._rule.state().items()}
        point.rule = {f"{_RULE}{name}": a for name, a in point.rule.items()} | link
        if answer.wanted & Wanted.RECALIBRATE:
            point.recalibrates, point.average = True, self._link.average
        return point

    def _steps_of(self, master: Master, point: Point) -> list[int]:
        return [point.step, *(point.worker_steps[number] for number in master.worker_steps)]

    def _save(self, point: Point) -> None:
        """Writes the own checkpoint of a point, unless it is written."""
        if point.written:
            return
        config, described = self._rank.config, self._described
        state = State(
            step=point.step,
            train_seconds=0.0,
            config_hash=config.config_hash(),
            config=config,
            numerics=described.started.numerics,
            summary=described.summary,
        )
        began = time.perf_counter()
        path, size = self._own.save(state, {_CENTRE: point.weights, **point.rule})
        ended = time.perf_counter()
        self._rank.profile.spent("save", began, ended)
        point.written = path, size, ended - began
