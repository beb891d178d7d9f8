"""The exchange of one rank with the master above it: of a worker, or of a master below rank 0."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from cloudgan.parallel.messages import Answer, Tag, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.parallel.communicator import Communicator
    from cloudgan.parallel.profile import Profile
    from cloudgan.parallel.update_rules import Floats, UpdateRule

MASTER_SILENCE_SECONDS = 300.0
"""A master answers within milliseconds, while it validates too."""


class MasterLink:
    """Sends the weights of a rank to its master, and moves them by the answer.

    Attributes:
        rank: Of the master.
        fetched: The master's weights as they were last received, or those from which the rank
            continued.
        average: Of the centre; received with `Wanted.RECALIBRATE`.
    """

    def __init__(
        self, world: Communicator, master: int, rule: UpdateRule, size: int, profile: Profile
    ) -> None:
        """Prepares buffers of `size` values for the weights."""
        self._world, self.rank, self._rule, self._profile = world, master, rule, profile
        self.fetched = np.empty(size, np.float32)
        self.average = np.empty(0, np.float32)

    def exchange(self, own: Floats, send_header: Callable[[], None], began: float) -> Answer:
        """Sends and receives; changes `own` to the weights to continue with.

        Args:
            own: Weights of this rank.
            send_header: Sends what stands before the weights.
            began: `time.perf_counter` when this rank began to gather its weights.

        Raises:
            TryAgain: The master is silent.
        """
        world, rule, spent = self._world, self._rule, self._profile.spent
        answer = Answer(Wanted.NOTHING)
        if rule.fetches_first:
            world.send(np.zeros(1), self.rank, Tag.FETCH)
            answer = self._receive(MASTER_SILENCE_SECONDS)
        sent = rule.to_send(own, self.fetched)
        gathered = time.perf_counter()
        spent("gather", began, gathered)
        send_header()
        world.send(sent, self.rank, Tag.WEIGHTS)
        if not rule.fetches_first:
            answer = self._receive(MASTER_SILENCE_SECONDS)
        received = time.perf_counter()
        spent("wait", gathered, received)
        rule.at_worker(own, self.fetched)
        if not rule.fetches_first:
            self.fetched[:] = own
        spent("update", received, time.perf_counter())
        return answer

    def receive_centre(self) -> None:
        """Receives the weights of the master."""
        self._world.receive(self.fetched, self.rank, Tag.CENTRE)

    def receive_answer(self, seconds: float | None = None) -> Answer:
        """Receives an answer, and the average with it; waits at most `seconds`."""
        answer = self._receive_header(seconds)
        self._receive_average(answer)
        return answer

    def _receive(self, seconds: float) -> Answer:
        """Receives an answer with the centre."""
        answer = self._receive_header(seconds)
        self.receive_centre()
        self._receive_average(answer)
        return answer

    def _receive_header(self, seconds: float | None) -> Answer:
        values = np.empty(Answer.SIZE)
        self._world.wait(self.rank, Tag.ANSWER, seconds=seconds)
        self._world.receive(values, self.rank, Tag.ANSWER)
        return Answer.from_array(values)

    def _receive_average(self, answer: Answer) -> None:
        """Receives the average at once: the master waits until it can send it."""
        if answer.wanted & Wanted.RECALIBRATE:
            self.average = np.empty_like(self.fetched)
            self._world.receive(self.average, self.rank, Tag.CENTRE)
