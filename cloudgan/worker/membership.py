"""How a worker belongs to its run: as the chief, who leads, or as a follower, who asks."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cloudgan.stores import StoreError
from cloudgan.worker.control import ask_chief
from cloudgan.worker.roster import Answer, Member, Roster

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.worker.limits import Limits
    from cloudgan.worker.peers import Peers
    from cloudgan.worker.state import Standing, WorkerState

_STORE_PAUSE_SECONDS = 5.0


class Membership(Protocol):
    """What the generations need to know of the other workers."""

    def go(self) -> int | None:
        """The generation to begin now; None while this worker has to wait."""

    def why_regroup(self) -> str | None:
        """Why the present generation is over; None while it is not."""

    def missing(self) -> tuple[int, ...]:
        """Which workers were not heard of lately."""

    def is_over(self) -> bool:
        """Whether the run has ended well, so that nothing is left to wait for."""

    def hurry(self) -> None:
        """Tells at once what changed here."""

    def close(self, exit_code: int) -> None:
        """Tells the others that this one ends."""


class Chief:
    """Worker 0: keeps the roster and says when all begin."""

    def __init__(
        self, state: WorkerState, roster: Roster, before_begin: Callable[[], None]
    ) -> None:
        """Calls `before_begin` once before each generation; where the store fails, all wait on."""
        self._state, self._roster, self._before_begin = state, roster, before_begin
        self._is_prepared = False
        self._not_before_seconds = float("-inf")

    def go(self) -> int | None:
        """Begins a generation when all wait."""
        self._note()
        now = time.monotonic()
        if not self._roster.all_wait(now) or now < self._not_before_seconds:
            return None
        if not self._is_prepared:
            try:
                self._before_begin()
            except StoreError:
                self._not_before_seconds = time.monotonic() + _STORE_PAUSE_SECONDS
                return None
            self._is_prepared = True
        self._note()
        generation = self._roster.begin(time.monotonic())
        if generation is not None:
            self._is_prepared = False
        return generation

    def why_regroup(self) -> str | None:
        """Who trained with us and now waits."""
        self._note()
        who = self._roster.who_waits()
        return None if who is None else f"worker {who} waits to begin anew"

    def missing(self) -> tuple[int, ...]:
        """Which workers did not ask lately."""
        self._note()
        return self._roster.absent(time.monotonic())

    def is_over(self) -> bool:
        """Only the chief's own training ends a run."""
        return False

    def hurry(self) -> None:
        """Notes it: the others ask."""
        self._note()

    def close(self, exit_code: int) -> None:
        """Answers with its exit code from now on."""
        self._note()
        self._roster.ended = exit_code

    def _note(self) -> None:
        phase, generation, notice = self._state.standing
        now = time.monotonic()
        member = Member(self._state.incarnation, phase, generation, now, notice)
        self._roster.join(0, member)


class _Heard(NamedTuple):
    standing: Standing
    answer: Answer


class Follower:
    """Any other worker: a thread asks the chief, about every second."""

    def __init__(
        self,
        peers: Peers,
        state: WorkerState,
        limits: Limits,
        ask: Callable[..., Answer] = ask_chief,
    ) -> None:
        self._peers, self._state, self._limits, self._ask = peers, state, limits, ask
        self._heard: _Heard | None = None
        self._heard_seconds = time.monotonic()
        self._changed = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="join", daemon=True)
        self._thread.start()

    def go(self) -> int | None:
        """The generation that the chief began, if it counted this worker in."""
        heard = self._heard
        if heard is None or not heard.answer.go or heard.standing != self._state.standing:
            return None
        return heard.answer.generation

    def why_regroup(self) -> str | None:
        """The chief said so, or says nothing any more."""
        silent = self._silent_seconds()
        if silent > self._limits.silence_seconds:
            return f"worker 0 did not answer for {silent:.0f} s"
        heard = self._heard
        if heard and heard.answer.regroup and heard.standing == self._state.standing:
            return "the others wait to begin anew"
        return None

    def missing(self) -> tuple[int, ...]:
        """The chief, where it is silent; of the others the chief knows."""
        return (0,) if self._silent_seconds() > self._limits.fresh_seconds else ()

    def is_over(self) -> bool:
        """Whether the chief said that it ended well."""
        return self._heard is not None and self._heard.answer.ended == 0

    def hurry(self) -> None:
        """Asks now."""
        self._changed.set()

    def close(self, exit_code: int) -> None:
        """Asks no more."""
        del exit_code
        self._closed = True
        self._changed.set()

    def _silent_seconds(self) -> float:
        return time.monotonic() - self._heard_seconds

    def _run(self) -> None:
        address = self._peers.control(0)
        pause = self._limits.join_every_seconds
        while not self._closed:
            standing = self._state.standing
            pause = self._limits.join_every_seconds
            try:
                answer = self._ask(address, self._state.index, self._state.incarnation, standing)
            except socket.gaierror:
                pause = self._limits.resolve_every_seconds  # a pod that is made has no name yet
            except (OSError, ValueError):
                pass
            else:
                self._heard, self._heard_seconds = _Heard(standing, answer), time.monotonic()
            self._changed.wait(pause)
            self._changed.clear()
