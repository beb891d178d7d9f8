"""The ranks of `cloudgan bench bandwidth`: each pair in turn, while the others wait.

A message is answered by an empty one. The time of its way is that of both, less half of the fastest
exchange of two empty messages of all turns, and at least half of the time of both. A turn counts the fastest
of several exchanges: on busy cores the others measure the scheduler. The two ranks of a pair poll without
a pause, because a pause is longer than the way of a small message.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cloudgan.bench.rank_world import as_rank
from cloudgan.core.document import Document
from cloudgan.core.documents import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from cloudgan.parallel.communicator import Communicator

_TAG = 1
_SMALL_BYTES = 65_536
_SMALL_REPEATS, _LARGE_REPEATS = 200, 10
"""Exchanges in one turn, of messages below `_SMALL_BYTES`, and of larger ones."""
_HUGE_PAGE_BYTES = 2 << 20
_LONGEST_SECONDS = 18.0
"""After which no further round begins."""


class BandwidthRequest(Document):
    """What the ranks measure.

    Attributes:
        sizes: Bytes of each message.
        rounds: Turns of each pair.
        result: File that rank 0 writes.
    """

    sizes: tuple[int, ...]
    rounds: int
    result: Path


class MeasuredLinks(Document):
    """Bandwidths in bytes per second.

    Attributes:
        turns: By size, sending rank, receiving rank and round; the diagonal is a copy in own memory.
        hosts: Name of the machine of each rank.
        seconds: Of all turns.
    """

    turns: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
    hosts: tuple[str, ...]
    seconds: float


def measure_links(world: Communicator, sizes: tuple[int, ...], rounds: int) -> MeasuredLinks:
    """Measures each pair of ranks in turns; all ranks call it.

    Args:
        world: The ranks.
        sizes: Bytes of each message.
        rounds: Turns of each pair, fewer if they take longer than 18 s.

    Returns:
        The links, the same on every rank.
    """
    began = time.perf_counter()
    buffers = [_message(size) for size in sizes]
    own: list[list[list[_Turn]]] = [[[] for _ in range(world.size)] for _ in sizes]
    for _ in range(rounds):
        for sender, receiver in product(range(world.size), repeat=2):
            world.gather(None)  # one pair at a time
            if world.rank not in {sender, receiver}:
                continue
            for found, buffer in zip(own, buffers, strict=True):
                turn = _turn(world, sender, receiver, buffer)
                if world.rank == sender:
                    found[receiver].append(turn)
        if max(world.gather(time.perf_counter() - began)) > _LONGEST_SECONDS:
            break
    speeds = [
        [_speeds(turns, size) for turns in found] for found, size in zip(own, sizes, strict=True)
    ]
    everyone = world.gather({"turns": speeds, "host": platform.node()})
    return MeasuredLinks.model_validate(
        {
            "turns": [[one["turns"][size] for one in everyone] for size in range(len(sizes))],
            "hosts": [one["host"] for one in everyone],
            "seconds": time.perf_counter() - began,
        }
    )


def _message(size: int) -> NDArray[np.uint8]:
    """Returns a buffer in huge pages only.

    Linux gives large NumPy arrays huge pages where they contain whole ones, which depends on their address:
    a copy from 5 MB with one huge page less is slower by a third, in some processes and not in others.
    """
    pages = -(-size // _HUGE_PAGE_BYTES)
    whole = np.ones((pages + 1) * _HUGE_PAGE_BYTES, np.uint8)
    first = -whole.ctypes.data % _HUGE_PAGE_BYTES
    return whole[first : first + size]


class _Turn(NamedTuple):
    """Seconds of a message with its answer, and of two empty messages; of a copy, and 0."""

    both: float
    empty: float


def _speeds(turns: Sequence[_Turn], size: int) -> list[float]:
    """Returns the bytes per second of one way in each turn."""
    empty = min(turn.empty for turn in turns)
    return [size / max(turn.both / 2, turn.both - empty / 2) for turn in turns]


def _turn(world: Communicator, sender: int, receiver: int, buffer: NDArray[np.uint8]) -> _Turn:
    """Measures a pair once; the sender's times count."""
    repeats = _SMALL_REPEATS if buffer.nbytes < _SMALL_BYTES else _LARGE_REPEATS
    if sender == receiver:
        copy = np.empty_like(buffer)
        return _Turn(_fastest(lambda: np.copyto(copy, buffer), repeats), 0.0)
    empty = np.empty(0, np.uint8)

    def exchange(message: NDArray[np.uint8]) -> None:
        if world.rank == sender:
            _complete(world.start_send(message, receiver, _TAG))
            _complete(world.start_receive(empty, receiver, _TAG))
        else:
            _complete(world.start_receive(message, sender, _TAG))
            _complete(world.start_send(empty, sender, _TAG))

    plain = _fastest(lambda: exchange(empty), _SMALL_REPEATS)
    return _Turn(_fastest(lambda: exchange(buffer), repeats), plain)


def _fastest(work: Callable[[], object], repeats: int) -> float:
    """Returns the seconds of the fastest of several calls, after one that counts for nothing."""
    work()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def _complete(is_done: Callable[[], bool]) -> None:
    while not is_done():
        os.sched_yield()  # the other rank may need this core


def main(path: Path) -> None:
    """Runs this process' rank of the request in a file; rank 0 writes the links."""
    request = read_json(path, BandwidthRequest)

    def work(world: Communicator) -> None:
        found = measure_links(world, request.sizes, request.rounds)
        if world.rank == 0:
            write_json(request.result, found)

    as_rank(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
