"""Sizes of a convolution that is computed by transforms along y and depth, and directly along x."""

from __future__ import annotations

from dataclasses import dataclass

from cloudgan.native.emitter import LANES
from cloudgan.native.fourier import smooth_size

Cells = tuple[int, int, int]
LINE = 2 * LANES  # float32 of one complex vector: real parts, imaginary parts


@dataclass(frozen=True)
class Geometry:
    """One convolution of stride 1 over (x, y, depth, channels), with zeros around it.

    Attributes:
        size: Cells of the input.
        channels: Of the input.
        kernel: Taps.
        filters: Channels of the output.
        before: Zeros before the first cell.
        after: Zeros behind the last one.
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
        x, y, z = (
            n + low + high - taps + 1
            for n, low, high, taps in zip(
                self.size, self.before, self.after, self.kernel, strict=True
            )
        )
        return x, y, z

    @property
    def period(self) -> tuple[int, int]:
        """Sizes of the transforms along y and depth: zeros on both sides share their place."""
        y, z = (
            smooth_size(
                max(
                    n + max(low, high),
                    out + max(taps - 1 - low, n + low - out),
                )
            )
            for n, low, high, taps, out in zip(
                self.size[1:],
                self.before[1:],
                self.after[1:],
                self.kernel[1:],
                self.output[1:],
                strict=True,
            )
        )
        return y, z

    @property
    def frequencies(self) -> int:
        """Along depth, where one half is enough."""
        return self.period[1] // 2 + 1

    @property
    def channel_blocks(self) -> int:
        """Vectors that hold the channels of the input."""
        return blocks_of(self.channels)

    @property
    def filter_blocks(self) -> int:
        """Vectors that hold the channels of the output."""
        return blocks_of(self.filters)

    @property
    def planes(self) -> int:
        """Planes along x with the zeros around them."""
        return self.size[0] + self.before[0] + self.after[0]

    def adjoint(self) -> Geometry:
        """The convolution that takes the gradient of the output to that of the input."""
        low = tuple(taps - 1 - n for taps, n in zip(self.kernel, self.before, strict=True))
        high = tuple(taps - 1 - n for taps, n in zip(self.kernel, self.after, strict=True))
        return Geometry(self.output, self.filters, self.kernel, self.channels, low, high)  # type: ignore[arg-type]


def blocks_of(channels: int) -> int:
    """Vectors that hold `channels` numbers."""
    return -(-channels // LANES)
