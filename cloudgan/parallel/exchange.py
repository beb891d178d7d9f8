"""The worker's side: exchanges weights with its master between two blocks of steps.

In a group only the leader speaks with the master; the members receive its weights afterwards, so
that all of them continue with the same bits. Imports no TensorFlow: `gan_exchange` connects it with a
training run, and `bench parallel` with a worker that sleeps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cloudgan.parallel.master_link import MasterLink
from cloudgan.parallel.messages import Answer, Tag, Update, Wanted
from cloudgan.parallel.place import PREFIX
from cloudgan.training.stopping import REASONS, StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from cloudgan.parallel.place import Place
    from cloudgan.parallel.profile import Profile
    from cloudgan.parallel.update_rules import Floats, UpdateRule
    from cloudgan.schema.record_line import StopReason


class Loop(Protocol):
    """What an exchange needs of the loop that trains (`training.train_loop.TrainLoop`)."""

    step: int
    train_seconds: float
    epoch_seconds: float

    @property
    def loss_sums(self) -> NDArray[Any]:
        """Sums of the losses over all steps of this process."""

    def save(self) -> None:
        """Saves a checkpoint of this step."""


@dataclass(frozen=True)
class Networks:
    """The weights that are exchanged.

    Attributes:
        size: Values in the flat buffer.
        read: Copies the weights into a buffer.
        write: Sets the weights.
        recalibrate: Returns an average of the generator with fitted statistics, from a buffer with
            the average; None: not needed.
        joining: What the first worker joins with.
        arrays: Returns an archive of all arrays of a checkpoint, for a new run.
    """

    size: int
    read: Callable[[Floats], None]
    write: Callable[[Floats], None]
    recalibrate: Callable[[Floats], Floats] | None
    joining: Callable[[], dict[str, Any]]
    arrays: Callable[[], NDArray[np.uint8]]


class WorkerExchange:
    """Implements `training.train_loop.Exchange` for one rank of a worker."""

    def __init__(
        self,
        place: Place,
        networks: Networks,
        rule: UpdateRule,
        profile: Profile,
        *,
        every: int,
        is_new: bool,
        trained_before: float = 0.0,
    ) -> None:
        """Prepares the exchange.

        Args:
            place: Of this rank.
            networks: Their weights.
            rule: Of the worker; restored, unless `is_new`.
            profile: Of this rank.
            every: Steps between exchanges.
            is_new: Whether the run begins with its first step.
            trained_before: Seconds of training of earlier processes of this worker.
        """
        self._place, self._networks, self._rule = place, networks, rule
        self._every, self._is_new, self._trained_before = every, is_new, trained_before
        self._profile, self._trains_since = profile, 0.0
        self._link = MasterLink(place.world, place.master, rule, networks.size, profile)
        self._own = np.empty(networks.size, np.float32)
        self._trace = (0.0, 0)
        self._exchanged_step = -1

    def begin(self, step: int) -> None:
        """Joins the master; a new run starts from the centre."""
        centre = self._link.fetched
        if self._place.is_leader:
            self._join(step)
            self._link.receive_centre()
        if self._is_new:
            self._place.group.broadcast(centre)
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

    def leave(self, step: int, reason: StopReason) -> None:
        """Confirms the end, and serves the master until all workers have ended."""
        if self._place.is_leader:
            done = np.array([REASONS.index(reason), step], np.float64)
            self._place.world.send(done, self._place.master, Tag.DONE)
            while not (answer := self._link.receive_answer()).wanted & Wanted.END:
                self._obey(answer, lambda: None, step)
        self._place.group.gather(None)

    def arrays(self) -> Mapping[str, Any]:
        """Returns the arrays of the update rule."""
        return {f"{PREFIX}{name}": array for name, array in self._rule.state().items()}

    def _join(self, step: int) -> None:
        place = self._place
        more = self._networks.joining() if place.is_first_of_master else {}
        place.world.send_json({"step": step, **more}, place.master, Tag.JOIN)
        if place.number == 0 and self._is_new:
            place.world.send(self._networks.arrays(), place.master, Tag.ARRAYS)

    def _exchange(self, loop: Loop, *, is_last: bool = False) -> None:
        began = time.perf_counter()
        self._exchanged_step = loop.step
        self._profile.seconds.train = loop.train_seconds - self._trained_before
        self._profile.show("train", self._trains_since, began)
        self._networks.read(self._own)
        answer = np.zeros(Answer.SIZE)
        if self._place.is_leader:
            found = self._link.exchange(self._own, partial(self._send_header, loop), began)
            answer = found.as_array()
        now = time.perf_counter()
        self._place.group.broadcast(answer)
        if not self._place.is_leader:  # it has waited for its leader's exchange
            now = self._waited(now)
        self._place.group.broadcast(self._own)
        self._networks.write(self._own)
        self._profile.spent("update", now, time.perf_counter())
        self._obey(Answer.from_array(answer), loop.save, loop.step, is_last=is_last)
        self._trains_since = time.perf_counter()

    def _waited(self, since: float) -> float:
        """Counts a wait; returns its end."""
        now = time.perf_counter()
        self._profile.spent("wait", since, now)
        return now

    def _send_header(self, loop: Loop) -> None:
        losses = loop.loss_sums.astype(np.float64)
        update = Update(loop.step, self._profile.seconds, *self._trace, losses)
        self._place.world.send(update.as_array(), self._place.master, Tag.UPDATE)

    def _obey(self, answer: Answer, save: Any, step: int, *, is_last: bool = False) -> None:
        """Does what the master wants: a checkpoint, weights for inference, the end.

        Raises:
            StopTraining: The run ends.
        """
        world, master, wanted = self._place.world, self._place.master, answer.wanted
        began = time.perf_counter()
        if wanted & Wanted.SAVE:
            save()
            if self._place.is_leader:
                world.send(np.array([step], np.float64), master, Tag.SAVED)
        if wanted & Wanted.RECALIBRATE and self._place.is_leader:
            assert self._networks.recalibrate  # noqa: S101  the worker said so when it joined
            world.send(self._networks.recalibrate(self._link.average), master, Tag.RECALIBRATED)
        if wanted & (Wanted.SAVE | Wanted.RECALIBRATE):
            self._profile.spent("save", began, time.perf_counter())
        if wanted & Wanted.STOP and not is_last:
            raise StopTraining(REASONS[answer.reason])
