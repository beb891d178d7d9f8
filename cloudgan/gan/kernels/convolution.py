"""Runs the three programs of a layer over a batch of showers, in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from cloudgan.gan.kernels import program
from cloudgan.gan.kernels.compiler import compile_function
from cloudgan.gan.kernels.emitter import LANES
from cloudgan.gan.kernels.geometry import Geometry, blocks_of
from cloudgan.gan.kernels.program import Fusion, Program

Floats = np.ndarray[Any, np.dtype[np.float32]]
ALIGNMENT = 64
"""Bytes: a cache line, and the alignment that TensorFlow needs to take over memory without a copy."""

_ROOM = threading.local()


class Team:
    """Threads that share the showers of a batch."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="cloudgan-native")

    def parts(self, count: int) -> int:
        """Number of parts for `count` showers."""
        return max(1, min(self._threads, count))

    def share(self, work: Callable[[int, range], None], count: int) -> None:
        """Calls `work` with the index and the range of each part of range(count)."""
        parts = self.parts(count)
        ends = [count * part // parts for part in range(parts + 1)]
        ranges = [range(a, b) for a, b in pairwise(ends)]
        if parts == 1:
            work(0, ranges[0])
            return
        for done in [self._pool.submit(work, *each) for each in enumerate(ranges)]:
            done.result()


def empty(shape: tuple[int, ...]) -> Floats:
    """Returns an aligned, uninitialised array."""
    count = int(np.prod(shape))
    raw = np.empty(4 * count + ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % ALIGNMENT
    return raw[begin : begin + 4 * count].view(np.float32).reshape(shape)


def scratch(sizes: Sequence[int]) -> list[int]:
    """Addresses of this thread's scratch arrays of these float32 sizes; they grow and are never freed."""
    room: dict[int, Floats] = _ROOM.__dict__.setdefault("arrays", {})
    for number, size in enumerate(sizes):
        if number not in room or room[number].size < size:
            room[number] = empty((size,))
    return [room[number].ctypes.data for number in range(len(sizes))]


Array = np.ndarray[Any, Any]


class Convolution:
    """One geometry with its fused operations; arrays are float32 with one row per shower."""

    def __init__(self, sizes: Geometry, fusion: Fusion, team: Team) -> None:
        self.sizes, self._fusion, self._team = sizes, fusion, team
        self._lock = threading.Lock()
        self._compiled: dict[str, tuple[Program, Callable[..., None]]] = {}

    def forward(self, arrays: Mapping[str, Array]) -> tuple[Floats, Floats, Floats]:
        """Returns result (B, *output, filters), and its sums and sums of squares (B, x, lanes)."""
        rows, out = len(arrays["image"]), self.sizes.output
        plane = (rows, out[0], self.sizes.result.blocks * LANES)
        results = {
            "result": empty((rows, *out, self.sizes.filters)),
            "sums": np.zeros(plane, np.float32),
            "squares": np.zeros(plane, np.float32),
        }
        self._run(program.forward, self.sizes, {**arrays, **results}, rows)
        return results["result"], results["sums"], results["squares"]

    def input_gradient(self, arrays: Mapping[str, Array]) -> tuple[Floats, Floats, Floats]:
        """Returns the gradients of image (B, *size, channels), of shift and scale (B, x, lanes)."""
        rows, size = len(arrays["gradient"]), self.sizes.size
        plane = (rows, size[0], blocks_of(self.sizes.channels) * LANES)
        results = {
            "result": empty((rows, *size, self.sizes.channels)),
            "of_shift": np.zeros(plane, np.float32),
            "of_scale": np.zeros(plane, np.float32),
        }
        self._run(program.input_gradient, self.sizes.adjoint(), {**arrays, **results}, rows)
        return results["result"], results["of_shift"], results["of_scale"]

    def kernel_gradient(self, arrays: Mapping[str, Array]) -> tuple[Floats, Floats]:
        """Returns the gradients of the kernel's spectrum and of the bias (B, x, lanes)."""
        rows = len(arrays["image"])
        plane = (rows, self.sizes.output[0], self.sizes.result.blocks * LANES)
        bias_sums = np.zeros(plane, np.float32)
        parts = [np.zeros(program.kernel_floats(self.sizes), np.float32)]
        parts += [np.zeros_like(parts[0]) for _ in range(self._team.parts(rows) - 1)]
        given = {**arrays, "bias_sums": bias_sums}
        self._run(program.kernel_gradient, self.sizes, given, rows, of_kernel=parts)
        for part in parts[1:]:
            parts[0] += part
        return parts[0], bias_sums

    def _run(
        self,
        write: Callable[[Geometry, Fusion], Program],
        sizes: Geometry,
        arrays: Mapping[str, Array],
        rows: int,
        *,
        of_kernel: list[Floats] | None = None,
    ) -> None:
        layer, run = self._program(write, sizes)
        given = {
            name: np.ascontiguousarray(arrays[name]) for name in layer.arguments if name in arrays
        }

        def work(part: int, share: range) -> None:
            pointers = {name: array.ctypes.data for name, array in given.items()}
            steps = {
                name: 0 if name in program.SHARED else array.strides[0]
                for name, array in given.items()
            }
            if of_kernel:
                pointers["of_kernel"], steps["of_kernel"] = of_kernel[part].ctypes.data, 0
            room = scratch(layer.scratch)
            for row in share:
                run(*(pointers[name] + row * steps[name] for name in layer.arguments), *room)

        self._team.share(work, rows)

    def _program(
        self, write: Callable[[Geometry, Fusion], Program], sizes: Geometry
    ) -> tuple[Program, Callable[..., None]]:
        with self._lock:
            if write.__name__ not in self._compiled:
                layer = write(sizes, self._fusion)
                run = compile_function(layer.module, layer.name)
                self._compiled[write.__name__] = layer, run
            return self._compiled[write.__name__]
