"""What every master does: answers the ranks below it in order of arrival, and lets them save.

`master.Master` is rank 0, which keeps the record and the checkpoints of the run; `lower_master` is a
master between rank 0 and its workers.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.parallel.child import Child
from cloudgan.parallel.messages import Answer, Tag, Update, Wanted
from cloudgan.training.stopping import EXIT_CODES, REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.parallel.centre import Centre, Point
    from cloudgan.parallel.communicator import Communicator, Message
    from cloudgan.parallel.layout import Layout
    from cloudgan.parallel.profile import Profile
    from cloudgan.parallel.update_rules import Floats, UpdateRule
    from cloudgan.schema.record_line import StopReason
    from cloudgan.training.stopping import StopFlag

_LOOK_SECONDS = 0.5


class Serving(ABC):
    """A master of workers, or of masters.

    Attributes:
        updates: Received from all children.
        waiting_cpu: CPU seconds while it waited for messages.
        service_cpu: CPU seconds of what it did with them.
    """

    _centre: Centre
    _rule: UpdateRule
    _received: Floats
    """Set when the children have joined."""

    def __init__(
        self,
        world: Communicator,
        layout: Layout,
        flag: StopFlag,
        profile: Profile,
        *,
        worker_steps: Sequence[int] | None,
    ) -> None:
        """Prepares a master; `worker_steps` are those from which all workers resume, or None."""
        self._world, self._layout, self._flag = world, layout, flag
        below = layout.children(world.rank)
        self._children = {rank: Child(rank, layout.workers_below(rank)) for rank in below}
        self._first = below[0]
        numbers = layout.workers_below(world.rank)
        self._worker_steps = {n: worker_steps[n] if worker_steps else 0 for n in numbers}
        self._held: list[Child] = []
        self._point: Point | None = None
        self._stop: StopReason | None = None
        self._looked_at = 0.0
        self._profile = profile
        self.updates = 0
        self.waiting_cpu = self.service_cpu = 0.0

    @abstractmethod
    def _counted(self, number: int, update: Update, staleness: int) -> int:
        """Counts an update of a worker; returns its steps since the one before."""

    @abstractmethod
    def _close_point(self) -> None:
        """Ends the open point if all children have saved."""

    @abstractmethod
    def _moved(self) -> None:
        """Does what is due after an update, before it is answered."""

    def _after_message(self) -> None:
        """Does what is due after a message was handled."""
        self._close_point()

    def _is_exchange_due(self) -> bool:
        """Whether children wait until this master has exchanged with the one above it."""
        return False

    def _join(self, rank: int) -> dict[str, Any]:
        """Receives what a child joins with.

        Raises:
            TryAgain: It resumes from another point.
        """
        message = self._world.wait(rank, Tag.JOIN, meanwhile=self._look)
        found: dict[str, Any] = self._world.receive_json(message)
        step = int(found["step"])
        expected = sum(self._worker_steps[number] for number in self._children[rank].workers)
        if step != expected:
            raise TryAgain(
                f"rank {rank} resumes after its step {step}, and the checkpoint of the run has"
                f" step {expected} of it; start all ranks again"
            )
        return found

    def _send_centre(self) -> None:
        """Lets all children begin."""
        for child in self._children.values():
            child.heard_at = time.monotonic()
            self._world.send(self._centre.weights, child.rank, Tag.CENTRE)

    def _serve(self) -> None:
        """Answers until all children have ended."""
        spent = self._profile.spent
        while any(not child.is_done for child in self._children.values()):
            began, cpu = time.perf_counter(), time.thread_time()
            message = self._world.wait(meanwhile=self._look)
            arrived, cpu_arrived = time.perf_counter(), time.thread_time()
            spent("wait", began, arrived)
            self.waiting_cpu += cpu_arrived - cpu
            self._handle(message)
            spent("update", arrived, time.perf_counter())
            self.service_cpu += time.thread_time() - cpu_arrived
            self._after_message()

    def _handle(self, message: Message) -> None:
        child = self._children[message.source]
        child.heard()
        values = np.empty(message.bytes // (4 if message.tag == Tag.RECALIBRATED else 8))
        if message.tag == Tag.RECALIBRATED:
            self._recalibrated(message, values.size)
            return
        self._world.receive(values, message.source, message.tag)
        if message.tag == Tag.FETCH:
            child.clock = self._centre.clock
            self._answer(child)
        elif message.tag == Tag.UPDATE:
            self._update_of_worker(child, Update.from_array(values))
        elif message.tag == Tag.SAVED and self._point:
            self._point.save(child, values)
        elif message.tag == Tag.DONE:
            self._done(child, REASONS[int(values[0])], values[1:])

    def _update_of_worker(self, child: Child, update: Update) -> None:
        (number,) = child.workers
        steps = self._counted(number, update, self._centre.clock - child.clock)
        if not (np.isfinite(update.losses).all()):
            raise CloudganError(
                f"a loss of worker {number} is NaN or infinite up to its step {update.step};"
                " the last checkpoint is older. Rerun with a smaller model.learning_rate or fewer"
                " workers"
            )
        self._update(child, steps)

    def _steps_since(self, number: int, update: Update) -> int:
        """Returns the steps of a worker since its last update."""
        steps = update.step - self._worker_steps[number]
        self._worker_steps[number] = update.step
        return steps

    def _update(self, child: Child, steps: int) -> None:
        """Receives the weights of a child, moves the centre, and answers."""
        self._world.receive(self._received, child.rank, Tag.WEIGHTS)
        child.updates += 1
        self.updates += 1
        self._flag.stepped = True
        staleness = self._centre.clock - child.clock
        if self._rule.answers_first:
            self._answer(child)
        self._centre.move(self._rule, self._received, staleness, steps)
        child.clock = self._centre.clock
        if not (self._rule.answers_first or self._rule.fetches_first):
            self._held.append(child)
        self._moved()
        self._answer_held()

    def _answer_held(self) -> None:
        """Answers the children that wait, unless a synchronous rule waits for more updates."""
        if self._rule.pending or self._is_exchange_due():
            return
        for child in self._held:
            child.clock = self._centre.clock
            self._answer(child)
        self._held.clear()

    def _answer(self, child: Child) -> None:
        wanted, point = self._wanted(child), self._point
        if self._stop:
            wanted |= Wanted.STOP
        reason = REASONS.index(self._stop) if self._stop else 0
        self._send(child, Answer(wanted, reason))
        self._world.send(self._centre.weights, child.rank, Tag.CENTRE)
        if wanted & Wanted.RECALIBRATE and point and point.average is not None:
            self._world.send(point.average, child.rank, Tag.CENTRE)
        child.heard_at = time.monotonic()  # the time of this master is not the silence of the child

    def _wanted(self, child: Child) -> Wanted:
        """Returns what the open point needs of a child that trains; asks each child once."""
        point = self._point
        if not point or child.rank in point.asked:
            return Wanted.NOTHING
        point.asked.add(child.rank)
        if child.rank == self._first and point.recalibrates:
            return Wanted.SAVE | Wanted.RECALIBRATE
        return Wanted.SAVE

    def _send(self, child: Child, answer: Answer) -> None:
        self._world.send(answer.as_array(), child.rank, Tag.ANSWER)

    def _end_children(self) -> None:
        for child in self._children.values():
            self._send(child, Answer(Wanted.END))

    def _done(self, child: Child, reason: StopReason, steps: Any) -> None:
        child.ended_with = [int(step) for step in steps]
        if reason in EXIT_CODES:
            self._stop = self._stop or reason
        self._rule.worker_ended(self._centre.weights)
        self._moved()
        self._answer_held()

    def _recalibrated(self, message: Message, size: int) -> None:
        weights = np.empty(size, np.float32)
        self._world.receive(weights, message.source, message.tag)
        if self._point:
            self._point.inference = weights

    def _is_saved(self, point: Point) -> bool:
        """Whether all children have saved for a point; asks those that have ended for the rest."""
        for child in self._children.values():
            if child.is_done:
                point.save(child, child.ended_with)
                if child.rank not in point.asked:
                    point.asked.add(child.rank)
                    self._ask_ended(child, point)
        if len(point.saved) < len(self._children):
            return False
        return not point.recalibrates or point.inference is not None

    def _ask_ended(self, child: Child, point: Point) -> None:
        if child.rank == self._first and point.recalibrates and point.average is not None:
            self._send(child, Answer(Wanted.RECALIBRATE))
            self._world.send(point.average, child.rank, Tag.CENTRE)

    def _wait_for_point(self) -> None:
        """Receives what the open point waits for, until it is closed."""
        while self._point:
            self._look()
            if message := self._world.poll():
                self._handle(message)
            else:
                time.sleep(0.01)
            self._close_point()

    def _look(self) -> None:
        """Called before each message, also of a queue that is never empty: signals, and children that froze."""
        if self._flag.reason:
            self._stop = self._stop or self._flag.reason
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        self._check(now)

    def _check(self, now: float) -> None:
        """Called twice a second.

        Args:
            now: `time.monotonic`.

        Raises:
            TryAgain: A child has frozen.
        """
        for child in self._children.values():
            is_silent = child.heard_at and not child.is_done and child.is_silent(now)
            if is_silent and not self._world.poll(
                child.rank
            ):  # a busy master has not read its message
                raise TryAgain(
                    f"{child.name} has sent nothing for {now - child.heard_at:.0f} s and may be"
                    " frozen; start all ranks again to resume from the last checkpoint"
                )
