"""Threads that share a batch, and the memory they work in."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Floats = np.ndarray[Any, np.dtype[np.float32]]
ALIGNMENT = 64
"""Bytes: a cache line, and what TensorFlow asks of memory that it takes over without a copy."""

_ROOM = threading.local()


class Team:
    """Threads that share the showers of a batch."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cloudgan-native")

    def parts(self, count: int) -> int:
        """Parts that `count` showers are shared in."""
        return max(1, min(self._threads, count))

    def share(self, work: Callable[[int, range], None], count: int) -> None:
        """Calls `work` with the number and the range of each part of range(count)."""
        parts = self.parts(count)
        ends = [count * part // parts for part in range(parts + 1)]
        ranges = [range(a, b) for a, b in pairwise(ends)]
        if parts == 1:
            work(0, ranges[0])
            return
        for done in [self._pool.submit(work, *each) for each in enumerate(ranges)]:
            done.result()


def empty(shape: tuple[int, ...]) -> Floats:
    """Returns an aligned array that is not filled."""
    count = int(np.prod(shape))
    raw = np.empty(4 * count + ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % ALIGNMENT
    return raw[begin : begin + 4 * count].view(np.float32).reshape(shape)


def scratch(sizes: Sequence[int]) -> list[int]:
    """Addresses of this thread's arrays of so many float32; they grow and are never given back."""
    room: dict[int, Floats] = _ROOM.__dict__.setdefault("arrays", {})
    for number, size in enumerate(sizes):
        if number not in room or room[number].size < size:
            room[number] = empty((size,))
    return [room[number].ctypes.data for number in range(len(sizes))]
