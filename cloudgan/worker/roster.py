"""Who is there, and when all begin together: what the chief's parent knows. No clock, no network."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cloudgan.core.heartbeat import Phase
    from cloudgan.worker.metadata import Notice

_FRESH_SECONDS = 5.0


class Member(NamedTuple):
    """What a worker last said of itself.

    Attributes:
        incarnation: Its process: a pod that takes another's place has a new one.
        generation: The last one in which it trained.
        seen_seconds: When it said so.
        notice: That its machine is taken away; None: it is not.
    """

    incarnation: str
    phase: Phase
    generation: int
    seen_seconds: float
    notice: Notice | None = None


class Answer(NamedTuple):
    """What the chief tells a worker.

    Attributes:
        generation: The newest one.
        go: Whether the worker shall begin to train in it.
        regroup: Whether the worker shall end its training: somebody waits to begin anew.
        ended: The chief's own exit code, once it has one.
    """

    generation: int
    go: bool = False
    regroup: bool = False
    ended: int | None = None


class Roster:
    """All workers of a run, the chief (index 0) among them."""

    def __init__(self, world: int, *, fresh_seconds: float = _FRESH_SECONDS) -> None:
        self._world, self._fresh_seconds = world, fresh_seconds
        self._members: dict[int, Member] = {}
        self._began: dict[int, str] = {}
        self._noticed: dict[str, tuple[int, Notice]] = {}
        self._lock = threading.Lock()
        self._newest = 0
        self.generation = 0
        self.ended: int | None = None

    def join(self, index: int, member: Member) -> Answer:
        """Notes what a worker says, and answers it."""
        with self._lock:
            self._members[index] = member
            if member.notice and member.incarnation not in self._noticed:
                self._noticed[member.incarnation] = (index, member.notice)
            self._newest = max(self._newest, member.generation)
            began = self._began.get(index) == member.incarnation
            return Answer(
                self.generation,
                go=member.phase == "waiting"
                and began
                and member.generation < self.generation
                and self._who_waits() is None,
                regroup=member.phase == "training" and self._is_over(),
                ended=self.ended,
            )

    def all_wait(self, now_seconds: float) -> bool:
        """Whether a generation can begin."""
        with self._lock:
            return self._all_wait(now_seconds)

    def begin(self, now_seconds: float) -> int | None:
        """Begins a generation where all workers wait for one; returns its number."""
        with self._lock:
            if not self._all_wait(now_seconds):
                return None
            self._began = {i: member.incarnation for i, member in self._members.items()}
            self._newest += 1
            self.generation = self._newest
            return self.generation

    def notices(self) -> dict[int, Notice]:
        """Whose machines are being taken away."""
        with self._lock:
            return {i: one.notice for i, one in sorted(self._members.items()) if one.notice}

    def all_notices(self) -> tuple[tuple[int, Notice], ...]:
        """Every notice so far, also of workers that were replaced, in the order in which they came."""
        with self._lock:
            return tuple(self._noticed.values())

    def absent(self, now_seconds: float) -> tuple[int, ...]:
        """Who was not heard of lately."""
        with self._lock:
            return self._absent(now_seconds)

    def who_waits(self) -> int | None:
        """Who trained in this generation, or should have, and is back or was replaced."""
        with self._lock:
            return self._who_waits()

    def _all_wait(self, now_seconds: float) -> bool:
        waiting = all(member.phase == "waiting" for member in self._members.values())
        return waiting and not self._absent(now_seconds)

    def _is_over(self) -> bool:
        """Whether who trains now trains in vain."""
        chief = self._members.get(0)
        if chief is None or self._began.get(0) != chief.incarnation:
            return True  # they began under another chief
        return self._who_waits() is not None

    def _who_waits(self) -> int | None:
        for index, incarnation in self._began.items():
            member = self._members[index]
            if member.incarnation != incarnation:
                return index
            if member.generation >= self.generation and member.phase in {"waiting", "staging"}:
                return index
        return None

    def _absent(self, now_seconds: float) -> tuple[int, ...]:
        def is_fresh(index: int) -> bool:
            member = self._members.get(index)
            return member is not None and now_seconds - member.seen_seconds <= self._fresh_seconds

        return tuple(index for index in range(self._world) if not is_fresh(index))
