"""A layer's three programs over the showers of a batch, on the processor's cores."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.native import program
from cloudgan.native.emitter import LANES
from cloudgan.native.geometry import blocks_of
from cloudgan.native.machine import compile_function
from cloudgan.native.team import Floats, Team, empty, scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.native.fusion import Fusion
    from cloudgan.native.geometry import Geometry
    from cloudgan.native.program import Program

Array = np.ndarray[Any, Any]


class Convolution:
    """One geometry and what is fused with it; arrays are float32 and have a row for each shower."""

    def __init__(self, sizes: Geometry, fusion: Fusion, team: Team) -> None:
        self.sizes, self._fusion, self._team = sizes, fusion, team
        self._lock = threading.Lock()
        self._compiled: dict[str, tuple[Program, Callable[..., None]]] = {}

    def forward(self, arrays: Mapping[str, Array]) -> tuple[Floats, Floats, Floats]:
        """Returns result (B, *output, filters), and its sums and sums of squares (B, x, lanes)."""
        rows, out = len(arrays["image"]), self.sizes.output
        plane = (rows, out[0], self.sizes.filter_blocks * LANES)
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
        plane = (rows, self.sizes.output[0], self.sizes.filter_blocks * LANES)
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
