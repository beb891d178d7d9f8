"""Architecture tables of the networks, and the table of another image shape or size.

A table is written for the cells of its preset. `generator_for` and `discriminator_for` compute from it that of any
other image, axis by axis; for its own image they return it unchanged. Every count of weights, memory and operations
reads the computed table.

- Generator: from the image backwards to the coarse grid. Where an up-sampling does not divide the cells before it,
  the kernel after it has a few taps more or less.
- Discriminator: from the image on. Where less than a fifth of the cells would be left, the first convolutions are
  padded with zeros; a kernel is never longer than its cells.
- Periodic axis: every convolution is padded with the cells of the other end and keeps the number of cells, and
  an up-sampling is the largest divisor of the cells up to that of the table. Sub-pixels must divide them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from cloudgan.core.errors import ConfigError, shorten

Cells = tuple[int, int, int]
Axes = tuple[bool, bool, bool]
AXES = ("x", "y", "z")
_CELLS = re.compile(r"(\d{1,6})x(\d{1,6})x(\d{1,6})", re.ASCII)
_ADDED_KERNEL = (3, 3, 3)
_LEAST_SHARE = 5
"""A discriminator keeps a fifth of the cells along an axis or more, as that of smoke does."""
_FARTHEST = 64
"""Cells up to which a possible size is looked for."""


def read_cells(shown: str, text: str) -> Cells:
    """Returns the cells of a text such as 45x16x9, the value of `shown`."""
    found = _CELLS.fullmatch(text.lower())
    if found is None:
        raise ConfigError(
            f"{shown}={shorten(text)}: expected the cells in x, y and depth, such as 45x16x9"
        )
    x, y, z = map(int, found.groups())
    return x, y, z


class Block(NamedTuple):
    """Up-sampling, padding, convolution, activation, batch norm, dropout; in this order."""

    filters: int
    kernel: Cells
    upsample: Cells = (1, 1, 1)
    pad: Cells = (0, 0, 0)
    padding: str = "valid"
    bias: bool = True
    activate: bool = True
    normalise: bool = True
    initializer: str | None = None  # None: the network's own
    periodic: Axes = (False, False, False)  # axes padded with the cells of the other end

    @property
    def margins(self) -> tuple[tuple[int, int], ...]:
        """Cells that are added before and after each axis, after up-sampling."""
        return tuple(
            ((taps - 1) // 2, taps // 2) if wraps or self.padding == "same" else (pad, pad)
            for taps, pad, wraps in zip(self.kernel, self.pad, self.periodic, strict=True)
        )


class Generator(NamedTuple):
    """A dense start on a coarse grid and what follows."""

    grid: Cells
    channels: int
    blocks: tuple[Block, ...]
    leak: float = 0.0  # slope of the activation below zero
    initializer: str = "he_uniform"
    subpixel: int = 1  # depth-to-space factor after the last block


class Discriminator(NamedTuple):
    """Blocks over the image; two dense heads follow, the other outputs are measured."""

    blocks: tuple[Block, ...]
    leak: float = 0.3
    initializer: str = "glorot_uniform"
    space_to_depth: int = 1
    pool: int = 1  # average pooling before the heads


class _Taps(NamedTuple):
    """A convolution along one axis."""

    taps: int
    up: int
    pad: int
    is_same: bool


def generator_for(table: Generator, shape: Cells, periodic: Axes) -> Generator:
    """Returns the generator of an image of `shape` cells.

    Raises:
        ValueError: Impossible; the message names the nearest possible shapes.
    """
    fit = partial(_generator_axis, table.subpixel)
    axes = _fit(fit, table.blocks, shape, periodic)
    x, y, z = (cells for cells, _ in axes)
    return table._replace(grid=(x, y, z), blocks=_joined(table.blocks, axes, periodic))


def discriminator_for(table: Discriminator, shape: Cells, periodic: Axes) -> Discriminator:
    """Returns the discriminator of an image of `shape` cells; raises what `generator_for` raises."""
    fit = partial(_discriminator_axis, table.space_to_depth, table.pool)
    axes = _fit(fit, table.blocks, shape, periodic)
    return table._replace(blocks=_joined(table.blocks, axes, periodic))


_Fitted = tuple[int, list[_Taps]]
_Fit = Callable[[int, bool, Sequence[_Taps]], _Fitted | None]


def _fit(fit: _Fit, blocks: tuple[Block, ...], shape: Cells, periodic: Axes) -> list[_Fitted]:
    rows = [
        [_Taps(b.kernel[axis], b.upsample[axis], b.pad[axis], b.padding == "same") for b in blocks]
        for axis in range(3)
    ]
    found = [fit(*each) for each in zip(shape, periodic, rows, strict=True)]
    fitted = [each for each in found if each is not None]
    if len(fitted) == len(found):
        return fitted

    def nearest(sizes: Callable[[int], Iterator[int]]) -> str | None:
        near = [
            n if each else next((m for m in sizes(n) if fit(m, wraps, row)), None)
            for n, each, wraps, row in zip(shape, found, periodic, rows, strict=True)
        ]
        return None if None in near else "x".join(map(str, near))

    below = nearest(lambda n: iter(range(n - 1, 0, -1)))
    above = nearest(lambda n: iter(range(n + 1, n + _FARTHEST)))
    wrong = " and ".join(AXES[axis] for axis, each in enumerate(found) if each is None)
    raise ValueError(
        f"an image of {'x'.join(map(str, shape))} cells is impossible along {wrong};"
        f" the nearest possible: {' or '.join(filter(None, (below, above)))}"
    )


def _generator_axis(
    subpixel: int, size: int, periodic: bool, rows: Sequence[_Taps]
) -> _Fitted | None:
    """Coarse cells and convolutions along one axis, from the image backwards; None: impossible."""
    if periodic and size % subpixel:
        return None
    cells, found = -(-size // subpixel), []
    for taps, up, pad, is_same in reversed(rows):
        if periodic:
            found.append(_Taps(_clipped(taps, cells), _divisor(cells, up), 0, True))
            cells //= found[-1].up
            continue
        fine = cells if is_same else cells + taps - 1 - 2 * pad
        more = -fine % up
        if more > up // 2 and fine > up:
            more -= up
        if fine < 1 or (is_same and more):
            return None
        found.append(_Taps(taps + more, up, pad, is_same))
        cells = (fine + more) // up
    return cells, found[::-1]


def _discriminator_axis(
    fold: int, pool: int, size: int, periodic: bool, rows: Sequence[_Taps]
) -> _Fitted | None:
    """Cells that are left, and the convolutions along one axis; None: impossible."""
    if periodic and size % fold:
        return None
    coarse = -(-size // fold)
    least = max(pool, -(-coarse // _LEAST_SHARE))
    for raised in range(sum(row.taps for row in rows)):
        cells, left, found = coarse, raised, []
        for longest, up, pad, is_same in rows:
            taps = _clipped(longest, cells)
            if periodic or is_same:
                found.append(_Taps(taps, up, 0, True))
                continue
            most = (taps - 1) // 2
            more = min(left, max(0, most - pad))
            left -= more
            found.append(_Taps(taps, up, min(pad, most) + more, False))
            cells += 2 * found[-1].pad - taps + 1
        if cells >= least:
            return cells, found
        if left:
            break
    return None


def _clipped(taps: int, cells: int) -> int:
    """A kernel that is longer than its cells has the next odd number of taps."""
    return taps if taps <= cells else cells - (cells % 2 == 0)


def _divisor(cells: int, most: int) -> int:
    return next(up for up in range(most, 0, -1) if cells % up == 0)


def _joined(blocks: tuple[Block, ...], axes: list[_Fitted], periodic: Axes) -> tuple[Block, ...]:
    along = zip(*(rows for _, rows in axes), strict=True)
    return tuple(
        block._replace(
            kernel=tuple(each.taps for each in taps),
            upsample=tuple(each.up for each in taps),
            pad=tuple(each.pad for each in taps),
            periodic=periodic,
        )
        for block, taps in zip(blocks, along, strict=True)
    )


def resized(blocks: Sequence[Block], width: float, depth: int) -> tuple[Block, ...]:
    """Scales the filters; after each block come `depth` - 1 more of 3x3x3 cells that keep its size."""
    found = []
    for block in blocks:
        filters = scaled(block.filters, width)
        found.append(block._replace(filters=filters))
        added = Block(filters, _ADDED_KERNEL, padding="same", periodic=block.periodic)
        found += [added] * (depth - 1)
    return tuple(found)


def scaled(count: int, width: float) -> int:
    """Returns a number of filters times a width, at least 1."""
    return max(1, round(count * width))
