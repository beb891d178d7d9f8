"""Sizes of a convolution by Fourier transforms along y and depth, and the matrices of its kernel spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cloudgan.gan.kernels.emitter import LANES
from cloudgan.gan.kernels.fourier import smooth_size

Cells = tuple[int, int, int]
LINE = 2 * LANES  # float32 of one complex vector: real parts, imaginary parts


class Image(NamedTuple):
    """Cells and channels of one side of a convolution."""

    size: Cells
    channels: int

    @property
    def blocks(self) -> int:
        """Vectors per cell."""
        return blocks_of(self.channels)

    @property
    def plane_vectors(self) -> int:
        """Vectors of one frequency along depth."""
        return self.size[0] * self.blocks * self.size[1]


@dataclass(frozen=True)
class Geometry:
    """One convolution of stride 1 over (x, y, depth, channels), zero-padded.

    Attributes:
        size: Cells of the input.
        channels: Channels of the input.
        kernel: Taps.
        filters: Channels of the output.
        before: Zeros before the first cell.
        after: Zeros after the last cell.
    """

    size: Cells
    channels: int
    kernel: Cells
    filters: int
    before: Cells = (0, 0, 0)
    after: Cells = (0, 0, 0)

    @property
    def output(self) -> Cells:
        """Cells of the output."""
        sizes = zip(self.size, self.before, self.after, self.kernel, strict=True)
        x, y, z = (n + low + high - taps + 1 for n, low, high, taps in sizes)
        return x, y, z

    @property
    def period(self) -> tuple[int, int]:
        """Transform sizes along y and depth; the padding on both sides overlaps."""
        sizes = zip(self.size, self.before, self.after, self.kernel, self.output, strict=True)
        _, y, z = (
            smooth_size(max(n + max(low, high), out + max(taps - 1 - low, n + low - out)))
            for n, low, high, taps, out in sizes
        )
        return y, z

    @property
    def frequencies(self) -> int:
        """Frequencies along depth, half of the spectrum."""
        return self.period[1] // 2 + 1

    @property
    def image(self) -> Image:
        """The input."""
        return Image(self.size, self.channels)

    @property
    def result(self) -> Image:
        """The output."""
        return Image(self.output, self.filters)

    @property
    def planes(self) -> int:
        """Planes along x, padding included."""
        return self.size[0] + self.before[0] + self.after[0]

    def adjoint(self) -> Geometry:
        """Convolution from the gradient of the output to that of the input."""
        low = tuple(taps - 1 - n for taps, n in zip(self.kernel, self.before, strict=True))
        high = tuple(taps - 1 - n for taps, n in zip(self.kernel, self.after, strict=True))
        return Geometry(self.output, self.filters, self.kernel, self.channels, low, high)  # type: ignore[arg-type]


def blocks_of(channels: int) -> int:
    """Vectors that hold `channels` values."""
    return -(-channels // LANES)


Doubles = np.ndarray[Any, np.dtype[np.float64]]


def to_spectrum(sizes: Geometry) -> Doubles:
    """(frequencies along depth * along y * 2, taps along y * along depth).

    Rows alternate cosines and sines; the product with a kernel is its spectrum divided by the number of
    frequencies, so that the image transforms need no factor.
    """
    turns = _waves(sizes)
    return np.stack([turns.real, turns.imag], 1).reshape(-1, turns.shape[1])


def from_spectrum(sizes: Geometry) -> Doubles:
    """Inverse for gradients, (taps along y * along depth, frequencies * 2).

    Frequencies along depth of which only one half is computed count twice.
    """
    twice = np.full(sizes.frequencies, 2.0)
    twice[0] = 1.0
    if sizes.period[1] % 2 == 0:
        twice[-1] = 1.0
    turns = _waves(sizes) * np.repeat(twice, sizes.period[0])[:, None]
    return np.stack([turns.real, -turns.imag], 1).reshape(-1, turns.shape[1]).T


def _waves(sizes: Geometry) -> np.ndarray[Any, np.dtype[np.complex128]]:
    """exp(i omega (tap - before)) / frequencies, by frequency and tap."""
    period_y, period_z = sizes.period
    _, taps_y, taps_z = sizes.kernel
    along_y = np.outer(np.arange(period_y), np.arange(taps_y) - sizes.before[1]) / period_y
    along_z = np.outer(np.arange(sizes.frequencies), np.arange(taps_z) - sizes.before[2]) / period_z
    turns = along_z[:, None, None, :] + along_y[None, :, :, None]
    waves: np.ndarray[Any, np.dtype[np.complex128]] = np.exp(2j * np.pi * turns)
    return waves.reshape(-1, taps_y * taps_z) / (period_y * period_z)
