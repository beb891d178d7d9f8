"""A master: answers the ranks below it in order of arrival, and lets them save. Needs no TensorFlow.

What is above it differs. Rank 0 keeps the run: its record, its validations and its checkpoints
(`run_keeper`). Another master is itself a worker of rank 0 (`parent`): its centre is what it exchanges.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.parallel.centre import Centre, Child, Point
from cloudgan.parallel.messages import Answer, Described, Report, Tag, Update, Wanted
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.update_rules import UpdateRule
from cloudgan.ranks.mpi import ROUND_SECONDS, Message, Silence, SilenceClock
from cloudgan.schema.record_line import StopReason
from cloudgan.training.stopping import EXIT_CODES, REASONS, Outcome, StopFlag

_LOOK_SECONDS = 0.5
_LEAST_SILENCE_SECONDS = 60.0


class Above:
    """What is above a master."""

    def begin(self, master: Master, described: Described) -> None:
        """Gives the master the centre with which the workers begin, and the rule between them."""
        raise NotImplementedError

    def count(self, number: int, update: Update, steps: int, staleness: Counter[int]) -> None:
        """Counts updates of a worker."""
        raise NotImplementedError

    def count_master(self, rank: int, report: Report) -> None:
        """Counts what a master below has done; its workers are counted by `count`."""

    def moved(self, master: Master) -> None:
        """Does what is due after an update, before it is answered."""

    def is_due(self, master: Master) -> bool:
        """Whether children wait until this master has exchanged with the one above it."""
        del master
        return False

    def exchange(self, master: Master) -> None:
        """Exchanges with the master above, when it is due."""

    def write(self, master: Master, point: Point) -> bool:
        """Writes a point that all children have saved; returns whether it is written, copied and announced."""
        raise NotImplementedError

    def check(self, master: Master) -> None:
        """Called twice a second: limits."""

    def child_waits(self) -> None:
        """Called when a child shows a sign of life."""

    def end(self, master: Master) -> Outcome | None:
        """Ends after the last update: saves, and says how the run ended if it keeps it."""
        raise NotImplementedError

    def failed(self, error: CloudganError) -> None:
        """Notes why the master fails."""


class Master:
    """Serves workers, or masters, until all have ended.

    Attributes:
        world: All ranks.
        worker_steps: Own steps of the workers below, by number.
        centre: Its weights; set when the children have joined.
        rule: Between the children and this master; set when they have joined.
        point: That the children save for; None: none.
        stop: Why the children are asked to stop; None: not.
        updates: Received from all children.
        ages: Updates since they were last recorded, by staleness.
        waiting_cpu: CPU seconds while it waited for messages.
        service_cpu: CPU seconds of what it did with them.
    """

    centre: Centre
    rule: UpdateRule

    def __init__(self, rank: Rank, flag: StopFlag, above: Above) -> None:
        self.world, self._layout, self._flag, self._above = rank.world, rank.layout, flag, above
        self._spent = rank.profile.spent
        self._clock, below = SilenceClock(), rank.layout.children(rank.world.rank)
        limits = self._clock, _LEAST_SILENCE_SECONDS, rank.round_seconds
        self._children = {
            each: Child(each, rank.layout.workers_below(each), Silence(*limits)) for each in below
        }
        self._first = below[0]
        steps, numbers = rank.steps, rank.layout.workers_below(rank.world.rank)
        self.worker_steps = {n: steps.workers[n] if steps else 0 for n in numbers}
        self._held: list[Child] = []
        self.point: Point | None = None
        self.stop: StopReason | None = None
        self._looked_at = 0.0
        self.updates, self.ages = 0, Counter[int]()
        self.waiting_cpu = self.service_cpu = 0.0

    @property
    def child_ranks(self) -> tuple[int, ...]:
        """Ranks of the children."""
        return tuple(self._children)

    def run(self) -> Outcome | None:
        """Serves until all children have ended; returns how the run ended on rank 0."""
        described, *_ = [found for child in self._children.values() if (found := self._join(child))]
        self._above.begin(self, described)
        self._received = np.empty_like(self.centre.weights)
        for child in self._children.values():
            child.silence.heard()
            self.world.send(self.centre.weights, child.rank, Tag.CENTRE)
        try:
            self._serve()
            outcome = self._above.end(self)
        except CloudganError as error:
            self._above.failed(error)
            raise
        for child in self._children.values():
            self._send(child, Answer(Wanted.END))
        return outcome

    def receive_arrays(self) -> NDArray[np.uint8]:
        """Receives the archive of all arrays with which a new run begins."""
        message = self.world.wait(self._first, Tag.ARRAYS)
        packed = np.empty(message.bytes, np.uint8)
        self.world.receive(packed, message.source, message.tag)
        return packed

    def open_saved_point(self, point: Point) -> None:
        """Opens the point at which a new run begins, of which all children have their part."""
        for child in self._children.values():
            is_master = self._layout.roles[child.rank].is_master
            point.save(child, [0] * (len(child.workers) + is_master))
        point.asked |= self._children.keys()
        self.point = point
        self.close_point()

    def close_point(self) -> None:
        """Ends the open point if all children have saved and its part here is written."""
        point = self.point
        if point and self.is_saved(point) and self._above.write(self, point):
            self.point = None

    def wait_for_point(self) -> None:
        """Receives what the open point waits for, until it is closed."""
        while self.point:
            self._look()
            if message := self.world.poll():
                self._handle(message)
            else:
                time.sleep(0.01)
            self.close_point()

    def is_saved(self, point: Point) -> bool:
        """Whether all children have saved for a point; asks those that have ended for the rest."""
        for child in self._children.values():
            if not child.is_done:
                continue
            point.save(child, child.ended_with)
            if child.rank not in point.asked:
                point.asked.add(child.rank)
                if self._recalibrates(child, point):
                    self._send(child, Answer(Wanted.RECALIBRATE))
                    self._send_average(child, point)
        if len(point.saved) < len(self._children):
            return False
        return not point.recalibrates or point.inference is not None

    def _join(self, child: Child) -> Described | None:
        """Receives what a child joins with; returns the run if it describes it."""
        message = self.world.wait(
            child.rank, Tag.JOIN, seconds=ROUND_SECONDS, meanwhile=self._notice_signal
        )
        found = self.world.receive_json(message)
        step = int(found["step"])
        expected = sum(self.worker_steps[number] for number in child.workers)
        if step != expected:
            raise TryAgain(
                f"rank {child.rank} resumes after its step {step}, and the checkpoint of the run has"
                f" step {expected} of it; start all ranks again"
            )
        return Described.model_validate_json(found["run"]) if found["run"] else None

    def _serve(self) -> None:
        """Answers until all children have ended."""
        while any(not child.is_done for child in self._children.values()):
            began, cpu = time.perf_counter(), time.thread_time()
            message = self.world.wait(meanwhile=self._look)
            arrived, cpu_arrived = time.perf_counter(), time.thread_time()
            self._spent("wait", began, arrived)
            self.waiting_cpu += cpu_arrived - cpu
            self._handle(message)
            self._spent("update", arrived, time.perf_counter())
            self.service_cpu += time.thread_time() - cpu_arrived
            if self._above.is_due(self):
                self._above.exchange(self)
                self._answer_held()
            self.close_point()

    def _handle(self, message: Message) -> None:
        child = self._children[message.source]
        if message.tag == Tag.ALIVE:  # it waits: the end of no interval at work
            self.world.receive(np.empty(1), message.source, message.tag)
            child.silence.heard()
            self._above.child_waits()
            return
        # Of the second update, too: the limit of the third one follows from it.
        child.silence.heard(at_work=child.updates > 0)
        if message.tag == Tag.REPORT:
            report = Report.from_json(self.world.receive_json(message))
            counted = [self._count(n, w.update, w.staleness) for n, w in report.workers.items()]
            self._above.count_master(child.rank, report)
            self._update(child, sum(counted))
            return
        values: NDArray[Any]
        if message.tag == Tag.RECALIBRATED:
            values = np.empty(message.bytes // 4, np.float32)
            self.world.receive(values, message.source, message.tag)
            if self.point:
                self.point.inference = values
            return
        values = np.empty(message.bytes // 8)
        self.world.receive(values, message.source, message.tag)
        if message.tag == Tag.FETCH:
            child.clock = self.centre.clock
            self._answer(child)
        elif message.tag == Tag.UPDATE:
            self._update_of_worker(child, Update.from_array(values))
        elif message.tag == Tag.SAVED and self.point:
            self.point.save(child, values)
        elif message.tag == Tag.DONE:
            self._done(child, REASONS[int(values[0])], values[1:])

    def _update_of_worker(self, child: Child, update: Update) -> None:
        (number,) = child.workers
        steps = self._count(number, update, Counter({self.centre.clock - child.clock: 1}))
        if not np.isfinite(update.losses).all():
            raise CloudganError(
                f"a loss of worker {number} is NaN or infinite up to its step {update.step};"
                " the last checkpoint is older. Rerun with a smaller model.learning_rate or fewer"
                " workers"
            )
        self._update(child, steps)

    def _count(self, number: int, update: Update, staleness: Counter[int]) -> int:
        """Counts updates of a worker; returns its steps since the one before."""
        steps = update.step - self.worker_steps[number]
        self.worker_steps[number] = update.step
        self._above.count(number, update, steps, staleness)
        return steps

    def _update(self, child: Child, steps: int) -> None:
        """Receives the weights of a child, moves the centre, and answers."""
        self.world.receive(self._received, child.rank, Tag.WEIGHTS)
        child.updates += 1
        self.updates += 1
        self._flag.stepped = True
        staleness = self.centre.clock - child.clock
        self.ages[staleness] += 1
        if self.rule.answers_first:
            self._answer(child)
        self.centre.move(self.rule, self._received, staleness, steps)
        child.clock = self.centre.clock
        if not (self.rule.answers_first or self.rule.fetches_first):
            self._held.append(child)
        self._above.moved(self)
        self._answer_held()

    def _answer_held(self) -> None:
        """Answers the children that wait, unless a synchronous rule waits for more updates."""
        if self.rule.pending or self._above.is_due(self):
            return
        for child in self._held:
            child.clock = self.centre.clock
            self._answer(child)
        self._held.clear()

    def _answer(self, child: Child) -> None:
        wanted, point = Wanted.NOTHING, self.point
        if point and child.rank not in point.asked:
            point.asked.add(child.rank)
            wanted = Wanted.SAVE
            if self._recalibrates(child, point):
                wanted |= Wanted.RECALIBRATE
        if self.stop:
            wanted |= Wanted.STOP
        self._send(child, Answer(wanted, REASONS.index(self.stop) if self.stop else 0))
        self.world.send(self.centre.weights, child.rank, Tag.CENTRE)
        if wanted & Wanted.RECALIBRATE and point:
            self._send_average(child, point)
        child.silence.heard()  # the time of this master is not the silence of the child

    def _send(self, child: Child, answer: Answer) -> None:
        self.world.send(answer.as_array(), child.rank, Tag.ANSWER)

    def _recalibrates(self, child: Child, point: Point) -> bool:
        """Whether a child fits the statistics of the point's average."""
        return child.rank == self._first and point.recalibrates and point.average is not None

    def _send_average(self, child: Child, point: Point) -> None:
        assert point.average is not None  # noqa: S101  `_recalibrates` said so
        self.world.send(point.average, child.rank, Tag.CENTRE)

    def _done(self, child: Child, reason: StopReason, steps: Any) -> None:
        child.ended_with = [int(step) for step in steps]
        if reason in EXIT_CODES:
            self.stop = self.stop or reason
        self.rule.worker_ended(self.centre.weights)
        self._above.moved(self)
        self._answer_held()

    def _notice_signal(self) -> None:
        if self._flag.reason:
            self.stop = self.stop or self._flag.reason

    def _look(self) -> None:
        """Called before each message, also of a queue that is never empty: signals, limits, silence."""
        self._notice_signal()
        now = self._clock.look()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        for child in self._children.values():
            if child.is_done or child in self._held:  # or it waits for this master
                continue
            if not child.silence.is_lost(has_begun=child.is_steady):
                continue
            if not self.world.poll(child.rank):  # a busy master may not have read its message
                raise child.silence.error(child.name)
        self._above.check(self)
