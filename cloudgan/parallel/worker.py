"""The side of a rank that exchanges with a master: of a worker between two blocks of steps, or of a master.

In a group only the leader speaks with the master; the members receive its weights afterwards, so
that all of them continue with the same bits. A master below rank 0 is a worker of rank 0: it exchanges its centre
by the rule of its workers. Imports no TensorFlow: a training run and `bench parallel`, whose worker sleeps, bring
their networks.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.arrays import as_archive
from cloudgan.core.hardware import peak_memory_bytes
from cloudgan.parallel.centre import Centre, Point
from cloudgan.parallel.master import Above, Master
from cloudgan.parallel.messages import Answer, Described, Report, Tag, Update, Wanted, WorkerReport
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.update_rules import Floats, UpdateRule, make_rule, make_rule_of_masters
from cloudgan.ranks.flat import FlatLayout
from cloudgan.ranks.mpi import ANSWER_SECONDS
from cloudgan.schema.record_line import StopReason
from cloudgan.training.checkpoint import State
from cloudgan.training.stopping import REASONS, SIGN_SECONDS, Exchange, Loop, StopTraining

PREFIX = "exchange/"
"""Of the arrays of the update rule in a worker's checkpoint."""


class Link:
    """Sends the weights of a rank to its master, and moves them by the answer.

    `fetched` are the master's weights as they were last received, or those from which the rank continued;
    the average of the centre is received with `Wanted.RECALIBRATE`.
    """

    def __init__(self, rank: Rank, rule: UpdateRule, size: int) -> None:
        """Prepares buffers of `size` values for the weights."""
        self._world, self._master, self._rule = rank.world, rank.master, rule
        self._spent, self._round_seconds = rank.profile.spent, rank.round_seconds
        self.fetched = np.empty(size, np.float32)
        self.average = np.empty(0, np.float32)

    def exchange(self, own: Floats, send_header: Callable[[], None], began: float) -> Answer:
        """Sends and receives; changes `own` to the weights to continue with."""
        world, rule, answer = self._world, self._rule, Answer(Wanted.NOTHING)
        if rule.fetches_first:
            world.send(np.zeros(1), self._master, Tag.FETCH)
            answer = self.receive_answer(ANSWER_SECONDS, with_centre=True)
        sent = rule.to_send(own, self.fetched)
        gathered = time.perf_counter()
        self._spent("gather", began, gathered)
        send_header()
        world.send(sent, self._master, Tag.WEIGHTS)
        if not rule.fetches_first:
            limit = self._round_seconds if rule.is_synchronous else ANSWER_SECONDS
            answer = self.receive_answer(limit, with_centre=True)
        received = time.perf_counter()
        self._spent("wait", gathered, received)
        rule.at_worker(own, self.fetched)
        if not rule.fetches_first:
            self.fetched[:] = own
        self._spent("update", received, time.perf_counter())
        return answer

    def join(
        self, step: int, described: Described | None, arrays: NDArray[np.uint8] | None
    ) -> None:
        """Joins the master after an own step, and receives its weights.

        Another rank describes a run without `described`, and sends the arrays of a new run without
        `arrays`.
        """
        run = described.model_dump_json() if described else None
        self._world.send_json({"step": step, "run": run}, self._master, Tag.JOIN)
        if arrays is not None:
            self._world.send(arrays, self._master, Tag.ARRAYS)
        self._world.receive(self.fetched, self._master, Tag.CENTRE)

    def lives(self) -> None:
        """Shows the master a sign of life."""
        self._world.send(np.zeros(1), self._master, Tag.ALIVE)

    def saved(self, steps: Iterable[int]) -> None:
        """Confirms a checkpoint of own steps; a master's are followed by those of its workers."""
        self._world.send(np.array([*steps], np.float64), self._master, Tag.SAVED)

    def recalibrated(self, weights: Floats) -> None:
        """Sends weights for inference."""
        self._world.send(weights, self._master, Tag.RECALIBRATED)

    def done(self, reason: StopReason, steps: Iterable[int]) -> None:
        """Confirms the end after own steps; see `saved`."""
        done = np.array([REASONS.index(reason), *steps], np.float64)
        self._world.send(done, self._master, Tag.DONE)

    def receive_answer(self, seconds: float | None = None, *, with_centre: bool = False) -> Answer:
        """Receives an answer, with the centre and the average if they follow; waits at most `seconds`."""
        values = np.empty(Answer.SIZE)
        self._world.wait(self._master, Tag.ANSWER, seconds=seconds)
        self._world.receive(values, self._master, Tag.ANSWER)
        answer = Answer.from_array(values)
        if with_centre:
            self._world.receive(self.fetched, self._master, Tag.CENTRE)
        if answer.wanted & Wanted.RECALIBRATE:  # at once: the master waits until it can send it
            self.average = np.empty_like(self.fetched)
            self._world.receive(self.average, self._master, Tag.CENTRE)
        return answer


class Networks(ABC):
    """The weights that a worker trains and exchanges.

    Attributes:
        flat: Their layout.
        learning_rate: Of the worker's optimizer.
    """

    flat: FlatLayout
    learning_rate: float

    @abstractmethod
    def read(self, into: Floats) -> None:
        """Copies the weights into a buffer."""

    @abstractmethod
    def write(self, weights: Floats) -> None:
        """Sets the weights."""

    @abstractmethod
    def described(self) -> Described:
        """Returns what the first worker tells its master."""

    @abstractmethod
    def arrays(self) -> dict[str, Any]:
        """Returns all arrays of a checkpoint, for a new run."""

    def recalibrate(self, average: Floats) -> Floats:
        """Returns an averaged generator with fitted statistics, in Keras order; if `described` says so."""
        raise NotImplementedError


class Worker(Exchange):
    """The exchange of one rank of a worker with its master."""

    # The point of all ranks is complete when a rank answers: its checkpoint has its copy.
    waits_for_copies = True

    def __init__(
        self,
        rank: Rank,
        networks: Networks,
        rule_state: Mapping[str, Any],
        *,
        trained_before: float = 0.0,
    ) -> None:
        self._rank, self._networks, self._trained_before = rank, networks, trained_before
        parallel, flat = rank.config.parallel, networks.flat
        self._every = parallel.sync_every
        self._rule = make_rule(
            parallel,
            workers=rank.siblings,
            trainable=flat.leading_size,
            learning_rate=networks.learning_rate,
        )
        self._rule.restore(rule_state)
        self._profile, self._trains_since = rank.profile, 0.0
        self._link = Link(rank, self._rule, flat.size)
        self._own = np.empty(flat.size, np.float32)
        self._trace = (0.0, 0)
        self._exchanged_step = -1

    def begin(self, step: int) -> None:
        """Joins the master; the first step starts from the centre."""
        centre, rank = self._link.fetched, self._rank
        if rank.is_leader:
            arrays = as_archive(self._networks.arrays()) if rank.sends_arrays else None
            self._link.join(
                step,
                self._networks.described() if rank.describes else None,
                None if arrays is None else np.frombuffer(arrays, np.uint8),
            )
        if step == 0:  # also of a run that resumes there: the rules have no arrays yet
            rank.group.broadcast(centre)
            self._networks.write(centre)
            self._rule.begin(centre)
        else:
            self._networks.read(self._own)
            centre[:] = self._own
        self._exchanged_step = step
        self._trains_since = time.perf_counter()

    def steps_until(self, step: int) -> int:
        """Returns the steps to the next multiple of `sync_every`."""
        return self._every - step % self._every

    def after_block(self, loop: Loop) -> None:
        """Exchanges after every `sync_every` steps."""
        if not self._trace[1]:
            self._trace = (loop.epoch_seconds, loop.step - self._exchanged_step)
        if loop.step % self._every == 0:
            self._exchange(loop)

    def before_last_save(self, loop: Loop) -> None:
        """Exchanges what was trained since the last exchange."""
        if loop.step != self._exchanged_step:
            self._exchange(loop, is_last=True)

    def waits(self) -> None:
        """Shows the master a sign of life."""
        if self._rank.is_leader:
            self._link.lives()

    def leave(self, step: int, reason: StopReason) -> None:
        """Confirms the end, and serves the master until all workers have ended."""
        if self._rank.is_leader:
            self._link.done(reason, [step])
            while not (answer := self._link.receive_answer()).wanted & Wanted.END:
                self._obey(answer, lambda: None, step)
        self._rank.group.gather(None)

    def arrays(self) -> dict[str, Any]:
        """Returns the arrays of the update rule."""
        return {f"{PREFIX}{name}": array for name, array in self._rule.state().items()}

    def _exchange(self, loop: Loop, *, is_last: bool = False) -> None:
        began = time.perf_counter()
        self._exchanged_step = loop.step
        self._profile.seconds.train = loop.train_seconds - self._trained_before
        self._profile.show("train", self._trains_since, began)
        self._networks.read(self._own)
        answer, group = np.zeros(Answer.SIZE), self._rank.group
        if self._rank.is_leader:
            answer = self._link.exchange(
                self._own, partial(self._send_header, loop), began
            ).as_array()
        now = time.perf_counter()
        group.broadcast(answer)
        if not self._rank.is_leader:  # it has waited for its leader's exchange
            waited, now = now, time.perf_counter()
            self._profile.spent("wait", waited, now)
        group.broadcast(self._own)
        self._networks.write(self._own)
        self._profile.spent("update", now, time.perf_counter())
        self._obey(Answer.from_array(answer), loop.save, loop.step, is_last=is_last)
        self._trains_since = time.perf_counter()

    def _send_header(self, loop: Loop) -> None:
        losses = loop.loss_sums.astype(np.float64)
        peak = peak_memory_bytes() or 0
        update = Update(loop.step, self._profile.seconds, *self._trace, peak, losses)
        self._rank.world.send(update.as_array(), self._rank.master, Tag.UPDATE)

    def _obey(
        self, answer: Answer, save: Callable[[], None], step: int, *, is_last: bool = False
    ) -> None:
        """Does what the master wants: a checkpoint, weights for inference, the end."""
        wanted, began, leads = answer.wanted, time.perf_counter(), self._rank.is_leader
        if wanted & Wanted.SAVE:
            save()
            if leads:
                self._link.saved([step])
        if wanted & Wanted.RECALIBRATE and leads:
            self._link.recalibrated(self._networks.recalibrate(self._link.average))
        if wanted & (Wanted.SAVE | Wanted.RECALIBRATE):
            self._profile.spent("save", began, time.perf_counter())
        if wanted & Wanted.STOP and not is_last:
            raise StopTraining(REASONS[answer.reason])


_CENTRE, _RULE, _LINK = "centre", "rule/", "link/"
"""Arrays of its checkpoint: its centre, its rule with its workers, and that with rank 0."""


class Parent(Above):
    """The master above a master."""

    def __init__(self, rank: Rank) -> None:
        self._rank, self._step = rank, rank.first_step
        self._own = rank.checkpoints()
        self._report = Report(rank.profile.seconds)
        self._exchanged_clock = 0

    def begin(self, master: Master, described: Described) -> None:
        """Joins rank 0, and begins with its weights, or with those of the own checkpoint."""
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
        master.centre, master.rule = Centre(self._link.fetched.copy(), flat.leading_size), rule

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

    def child_waits(self) -> None:
        """Shows rank 0 the sign of life of a worker."""
        self._link.lives()

    def end(self, master: Master) -> None:
        """Exchanges what came since the last exchange, saves, and waits for the other masters."""
        if self._report.workers:
            self.exchange(master)
        master.wait_for_point()
        point = self._new_point(master, Answer(Wanted.NOTHING))
        master.is_saved(point)
        self._save(point)
        while not self._own.is_copied(within=SIGN_SECONDS):
            self._link.lives()
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
