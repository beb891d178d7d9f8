"""The passes of a transformed convolution over one shower, as generated code.

Between the passes numbers lie in vectors of LANES channels, real parts before imaginary ones:
spectrum along depth   [frequency][x][block][y]
both spectra           [frequency of y][x][block], for one frequency along depth
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from cloudgan.native.emitter import LANES
from cloudgan.native.fourier import Fourier, Number
from cloudgan.native.geometry import LINE, Cells, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.native.emitter import Emitter
    from cloudgan.native.geometry import Geometry


class Line:
    """One line of cells along depth, LANES channels wide, while the loops are being written."""

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
        """Where this line begins in an image (x, y, depth, channels)."""
        _, y, depth = self._size
        row = depth * self._channels
        return self._emit.at(pointer, (self._x, y * row), (self._y, row), self.block * LANES)

    def cell(self, pointer: Any, z: int) -> Any:
        """Where cell `z` of the line is, counted from `of`."""
        return self._emit.at(pointer, z * self._channels)

    def of_plane(self, pointer: Any) -> Any:
        """Where this plane's vector is in an array (x, blocks)."""
        blocks = blocks_of(self._channels)
        return self._emit.at(pointer, (self._x, blocks * LANES), self.block * LANES)

    def of_spectrum(self, pointer: Any, frequency: int) -> Any:
        """Where this line's vector of a frequency is in a spectrum along depth."""
        x, y, _ = self._size
        row = blocks_of(self._channels) * y * LINE
        fixed = frequency * x * row + self.block * y * LINE
        return self._emit.at(pointer, (self._x, row), (self._y, LINE), fixed)


class Reads(Protocol):
    """How a line of cells is read: what happens to it on the way."""

    def read(self, emit: Emitter, line: Line) -> list[Any]:
        """Returns a vector for each cell along depth."""


class Writes(Protocol):
    """How a line of cells is written."""

    def write(self, emit: Emitter, line: Line, cells: Sequence[Any]) -> None:
        """Takes a vector for each cell along depth."""


def depth_to_spectrum(
    emit: Emitter, reads: Reads, spectrum: Any, *, size: Cells, channels: int, period: int
) -> None:
    """Image (x, y, depth, channels) -> spectrum along depth."""
    for line in _lines(emit, size, channels):
        cells = [Number(cell) for cell in reads.read(emit, line)]
        cells += [Number()] * (period - line.depth)
        for f, value in enumerate(Fourier(emit, -1).of_real(cells)):
            store(emit, value, line.of_spectrum(spectrum, f))


def spectrum_to_depth(
    emit: Emitter, spectrum: Any, writes: Writes, *, size: Cells, channels: int, period: int
) -> None:
    """The way back, for the first `size` cells of each axis."""
    for line in _lines(emit, size, channels):
        half = [load(emit, line.of_spectrum(spectrum, f)) for f in range(period // 2 + 1)]
        cells = Fourier(emit, 1).to_real(half, period)
        writes.write(emit, line, [cell.re for cell in cells[: line.depth]])


def _lines(emit: Emitter, size: Cells, channels: int) -> Iterator[Line]:
    """Writes the loops over x and y and yields, inside of them, the line of each block."""
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
        cells += [Number()] * (period - y)
        to = emit.at(target, (row, LINE))
        for f, value in enumerate(Fourier(emit, -1).complex(cells)):
            store(emit, value, emit.at(to, f * stride))


def spectrum_to_y(
    emit: Emitter, source: Any, target: Any, *, rows: int, y: int, period: int, stride: int
) -> None:
    """The way back, for the first `y` cells."""
    with emit.loop(rows) as row:
        line = emit.at(source, (row, LINE))
        spectrum = [load(emit, emit.at(line, f * stride)) for f in range(period)]
        cells = Fourier(emit, 1).complex(spectrum)
        to = emit.at(target, (row, y * LINE))
        for j in range(y):
            store(emit, cells[j], emit.at(to, j * LINE))


def clear_margin(emit: Emitter, spectrum: Any, sizes: Geometry) -> None:
    """Puts zeros into the planes before the first and behind the last cell along x."""
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


def load(emit: Emitter, pointer: Any) -> Number:
    """Reads a complex vector."""
    return Number(emit.load(pointer), emit.load(emit.at(pointer, LANES)))


def store(emit: Emitter, value: Number, pointer: Any) -> None:
    """Writes a complex vector."""
    zero = emit.constant(0.0)
    emit.store(zero if value.re is None else value.re, pointer)
    emit.store(zero if value.im is None else value.im, emit.at(pointer, LANES))
