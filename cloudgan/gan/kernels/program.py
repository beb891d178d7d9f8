"""Programs of one layer: forward, gradient of the input, gradient of the kernel.

Each runs over one shower; the arguments in `SHARED` are the same for all showers. A layer writes its activated output
`a` and sums of it; the next layer reads `keep * (a * scale + shift)`, where scale and shift are the batch norm (and
dropout) factors of a channel. Gradients take the reverse path.

Intermediate arrays hold vectors of LANES channels, real parts before imaginary parts:

- spectrum along depth: [frequency][x][block][y]
- spectrum along y, for one frequency along depth: [frequency of y][x][block]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from cloudgan.gan.kernels.emitter import LANES, Emitter
from cloudgan.gan.kernels.fourier import (
    Complex,
    transform,
    transform_of_real,
    transform_to_real,
)
from cloudgan.gan.kernels.geometry import LINE, Geometry, Image

SHARED = frozenset({"scale", "shift", "kernel", "bias", "of_sums", "of_squares", "of_kernel"})
UNIFORM = "uniform"
POSITIONS = 5
"""Cells along x in registers at once: with kernel and one input value, 14 of 16 registers."""


@dataclass(frozen=True)
class Fusion:
    """Operations that are fused into the reads and writes of a convolution.

    Attributes:
        affine: Scale and shift the input per channel.
        keep_least: Keep the input cells whose 16-bit number is at least this; None: all.
        leak: Negative slope of the activation; 1 for none.
    """

    affine: bool = False
    keep_least: int | None = None
    leak: float = 1.0


def forward(sizes: Geometry, fusion: Fusion) -> Program:
    """result, sums, squares = activation(convolution(read(image)) + bias)."""
    arguments = (*_inputs(fusion), "kernel", "bias", "result", "sums", "squares")
    program = Program("forward", sizes, fusion, arguments, _room_of_product(sizes))
    program.convolve(program.read_input, program.write_activated)
    return program.end()


def input_gradient(sizes: Geometry, fusion: Fusion) -> Program:
    """result, of_shift, of_scale from the gradient of the output.

    `sizes` is the adjoint of the layer: its input is the gradient, its filters are the image's channels.
    """
    arguments: tuple[str, ...] = ("gradient", "active", "of_sums", "of_squares", "kernel", "result")
    if fusion.affine:
        arguments += ("image", "scale", "of_shift", "of_scale")
    if fusion.keep_least is not None:
        arguments += (UNIFORM,)
    program = Program("input_gradient", sizes, fusion, arguments, _room_of_product(sizes))
    program.convolve(program.read_gradient, program.write_input_gradient)
    return program.end()


def kernel_gradient(sizes: Geometry, fusion: Fusion) -> Program:
    """Adds to of_kernel, the gradient of the kernel's spectrum, and writes bias_sums."""
    arguments = (*_inputs(fusion), "gradient", "active", "of_sums", "of_squares")
    arguments += ("of_kernel", "bias_sums")
    room = {
        "gradient_depth_spectrum": sizes.frequencies * sizes.result.plane_vectors * LINE,
        "gradient_spectrum": _row(sizes) * sizes.period[0],
    }
    program = Program("kernel_gradient", sizes, fusion, arguments, room)
    program.correlate_gradient()
    return program.end()


def kernel_floats(sizes: Geometry) -> int:
    """Size of a kernel spectrum in float32: [depth][y][tap along x][channel][block] complex vectors."""
    return sizes.frequencies * sizes.period[0] * _per_frequency(sizes)


def _inputs(fusion: Fusion) -> tuple[str, ...]:
    affine = ("scale", "shift") if fusion.affine else ()
    return ("image", *affine, *((UNIFORM,) if fusion.keep_least is not None else ()))


def _room_of_product(sizes: Geometry) -> dict[str, int]:
    return {
        "product": _row(sizes) * sizes.period[0],
        "result_spectrum": sizes.frequencies * sizes.result.plane_vectors * LINE,
    }


def _per_frequency(sizes: Geometry) -> int:
    return sizes.kernel[0] * sizes.channels * sizes.result.blocks * LINE


def _plane(sizes: Geometry) -> int:
    """Of one frequency along y: the padded planes along x of the input, in float32."""
    return sizes.planes * sizes.image.blocks * LINE


def _row(sizes: Geometry) -> int:
    """Of one frequency along y: the planes along x of the output, in float32."""
    return sizes.output[0] * sizes.result.blocks * LINE


class _Line:
    """One line of cells along depth, LANES channels wide, inside the emitted loops."""

    def __init__(self, emit: Emitter, image: Image, x: Any, y: Any, block: int) -> None:
        self._emit, self._image, self._x, self._y = emit, image, x, y
        self.block, self.depth = block, image.size[2]
        self.lanes = min(LANES, image.channels - block * LANES)

    def of(self, pointer: Any) -> Any:
        """Address of this line in an image (x, y, depth, channels)."""
        row = self.depth * self._image.channels
        plane = self._image.size[1] * row
        return self._emit.at(pointer, (self._x, plane), (self._y, row), self.block * LANES)

    def cell(self, pointer: Any, z: int) -> Any:
        """Address of cell `z` of the line, relative to `of`."""
        return self._emit.at(pointer, z * self._image.channels)

    def of_plane(self, pointer: Any) -> Any:
        """Address of this plane's vector in an array (x, blocks)."""
        return self._emit.at(pointer, (self._x, self._image.blocks * LANES), self.block * LANES)

    def of_spectrum(self, pointer: Any, frequency: int) -> Any:
        """Address of this line's vector of a frequency in a spectrum along depth."""
        x, y, _ = self._image.size
        row = self._image.blocks * y * LINE
        fixed = frequency * x * row + self.block * y * LINE
        return self._emit.at(pointer, (self._x, row), (self._y, LINE), fixed)


class Program:
    """Generated code: reads and writes of images, passes of the transforms, products of spectra.

    Attributes:
        name: Name of the function.
        module: Module with the function.
        arguments: Names of the pointers in order, without the scratch.
        scratch: Size in float32 of each scratch pointer that follows.
    """

    def __init__(
        self,
        name: str,
        sizes: Geometry,
        fusion: Fusion,
        arguments: tuple[str, ...],
        room: dict[str, int],
    ) -> None:
        image = sizes.image
        scratch = {
            "depth_spectrum": sizes.frequencies * image.plane_vectors * LINE,
            "spectrum": sizes.period[0] * _plane(sizes),
            **room,
        }
        self.name, self.module, self.arguments = name, ir.Module(name), arguments
        self.scratch = tuple(scratch.values())
        self._sizes, self._fusion = sizes, fusion
        self._emit = Emitter(self.module, name, (*arguments, *scratch), uniform=(UNIFORM,))
        self._at = self._emit.pointers

    def end(self) -> Program:
        """Returns the finished program."""
        self._emit.end()
        return self

    def convolve(
        self, read: Callable[[_Line], list[Any]], write: Callable[[_Line, Sequence[Any]], None]
    ) -> None:
        """Transforms what `read` gives, multiplies by the kernel, and writes the transform back."""
        emit, at, sizes = self._emit, self._at, self._sizes
        self._clear_margin()
        self._depth_to_spectrum(read, sizes.image, "depth_spectrum")
        with emit.loop(sizes.frequencies) as f:
            self._y_to_spectrum(sizes.image, "depth_spectrum", "spectrum", f)
            with emit.loop(sizes.period[0]) as fy:
                kernel = self._of_frequency("kernel", f, fy)
                image = emit.at(at["spectrum"], (fy, _plane(sizes)))
                self._multiply(image, kernel, emit.at(at["product"], (fy, _row(sizes))))
            self._spectrum_to_y(f)
        for line in self._lines(sizes.result):
            half = [
                Complex.load(emit, line.of_spectrum(at["result_spectrum"], f))
                for f in range(sizes.frequencies)
            ]
            cells = transform_to_real(half, sizes.period[1], 1)
            write(line, [cell.re for cell in cells[: line.depth]])

    def correlate_gradient(self) -> None:
        """Correlates the spectra of the image and of the output's gradient."""
        emit, at, sizes = self._emit, self._at, self._sizes
        self._clear_margin()
        self._depth_to_spectrum(self.read_input, sizes.image, "depth_spectrum")

        def read(line: _Line) -> list[Any]:
            found = self.read_gradient(line)
            self._add_up(line.of_plane(at["bias_sums"]), found)
            return found

        self._depth_to_spectrum(read, sizes.result, "gradient_depth_spectrum")
        with emit.loop(sizes.frequencies) as f:
            self._y_to_spectrum(sizes.image, "depth_spectrum", "spectrum", f)
            self._y_to_spectrum(sizes.result, "gradient_depth_spectrum", "gradient_spectrum", f)
            with emit.loop(sizes.period[0]) as fy:
                result = self._of_frequency("of_kernel", f, fy)
                image = emit.at(at["spectrum"], (fy, _plane(sizes)))
                gradient = emit.at(at["gradient_spectrum"], (fy, _row(sizes)))
                self._correlate(image, gradient, result)

    def read_input(self, line: _Line) -> list[Any]:
        """Keep * (image * scale + shift)."""
        emit = self._emit
        image = line.of(self._at["image"])
        cells = [emit.load(line.cell(image, z), line.lanes) for z in range(line.depth)]
        if self._fusion.affine:
            scale, shift = self._of_channel("scale", line), self._of_channel("shift", line)
            cells = [emit.add(emit.multiply(cell, scale), shift) for cell in cells]
        return self._kept(line, cells)

    def write_activated(self, line: _Line, cells: Sequence[Any]) -> None:
        """Activation of result + bias; per plane along x its sum and sum of squares."""
        emit, bias = self._emit, self._of_channel("bias", line)
        active = [self._activated(emit.add(cell, bias)) for cell in cells]
        self._store("result", line, active)
        self._add_up(line.of_plane(self._at["sums"]), active)
        squares = [emit.multiply(cell, cell) for cell in active]
        self._add_up(line.of_plane(self._at["squares"]), squares)

    def read_gradient(self, line: _Line) -> list[Any]:
        """Gradient before the activation: d(a) + d(sums) + 2 a d(squares), times the activation's slope."""
        emit, at = self._emit, self._at
        gradient, active = line.of(at["gradient"]), line.of(at["active"])
        of_sums, of_squares = (self._of_channel(name, line) for name in ("of_sums", "of_squares"))
        leak, found = emit.constant(self._fusion.leak), []
        for z in range(line.depth):
            cell = emit.load(line.cell(active, z), line.lanes)
            value = emit.load(line.cell(gradient, z), line.lanes)
            value = emit.add(emit.add(value, of_sums), emit.multiply(cell, of_squares))
            if self._fusion.leak != 1.0:
                value = emit.where_positive(cell, value, emit.multiply(value, leak))
            found.append(value)
        return found

    def write_input_gradient(self, line: _Line, cells: Sequence[Any]) -> None:
        """Gradient of the image; per plane along x those of shift and scale."""
        emit, at = self._emit, self._at
        cells = self._kept(line, cells)
        target = line.of(at["result"])
        if self._fusion.affine:
            image = line.of(at["image"])
            self._add_up(line.of_plane(at["of_shift"]), cells)
            products = [
                emit.multiply(cell, emit.load(line.cell(image, z), line.lanes))
                for z, cell in enumerate(cells)
            ]
            self._add_up(line.of_plane(at["of_scale"]), products)
            scale = self._of_channel("scale", line)
            cells = [emit.multiply(cell, scale) for cell in cells]
        for z, cell in enumerate(cells):
            emit.store(cell, line.cell(target, z), line.lanes)

    def _of_channel(self, name: str, line: _Line) -> Any:
        return self._emit.load(self._emit.at(self._at[name], line.block * LANES))

    def _kept(self, line: _Line, cells: Sequence[Any]) -> list[Any]:
        """Cells that dropout keeps; the others are zero."""
        if (least := self._fusion.keep_least) is None:
            return list(cells)
        uniform = line.of(self._at[UNIFORM])
        return [self._emit.kept(c, line.cell(uniform, z), least) for z, c in enumerate(cells)]

    def _activated(self, value: Any) -> Any:
        """Leaky ReLU."""
        emit, leak = self._emit, self._fusion.leak
        if leak == 1.0:
            return value
        return emit.where_positive(value, value, emit.multiply(value, emit.constant(leak)))

    def _store(self, name: str, line: _Line, cells: Sequence[Any]) -> None:
        target = line.of(self._at[name])
        for z, cell in enumerate(cells):
            self._emit.store(cell, line.cell(target, z), line.lanes)

    def _add_up(self, pointer: Any, cells: Sequence[Any]) -> None:
        """Adds the pairwise sum of `cells` to the vector at `pointer`."""
        emit = self._emit
        while len(cells) > 1:
            pairs = [emit.add(a, b) for a, b in zip(cells[::2], cells[1::2], strict=False)]
            cells = pairs + list(cells[len(pairs) * 2 :])
        emit.store(emit.add(emit.load(pointer), cells[0]), pointer)

    def _lines(self, image: Image) -> Iterator[_Line]:
        """Emits the loops over x and y and yields the line of each block inside them."""
        x, y, _ = image.size
        with self._emit.loop(x) as i, self._emit.loop(y) as j:
            for block in range(image.blocks):
                yield _Line(self._emit, image, i, j, block)

    def _depth_to_spectrum(
        self, read: Callable[[_Line], list[Any]], image: Image, target: str
    ) -> None:
        """Image (x, y, depth, channels) -> spectrum along depth."""
        emit = self._emit
        for line in self._lines(image):
            cells = [Complex(emit, cell) for cell in read(line)]
            cells += [Complex(emit)] * (self._sizes.period[1] - line.depth)
            for f, value in enumerate(transform_of_real(cells, -1)):
                value.store(line.of_spectrum(self._at[target], f))

    def _y_to_spectrum(self, image: Image, source: str, target: str, f: Any) -> None:
        """Lines along y of one frequency along depth -> their spectra; those of the input have a margin."""
        emit, sizes, y = self._emit, self._sizes, image.size[1]
        has_margin = target == "spectrum"
        stride = _plane(sizes) if has_margin else _row(sizes)
        lines = emit.at(self._at[source], (f, image.plane_vectors * LINE))
        spectra = emit.at(self._at[target], has_margin * sizes.before[0] * image.blocks * LINE)
        with emit.loop(image.size[0] * image.blocks) as row:
            line = emit.at(lines, (row, y * LINE))
            cells = [Complex.load(emit, emit.at(line, j * LINE)) for j in range(y)]
            cells += [Complex(emit)] * (self._sizes.period[0] - y)
            to = emit.at(spectra, (row, LINE))
            for k, value in enumerate(transform(cells, -1)):
                value.store(emit.at(to, k * stride))

    def _spectrum_to_y(self, f: Any) -> None:
        """Product along y -> the first cells of the result along y, of one frequency along depth."""
        emit, sizes, image = self._emit, self._sizes, self._sizes.result
        y, stride = image.size[1], _row(sizes)
        lines = emit.at(self._at["result_spectrum"], (f, image.plane_vectors * LINE))
        with emit.loop(image.size[0] * image.blocks) as row:
            line = emit.at(self._at["product"], (row, LINE))
            spectrum = [
                Complex.load(emit, emit.at(line, k * stride)) for k in range(sizes.period[0])
            ]
            cells = transform(spectrum, 1)
            to = emit.at(lines, (row, y * LINE))
            for j in range(y):
                cells[j].store(emit.at(to, j * LINE))

    def _clear_margin(self) -> None:
        """Zeroes the padding planes along x."""
        emit, sizes = self._emit, self._sizes
        zero, before = emit.constant(0.0), sizes.before[0]
        margin = [*range(before), *range(before + sizes.size[0], sizes.planes)]
        if not margin:
            return
        with emit.loop(sizes.period[0]) as fy:
            for plane in margin:
                for half in range(2 * sizes.image.blocks):
                    place = plane * sizes.image.blocks * LINE + half * LANES
                    emit.store(zero, emit.at(self._at["spectrum"], (fy, _plane(sizes)), place))

    def _of_frequency(self, name: str, f: Any, fy: Any) -> Any:
        per_frequency = _per_frequency(self._sizes)
        terms = (f, per_frequency * self._sizes.period[0]), (fy, per_frequency)
        return self._emit.at(self._at[name], *terms)

    def _multiply(self, spectrum: Any, kernel: Any, result: Any) -> None:
        """result[x, o] = sum over taps and channels of spectrum[x + tap, c] kernel[tap, c, o].

        All complex, for one frequency: spectrum (planes, channel blocks), kernel (taps along x,
        channels, filter blocks), result (x, filter blocks), in vectors.
        """
        emit, sizes = self._emit, self._sizes
        count = sizes.output[0]
        whole = count // POSITIONS * POSITIONS
        plane, row = sizes.image.blocks * LINE, sizes.result.blocks * LINE
        for block in range(sizes.result.blocks):
            of_block = emit.at(kernel, block * LINE)
            if whole:
                with emit.loop(whole, POSITIONS) as first:
                    cells = emit.at(spectrum, (first, plane))
                    target = emit.at(result, (first, row), block * LINE)
                    self._multiply_some(cells, of_block, target, POSITIONS)
            if count > whole:
                cells = emit.at(spectrum, whole * plane)
                target = emit.at(result, whole * row + block * LINE)
                self._multiply_some(cells, of_block, target, count - whole)

    def _multiply_some(self, spectrum: Any, kernel: Any, result: Any, positions: int) -> None:
        emit, sizes = self._emit, self._sizes
        plane, row = sizes.image.blocks * LINE, sizes.result.blocks * LINE
        sums = [emit.constant(0.0)] * (2 * positions)
        with emit.summing(sizes.kernel[0], sums) as (tap, carried):
            taps = emit.at(kernel, (tap, sizes.channels * row))
            cells = emit.at(spectrum, (tap, plane))
            for channel in range(sizes.channels):
                weights = emit.at(taps, channel * row)
                w_re, w_im = emit.load(weights), emit.load(emit.at(weights, LANES))
                offset = channel // LANES * LINE + channel % LANES
                for position in range(positions):
                    re, im = 2 * position, 2 * position + 1
                    cell = emit.at(cells, position * plane + offset)
                    x_re, x_im = emit.broadcast(cell), emit.broadcast(emit.at(cell, LANES))
                    carried[re] = emit.add(carried[re], emit.multiply(x_re, w_re))
                    carried[im] = emit.add(carried[im], emit.multiply(x_re, w_im))
                    carried[re] = emit.subtract(carried[re], emit.multiply(x_im, w_im))
                    carried[im] = emit.add(carried[im], emit.multiply(x_im, w_re))
        for position in range(positions):
            emit.store(sums[2 * position], emit.at(result, position * row))
            emit.store(sums[2 * position + 1], emit.at(result, position * row + LANES))

    def _correlate(self, spectrum: Any, gradient: Any, result: Any) -> None:
        """result[tap, c, o] += sum over x of spectrum[x + tap, c] conj(gradient[x, o])."""
        sizes = self._sizes
        pairs = [(tap, c) for tap in range(sizes.kernel[0]) for c in range(sizes.channels)]
        for block in range(sizes.result.blocks):
            of_block = self._emit.at(gradient, block * LINE)
            target = self._emit.at(result, block * LINE)
            for begin in range(0, len(pairs), POSITIONS):
                self._correlate_some(spectrum, of_block, target, pairs[begin : begin + POSITIONS])

    def _correlate_some(
        self, spectrum: Any, gradient: Any, result: Any, pairs: list[tuple[int, int]]
    ) -> None:
        emit, sizes = self._emit, self._sizes
        plane, row = sizes.image.blocks * LINE, sizes.result.blocks * LINE
        targets = [emit.at(result, (tap * sizes.channels + c) * row) for tap, c in pairs]
        sums = [emit.load(emit.at(target, part)) for target in targets for part in (0, LANES)]
        with emit.summing(sizes.output[0], sums) as (x, carried):
            of_row = emit.at(gradient, (x, row))
            g_re, g_im = emit.load(of_row), emit.load(emit.at(of_row, LANES))
            cells = emit.at(spectrum, (x, plane))
            for number, (tap, c) in enumerate(pairs):
                re, im = 2 * number, 2 * number + 1
                cell = emit.at(cells, tap * plane + c // LANES * LINE + c % LANES)
                x_re, x_im = emit.broadcast(cell), emit.broadcast(emit.at(cell, LANES))
                carried[re] = emit.add(carried[re], emit.multiply(x_re, g_re))
                carried[im] = emit.add(carried[im], emit.multiply(x_im, g_re))
                carried[re] = emit.add(carried[re], emit.multiply(x_im, g_im))
                carried[im] = emit.subtract(carried[im], emit.multiply(x_re, g_im))
        for number, target in enumerate(targets):
            emit.store(sums[2 * number], target)
            emit.store(sums[2 * number + 1], emit.at(target, LANES))
