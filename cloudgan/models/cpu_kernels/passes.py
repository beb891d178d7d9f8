"""Code generation for the passes of a Fourier convolution over one shower.

Intermediate arrays hold vectors of LANES channels, real parts before imaginary parts:

- spectrum along depth: [frequency][x][block][y]
- spectrum along y, for one frequency along depth: [frequency of y][x][block]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from cloudgan.models.cpu_kernels.emitter import LANES
from cloudgan.models.cpu_kernels.fourier import Complex, Fourier
from cloudgan.models.cpu_kernels.geometry import LINE, Cells, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.models.cpu_kernels.emitter import Emitter
    from cloudgan.models.cpu_kernels.geometry import Geometry


class Line:
    """One line of cells along depth, LANES channels wide, inside the emitted loops."""

    def __init__(
        self, emit: Emitter, at: tuple[Any, Any], *, size: Cells, channels: int, block: int
    ) -> None:
        self._emit, self._size = emit, size
        self._x, self._y = at
        self._channels = channels
        self.block = block
        self.lanes = min(LANES, channels - block * LANES)
        self.depth = size[2]

    def of(self, pointer: Any) -> Any:
        """Address of this line in an image (x, y, depth, channels)."""
        _, y, depth = self._size
        row = depth * self._channels
        return self._emit.at(pointer, (self._x, y * row), (self._y, row), self.block * LANES)

    def cell(self, pointer: Any, z: int) -> Any:
        """Address of cell `z` of the line, relative to `of`."""
        return self._emit.at(pointer, z * self._channels)

    def of_plane(self, pointer: Any) -> Any:
        """Address of this plane's vector in an array (x, blocks)."""
        blocks = blocks_of(self._channels)
        return self._emit.at(pointer, (self._x, blocks * LANES), self.block * LANES)

    def of_spectrum(self, pointer: Any, frequency: int) -> Any:
        """Address of this line's vector of a frequency in a spectrum along depth."""
        x, y, _ = self._size
        row = blocks_of(self._channels) * y * LINE
        fixed = frequency * x * row + self.block * y * LINE
        return self._emit.at(pointer, (self._x, row), (self._y, LINE), fixed)


class LineReader(Protocol):
    """Reader of a line of cells."""

    def read(self, emit: Emitter, line: Line) -> list[Any]:
        """Returns a vector for each cell along depth."""


class LineWriter(Protocol):
    """Writer of a line of cells."""

    def write(self, emit: Emitter, line: Line, cells: Sequence[Any]) -> None:
        """Takes a vector for each cell along depth."""


def depth_to_spectrum(
    emit: Emitter, reads: LineReader, spectrum: Any, *, size: Cells, channels: int, period: int
) -> None:
    """Image (x, y, depth, channels) -> spectrum along depth."""
    for line in _lines(emit, size, channels):
        cells = [Complex(cell) for cell in reads.read(emit, line)]
        cells += [Complex()] * (period - line.depth)
        for f, value in enumerate(Fourier(emit, -1).of_real(cells)):
            store(emit, value, line.of_spectrum(spectrum, f))


def spectrum_to_depth(
    emit: Emitter, spectrum: Any, writes: LineWriter, *, size: Cells, channels: int, period: int
) -> None:
    """Spectrum along depth -> the first `size` cells of each axis."""
    for line in _lines(emit, size, channels):
        half = [load(emit, line.of_spectrum(spectrum, f)) for f in range(period // 2 + 1)]
        cells = Fourier(emit, 1).to_real(half, period)
        writes.write(emit, line, [cell.re for cell in cells[: line.depth]])


def _lines(emit: Emitter, size: Cells, channels: int) -> Iterator[Line]:
    """Emits the loops over x and y and yields the line of each block inside them."""
    x, y, _ = size
    with emit.loop(x) as i, emit.loop(y) as j:
        for block in range(blocks_of(channels)):
            yield Line(emit, (i, j), size=size, channels=channels, block=block)


def y_to_spectrum(
    emit: Emitter, source: Any, target: Any, *, rows: int, y: int, period: int, stride: int
) -> None:
    """Lines of `y` complex vectors -> `period` of them, `stride` apart; `rows` such lines."""
    with emit.loop(rows) as row:
        line = emit.at(source, (row, y * LINE))
        cells = [load(emit, emit.at(line, j * LINE)) for j in range(y)]
        cells += [Complex()] * (period - y)
        to = emit.at(target, (row, LINE))
        for f, value in enumerate(Fourier(emit, -1).complex(cells)):
            store(emit, value, emit.at(to, f * stride))


def spectrum_to_y(
    emit: Emitter, source: Any, target: Any, *, rows: int, y: int, period: int, stride: int
) -> None:
    """Spectrum along y -> the first `y` cells."""
    with emit.loop(rows) as row:
        line = emit.at(source, (row, LINE))
        spectrum = [load(emit, emit.at(line, f * stride)) for f in range(period)]
        cells = Fourier(emit, 1).complex(spectrum)
        to = emit.at(target, (row, y * LINE))
        for j in range(y):
            store(emit, cells[j], emit.at(to, j * LINE))


def clear_margin(emit: Emitter, spectrum: Any, sizes: Geometry) -> None:
    """Zeroes the padding planes along x."""
    blocks = sizes.channel_blocks
    zero = emit.constant(0.0)
    before = sizes.before[0]
    margin = [*range(before), *range(before + sizes.size[0], sizes.planes)]
    if not margin:
        return
    with emit.loop(sizes.period[0]) as fy:
        for plane in margin:
            for half in range(2 * blocks):
                at = plane * blocks * LINE + half * LANES
                emit.store(zero, emit.at(spectrum, (fy, sizes.planes * blocks * LINE), at))


def load(emit: Emitter, pointer: Any) -> Complex:
    """LineReader a complex vector."""
    return Complex(emit.load(pointer), emit.load(emit.at(pointer, LANES)))


def store(emit: Emitter, value: Complex, pointer: Any) -> None:
    """LineWriter a complex vector."""
    zero = emit.constant(0.0)
    emit.store(zero if value.re is None else value.re, pointer)
    emit.store(zero if value.im is None else value.im, emit.at(pointer, LANES))


POSITIONS = 5
"""Cells along x in registers at once: with kernel and one input value, 14 of 16 registers."""


def multiply(emit: Emitter, sizes: Geometry, *, spectrum: Any, kernel: Any, result: Any) -> None:
    """result[x, o] = sum over taps and channels of spectrum[x + tap, c] kernel[tap, c, o].

    All complex, for one frequency: spectrum (planes, channel blocks), kernel (taps along x,
    channels, filter blocks), result (x, filter blocks), in vectors.
    """
    count = sizes.output[0]
    whole = count // POSITIONS * POSITIONS
    plane, row = sizes.channel_blocks * LINE, sizes.filter_blocks * LINE
    for block in range(sizes.filter_blocks):
        at = {"kernel": emit.at(kernel, block * LINE)}
        if whole:
            with emit.loop(whole, POSITIONS) as first:
                at["spectrum"] = emit.at(spectrum, (first, plane))
                at["result"] = emit.at(result, (first, row), block * LINE)
                _multiply_some(emit, sizes, at, POSITIONS)
        if count > whole:
            at["spectrum"] = emit.at(spectrum, whole * plane)
            at["result"] = emit.at(result, whole * row + block * LINE)
            _multiply_some(emit, sizes, at, count - whole)


def _multiply_some(emit: Emitter, sizes: Geometry, at: dict[str, Any], positions: int) -> None:
    plane = sizes.channel_blocks * LINE
    sums = [emit.constant(0.0)] * (2 * positions)
    with emit.summing(sizes.kernel[0], sums) as (tap, carried):
        taps = emit.at(at["kernel"], (tap, sizes.channels * sizes.filter_blocks * LINE))
        cells = emit.at(at["spectrum"], (tap, plane))
        for channel in range(sizes.channels):
            weights = emit.at(taps, channel * sizes.filter_blocks * LINE)
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
    row = sizes.filter_blocks * LINE
    target = at["result"]
    for position in range(positions):
        emit.store(sums[2 * position], emit.at(target, position * row))
        emit.store(sums[2 * position + 1], emit.at(target, position * row + LANES))


def correlate(emit: Emitter, sizes: Geometry, *, spectrum: Any, gradient: Any, result: Any) -> None:
    """result[tap, c, o] += sum over x of spectrum[x + tap, c] conj(gradient[x, o])."""
    pairs = [(tap, c) for tap in range(sizes.kernel[0]) for c in range(sizes.channels)]
    for block in range(sizes.filter_blocks):
        at = {
            "spectrum": spectrum,
            "gradient": emit.at(gradient, block * LINE),
            "result": emit.at(result, block * LINE),
        }
        for begin in range(0, len(pairs), POSITIONS):
            _correlate_some(emit, sizes, at, pairs[begin : begin + POSITIONS])


def _correlate_some(
    emit: Emitter, sizes: Geometry, at: dict[str, Any], pairs: list[tuple[int, int]]
) -> None:
    plane, row = sizes.channel_blocks * LINE, sizes.filter_blocks * LINE
    targets = [emit.at(at["result"], (tap * sizes.channels + c) * row) for tap, c in pairs]
    sums = [emit.load(emit.at(target, part)) for target in targets for part in (0, LANES)]
    with emit.summing(sizes.output[0], sums) as (x, carried):
        gradient = emit.at(at["gradient"], (x, row))
        g_re, g_im = emit.load(gradient), emit.load(emit.at(gradient, LANES))
        cells = emit.at(at["spectrum"], (x, plane))
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
