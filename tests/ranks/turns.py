"""Ranks as threads of one process that run one at a time, in the same order in each run.

A rank runs until it asks for a message, sends or waits; then the next one does. So a test can end all of
them at any message, as SIGKILL does, and sees at once that all wait for ever.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from cloudgan.ranks.mpi import ANYONE, Message, World, poll_until


class Killed(BaseException):
    """All ranks end at once; no handler of an error catches it."""


class Deadlock(AssertionError):
    """All ranks wait."""


@dataclass(eq=False)
class Letter:
    world: tuple
    source: int
    tag: int
    content: bytes
    is_taken: bool = False


@dataclass
class Turns:
    """The ranks' common state.

    Attributes:
        size: Number of ranks.
        kill_at: Number of the message, from 1, at which all are killed.
        rounds: Turns of each rank without a message or a step, after which none can follow.
        sent: Messages.
        count: Turns.
    """

    size: int
    kill_at: int | None = None
    rounds: int = 100
    sent: int = 0
    count: int = 0
    boxes: list[list[Letter]] = field(init=False)
    problem: BaseException | None = None

    def __post_init__(self):
        self.boxes = [[] for _ in range(self.size)]
        self._gathered: dict[tuple, list[list]] = {}
        self._locks = [threading.Semaphore(0) for _ in range(self.size)]
        self._live, self._idle = list(range(self.size)), 0

    def run(self, program):
        """Calls `program` with each rank; returns what they return.

        Raises:
            Killed: At the message `kill_at`.
            Deadlock: All wait.
        """
        found = [None] * self.size

        def act(rank):
            self._locks[rank].acquire()
            try:
                if not self.problem:
                    found[rank] = program(Rank(self, list(range(self.size)), rank))
            except BaseException as error:  # noqa: BLE001
                self.problem = self.problem or error
            self._idle = 0
            after = self._after(rank)
            self._live.remove(rank)
            if self._live:
                self._locks[after].release()

        threads = [
            threading.Thread(target=act, args=(rank,), name=f"{rank}", daemon=True)
            for rank in self._live
        ]
        for thread in threads:
            thread.start()
        self._locks[0].release()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        if self.problem:
            raise self.problem
        return found

    def next(self, rank, *, moved=False):
        """Lets the other ranks run; `moved`: this one has done something."""
        self.count += 1
        self._idle = 0 if moved else self._idle + 1
        if self._idle > self.rounds * self.size:
            self.problem = self.problem or Deadlock(f"ranks {self._live} wait for each other")
        after = self._after(rank)
        if after != rank:
            self._locks[after].release()
            self._locks[rank].acquire()
        if self.problem:
            raise self.problem

    def send(self, letter, to):
        self.sent += 1
        if self.sent == self.kill_at:
            self.problem = Killed()
            raise self.problem
        self.boxes[to].append(letter)

    def gather(self, world, value, meanwhile):
        everything = self._gathered.setdefault(world.name, [[] for _ in world.members])
        everything[world.rank].append(value)
        number = len(everything[world.rank])

        def have_all():
            self.next(world.member)
            return all(len(values) >= number for values in everything)

        poll_until(have_all, meanwhile)
        return [values[number - 1] for values in everything]

    def _after(self, rank):
        return self._live[(self._live.index(rank) + 1) % len(self._live)]


class Rank(World):
    """One rank of a world, or of a part of it; `members` are numbers in the whole world."""

    def __init__(self, turns, members, member, name=()):
        self.turns, self.members, self.member, self.name = turns, members, member, name
        self.rank, self.size = members.index(member), len(members)
        self._splits = 0

    def split(self, color):
        colors = self.gather(color)
        self._splits += 1
        members = [m for m, found in zip(self.members, colors, strict=True) if found == color]
        return Rank(self.turns, members, self.member, (*self.name, self._splits, color))

    def start_send(self, buffer, to, tag):
        self.turns.next(self.member, moved=True)
        letter = Letter(self.name, self.rank, tag, buffer.tobytes())
        self.turns.send(letter, self.members[to])

        def is_done():
            self.turns.next(self.member)
            return letter.is_taken  # as a large message, which waits for its receiver

        return is_done

    def start_receive(self, into, source, tag):
        letter = None

        def look():
            nonlocal letter
            self.turns.next(self.member)
            if letter is None and (letter := self._first(source, tag)):
                self.turns.boxes[self.member].remove(letter)
                letter.is_taken = True
                into[...] = np.frombuffer(letter.content, into.dtype).reshape(into.shape)
                self.turns.next(self.member, moved=True)
            return letter is not None

        look()
        return look

    def poll(self, source=ANYONE, tag=ANYONE):
        self.turns.next(self.member)
        letter = self._first(source, tag)
        return letter and Message(letter.source, letter.tag, len(letter.content))

    def broadcast(self, buffer):
        found = self.gather(buffer.tobytes() if self.rank == 0 else None)[0]
        buffer[...] = np.frombuffer(found, buffer.dtype).reshape(buffer.shape)

    def gather(self, value, *, meanwhile=None):
        return self.turns.gather(self, value, meanwhile)

    def _first(self, source, tag):
        for letter in self.turns.boxes[self.member]:
            is_here = letter.world == self.name
            if is_here and source in (ANYONE, letter.source) and tag in (ANYONE, letter.tag):
                return letter
        return None
