"""Operations fused into the reads and writes of a convolution: bias, activation, batch norm, dropout.

A layer writes its activated output `a` and sums of it; the next layer reads
`keep * (a * scale + shift)`, where scale and shift are the batch norm (and dropout) factors of a channel.
Gradients take the reverse path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.models.cpu_kernels.emitter import LANES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.models.cpu_kernels.emitter import Emitter
    from cloudgan.models.cpu_kernels.passes import Line


@dataclass(frozen=True)
class Fusion:
    """Operations besides the convolution.

    Attributes:
        affine: Scale and shift the input per channel.
        keep_least: Keep the input cells whose 16-bit number is at least this; None: all.
        leak: Negative slope of the activation; 1 for none.
    """

    affine: bool = False
    keep_least: int | None = None
    leak: float = 1.0


class ReadInput:
    """keep * (image * scale + shift)."""

    def __init__(self, at: dict[str, Any], fusion: Fusion) -> None:
        self._at, self._fusion = at, fusion

    def read(self, emit: Emitter, line: Line) -> list[Any]:
        """Returns the input cells of a line."""
        image = line.of(self._at["image"])
        cells = [emit.load(line.cell(image, z), line.lanes) for z in range(line.depth)]
        if self._fusion.affine:
            scale = emit.load(emit.at(self._at["scale"], line.block * LANES))
            shift = emit.load(emit.at(self._at["shift"], line.block * LANES))
            cells = [emit.add(emit.multiply(cell, scale), shift) for cell in cells]
        if (least := self._fusion.keep_least) is not None:
            uniform = line.of(self._at["uniform"])
            cells = [emit.kept(c, line.cell(uniform, z), least) for z, c in enumerate(cells)]
        return cells


class WriteActivated:
    """Activation of result + bias; per plane along x its sum and sum of squares."""

    def __init__(self, at: dict[str, Any], fusion: Fusion) -> None:
        self._at, self._fusion = at, fusion

    def write(self, emit: Emitter, line: Line, cells: Sequence[Any]) -> None:
        """Writes a line and adds to the sums of its plane."""
        bias = emit.load(emit.at(self._at["bias"], line.block * LANES))
        active = [activated(emit, emit.add(cell, bias), self._fusion.leak) for cell in cells]
        target = line.of(self._at["result"])
        for z, cell in enumerate(active):
            emit.store(cell, line.cell(target, z), line.lanes)
        add_up(emit, line.of_plane(self._at["sums"]), active)
        squares = [emit.multiply(cell, cell) for cell in active]
        add_up(emit, line.of_plane(self._at["squares"]), squares)


class ReadGradient:
    """Gradient before the activation, from the gradients of its output and of the two sums.

    d(a) + d(sums) + 2 a d(squares), times the activation's slope; optionally its sum per plane.
    """

    def __init__(self, at: dict[str, Any], fusion: Fusion, *, bias_sums: bool) -> None:
        self._at, self._fusion, self._bias_sums = at, fusion, bias_sums

    def read(self, emit: Emitter, line: Line) -> list[Any]:
        """Returns the gradients of a line of convolved cells."""
        gradient, active = line.of(self._at["gradient"]), line.of(self._at["active"])
        of_sums = emit.load(emit.at(self._at["of_sums"], line.block * LANES))
        of_squares = emit.load(emit.at(self._at["of_squares"], line.block * LANES))
        leak, found = emit.constant(self._fusion.leak), []
        for z in range(line.depth):
            cell = emit.load(line.cell(active, z), line.lanes)
            value = emit.load(line.cell(gradient, z), line.lanes)
            value = emit.add(emit.add(value, of_sums), emit.multiply(cell, of_squares))
            if self._fusion.leak != 1.0:
                value = emit.where_positive(cell, value, emit.multiply(value, leak))
            found.append(value)
        if self._bias_sums:
            add_up(emit, line.of_plane(self._at["bias_sums"]), found)
        return found


class WriteInputGradient:
    """Gradient of the image; per plane along x those of shift and scale."""

    def __init__(self, at: dict[str, Any], fusion: Fusion) -> None:
        self._at, self._fusion = at, fusion

    def write(self, emit: Emitter, line: Line, cells: Sequence[Any]) -> None:
        """Writes a line and adds to the sums of its plane."""
        if (least := self._fusion.keep_least) is not None:
            uniform = line.of(self._at["uniform"])
            cells = [emit.kept(c, line.cell(uniform, z), least) for z, c in enumerate(cells)]
        target = line.of(self._at["result"])
        if self._fusion.affine:
            image = line.of(self._at["image"])
            add_up(emit, line.of_plane(self._at["of_shift"]), cells)
            products = [
                emit.multiply(cell, emit.load(line.cell(image, z), line.lanes))
                for z, cell in enumerate(cells)
            ]
            add_up(emit, line.of_plane(self._at["of_scale"]), products)
            scale = emit.load(emit.at(self._at["scale"], line.block * LANES))
            cells = [emit.multiply(cell, scale) for cell in cells]
        for z, cell in enumerate(cells):
            emit.store(cell, line.cell(target, z), line.lanes)


def activated(emit: Emitter, value: Any, leak: float) -> Any:
    """Leaky ReLU."""
    if leak == 1.0:
        return value
    return emit.where_positive(value, value, emit.multiply(value, emit.constant(leak)))


def add_up(emit: Emitter, pointer: Any, cells: Sequence[Any]) -> None:
    """Adds the pairwise sum of `cells` to the vector at `pointer`."""
    while len(cells) > 1:
        pairs = [emit.add(a, b) for a, b in zip(cells[::2], cells[1::2], strict=False)]
        cells = pairs + list(cells[len(pairs) * 2 :])
    emit.store(emit.add(emit.load(pointer), cells[0]), pointer)
