"""What ranks can do: send, receive, wait and agree; and a process without MPI as a world of one rank.

Every wait polls and sleeps in between: a blocked MPI call uses a whole core. A wait that lasts longer
than its limit ends with `TryAgain`, because a rank that froze or died sends nothing.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError
from cloudgan.ranks.silence import SilenceClock, silent_error

ANYONE = -1
"""As source: a message from any rank."""

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 5e-5, 2e-3, 1.4
"""Seconds; a master that waits at the longest pause uses about a hundredth of a core."""
_Found = TypeVar("_Found")


class Message(NamedTuple):
    """A message of a kind that waits to be received: the rank that sent it, and its size."""

    source: int
    tag: int
    bytes: int


class World(ABC):
    """A set of `size` ranks, numbered from 0, that exchange messages; this process is `rank`."""

    rank: int
    size: int

    @abstractmethod
    def split(self, color: int) -> Self:
        """Returns the ranks that gave the same `color`, in their order; all ranks call it."""

    @abstractmethod
    def start_send(self, buffer: NDArray[Any], to: int, tag: int) -> Callable[[], bool]:
        """Starts to send an array; returns the function that says whether it may be changed."""

    @abstractmethod
    def start_receive(self, into: NDArray[Any], source: int, tag: int) -> Callable[[], bool]:
        """Starts to receive into an array; returns the function that says whether it has arrived."""

    @abstractmethod
    def poll(self, source: int = ANYONE, tag: int = ANYONE) -> Message | None:
        """Returns the next message that waits; None if there is none."""

    @abstractmethod
    def broadcast(self, buffer: NDArray[Any]) -> None:
        """Copies the array of rank 0 to all ranks; all ranks call it."""

    @abstractmethod
    def gather(self, value: Any, *, meanwhile: Callable[[], None] | None = None) -> list[Any]:
        """Returns the values of all ranks, by rank, to all of them; small JSON values.

        `meanwhile` is called before each look; it may raise.
        """

    def send(self, buffer: NDArray[Any], to: int, tag: int) -> None:
        """Sends an array and waits until it may be changed."""
        poll_until(self.start_send(buffer, to, tag))

    def receive(self, into: NDArray[Any], source: int, tag: int) -> None:
        """Receives a message that has arrived or will arrive into an array of its size."""
        poll_until(self.start_receive(into, source, tag))

    def wait(
        self,
        source: int = ANYONE,
        tag: int = ANYONE,
        *,
        seconds: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Message:
        """Waits for a message, without receiving it.

        Raises:
            TryAgain: No message came in time.
        """
        name = "any rank" if source == ANYONE else f"rank {source}"
        return poll_until(lambda: self.poll(source, tag), meanwhile, seconds=seconds, name=name)

    def send_json(self, value: Any, to: int, tag: int) -> None:
        """Sends a small value as JSON."""
        self.send(as_bytes(value), to, tag)

    def receive_json(self, message: Message) -> Any:
        """Receives a message of `send_json` for which `wait` or `poll` returned."""
        content = np.empty(message.bytes, np.uint8)
        self.receive(content, message.source, message.tag)
        return parse_json(content.tobytes(), f"a message of rank {message.source}")

    def exchange(
        self,
        outgoing: Mapping[int, NDArray[Any]],
        incoming: Mapping[int, NDArray[Any]],
        tag: int,
    ) -> None:
        """Sends and receives arrays at the same time, and waits until all of them have arrived.

        No order of the ranks can block another one: everything is posted before the first wait.

        One array may be sent to several ranks; incoming ones have the right size.
        """
        pending = [self.start_receive(into, source, tag) for source, into in incoming.items()]
        pending += [self.start_send(buffer, to, tag) for to, buffer in outgoing.items()]
        for is_done in pending:
            poll_until(is_done)


class Alone(World):
    """The only rank of a world without MPI; what it sends to itself waits in order."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._waiting: list[tuple[int, bytes]] = []

    def split(self, color: int) -> Alone:
        """Returns a world of this process."""
        del color
        return Alone()

    def start_send(self, buffer: NDArray[Any], to: int, tag: int) -> Callable[[], bool]:
        """Keeps a copy of the array, which may be changed at once."""
        if to:
            raise ConfigError(f"rank {to} is not one of {self.size}")
        self._waiting.append((tag, buffer.tobytes()))
        return lambda: True

    def start_receive(self, into: NDArray[Any], source: int, tag: int) -> Callable[[], bool]:
        """Returns the function that receives the message once it was sent."""
        if source:
            raise ConfigError(f"rank {source} is not one of {self.size}")
        arrived = False

        def look() -> bool:
            nonlocal arrived
            numbers = (n for n, (found, _) in enumerate(self._waiting) if found == tag)
            if not arrived and (number := next(numbers, None)) is not None:
                content = self._waiting.pop(number)[1]
                into[...] = np.frombuffer(content, into.dtype).reshape(into.shape)
                arrived = True
            return arrived

        return look

    def poll(self, source: int = ANYONE, tag: int = ANYONE) -> Message | None:
        """Returns the next message that waits; None if there is none."""
        del source
        waiting = (
            Message(0, found, len(content))
            for found, content in self._waiting
            if tag in (ANYONE, found)
        )
        return next(waiting, None)

    def broadcast(self, buffer: NDArray[Any]) -> None:
        """Does nothing: this rank has the array."""

    def gather(self, value: Any, *, meanwhile: Callable[[], None] | None = None) -> list[Any]:
        """Returns the value of this rank."""
        del meanwhile
        return [value]


def poll_until(
    look: Callable[[], _Found | None],
    meanwhile: Callable[[], None] | None = None,
    *,
    seconds: float | None = None,
    name: str = "a rank",
) -> _Found:
    """Returns the first true value of `look`; sleeps between two calls.

    `meanwhile` is called before each look, so that one who never has to wait calls it, too; it may raise.
    `name` is of what is waited for.

    Raises:
        TryAgain: The limit has passed.
    """
    pause, clock = _FIRST_PAUSE, SilenceClock()
    while True:
        if meanwhile:
            meanwhile()
        if found := look():
            return found
        if seconds is not None and clock.look() > seconds:
            raise silent_error(name, seconds)
        time.sleep(pause)
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


def as_bytes(value: Any) -> NDArray[np.uint8]:
    """Returns a small value as JSON that can be sent."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)
