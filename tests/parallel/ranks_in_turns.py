"""Ranks as threads of one process that run one at a time, in the same order in each run.

A rank runs until it asks for a message, sends or waits; then the next one does. So a test can end all of
them at any message, as SIGKILL does, and sees at once that all wait for ever.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field

import numpy as np

from cloudgan.parallel.communicator import ANYONE, Message, as_bytes, grid, poll_until


class Killed(BaseException):
    """All ranks end at once; no handler of an error catches it."""


class Deadlock(AssertionError):
    """All ranks wait."""


@dataclass(eq=False)
class Letter:
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
        self._gathered: list[list] = [[] for _ in range(self.size)]
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
                    found[rank] = program(Rank(self, rank))
            except BaseException as error:  # noqa: BLE001
                self.problem = self.problem or error
            self._idle = 0
            after = self._after(rank)
            self._live.remove(rank)
            if self._live:
                self._locks[after].release()

        threads = [threading.Thread(target=act, args=(rank,), daemon=True) for rank in self._live]
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

    def gather(self, rank, value, meanwhile):
        mine = self._gathered[rank]
        mine.append(value)
        number = len(mine)

        def have_all():
            self.next(rank)
            return all(len(values) >= number for values in self._gathered)

        poll_until(have_all, meanwhile)
        return [values[number - 1] for values in self._gathered]

    def _after(self, rank):
        return self._live[(self._live.index(rank) + 1) % len(self._live)]


class Rank:
    """Implements the parts of `Communicator` that cells, masters and workers use."""

    def __init__(self, turns, rank):
        self.turns, self.rank, self.size = turns, rank, turns.size

    def torus(self, rows, columns):
        return grid(self, rows, columns)

    def send(self, buffer, to, tag):
        poll_until(self.start_send(buffer, to, tag))

    def send_json(self, value, to, tag):
        self.send(as_bytes(value), to, tag)

    def start_send(self, buffer, to, tag):
        self.turns.next(self.rank, moved=True)
        letter = Letter(self.rank, tag, buffer.tobytes())
        self.turns.send(letter, to)

        def is_done():
            self.turns.next(self.rank)
            return letter.is_taken  # as a large message, which waits for its receiver

        return is_done

    def start_receive(self, into, source, tag):
        letter = None

        def look():
            nonlocal letter
            self.turns.next(self.rank)
            if letter is None and (letter := self._first(source, tag)):
                self.turns.boxes[self.rank].remove(letter)
                letter.is_taken = True
                into[...] = np.frombuffer(letter.content, into.dtype).reshape(into.shape)
                self.turns.next(self.rank, moved=True)
            return letter is not None

        look()
        return look

    def poll(self, source=ANYONE, tag=ANYONE):
        self.turns.next(self.rank)
        letter = self._first(source, tag)
        return letter and Message(letter.source, letter.tag, len(letter.content))

    def wait(self, source=ANYONE, tag=ANYONE, *, seconds=None, meanwhile=None):
        return poll_until(lambda: self.poll(source, tag), meanwhile, seconds=seconds)

    def receive(self, into, source, tag):
        poll_until(self.start_receive(into, source, tag))

    def receive_json(self, message):
        content = np.empty(message.bytes, np.uint8)
        self.receive(content, message.source, message.tag)
        return json.loads(content.tobytes())

    def gather(self, value, *, meanwhile=None):
        return self.turns.gather(self.rank, value, meanwhile)

    def _first(self, source, tag):
        for letter in self.turns.boxes[self.rank]:
            if source in (ANYONE, letter.source) and tag in (ANYONE, letter.tag):
                return letter
        return None
