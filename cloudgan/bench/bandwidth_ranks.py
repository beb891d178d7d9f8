"""The ranks of `cloudgan bench bandwidth`: each pair in turn, while the others wait.

A message is answered by an empty one. The time of its way is that of both, less half of an exchange of
two empty messages, and at least half of the time of both. A turn counts the fastest of several such
exchanges: on busy cores the others measure the scheduler. The two ranks of a pair poll without a pause,
because a pause is longer than the way of a small message.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from cloudgan.bench.rank_world import as_rank
from cloudgan.core.documents import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from cloudgan.parallel.communicator import Communicator

_TAG = 1
_SMALL_BYTES = 65_536
_SMALL_REPEATS, _LARGE_REPEATS = 20, 5
"""Exchanges in one turn, of messages below `_SMALL_BYTES`, and of larger ones."""
_LONGEST_SECONDS = 20.0
"""After which no further round begins."""


class BandwidthRequest(BaseModel):
    """What the ranks measure.

    Attributes:
        sizes: Bytes of each message.
        rounds: Turns of each pair.
        result: File that rank 0 writes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sizes: tuple[int, ...]
    rounds: int
    result: Path


class MeasuredLinks(BaseModel):
    """Bandwidths in bytes per second.

    Attributes:
        turns: By size, sending rank, receiving rank and round; the diagonal is a copy in own memory.
        hosts: Name of the machine of each rank.
        seconds: Of all turns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
    hosts: tuple[str, ...]
    seconds: float


def measure_links(world: Communicator, sizes: tuple[int, ...], rounds: int) -> MeasuredLinks:
    """Measures each pair of ranks in turns; all ranks call it.

    Args:
        world: The ranks.
        sizes: Bytes of each message.
        rounds: Turns of each pair, fewer if they take longer than 20 s.

    Returns:
        The links, the same on every rank.
    """
    began = time.perf_counter()
    buffers = [np.ones(size, np.uint8) for size in sizes]
    own: list[list[list[float]]] = [[[] for _ in range(world.size)] for _ in sizes]
    for _ in range(rounds):
        for sender, receiver in product(range(world.size), repeat=2):
            world.gather(None)  # one pair at a time
            if world.rank not in {sender, receiver}:
                continue
            for found, buffer in zip(own, buffers, strict=True):
                seconds = _turn(world, sender, receiver, buffer)
                if world.rank == sender:
                    found[receiver].append(buffer.nbytes / seconds)
        if max(world.gather(time.perf_counter() - began)) > _LONGEST_SECONDS:
            break
    everyone = world.gather({"turns": own, "host": platform.node()})
    return MeasuredLinks.model_validate(
        {
            "turns": [[one["turns"][size] for one in everyone] for size in range(len(sizes))],
            "hosts": [one["host"] for one in everyone],
            "seconds": time.perf_counter() - began,
        }
    )


def _turn(world: Communicator, sender: int, receiver: int, buffer: NDArray[np.uint8]) -> float:
    """Returns the seconds of one way of a message, which the sender measures."""
    repeats = _SMALL_REPEATS if buffer.nbytes < _SMALL_BYTES else _LARGE_REPEATS
    if sender == receiver:
        copy = np.empty_like(buffer)
        return _fastest(lambda: np.copyto(copy, buffer), repeats)
    empty = np.empty(0, np.uint8)

    def exchange(message: NDArray[np.uint8]) -> None:
        if world.rank == sender:
            _complete(world.start_send(message, receiver, _TAG))
            _complete(world.start_receive(empty, receiver, _TAG))
        else:
            _complete(world.start_receive(message, sender, _TAG))
            _complete(world.start_send(empty, sender, _TAG))

    plain = _fastest(lambda: exchange(empty), _SMALL_REPEATS)
    both = _fastest(lambda: exchange(buffer), repeats)
    return max(both / 2, both - plain / 2)


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
