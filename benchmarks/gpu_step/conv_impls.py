"""Forms of the networks' convolutions to try on a GPU, beside the two that training has.

With 1 to 16 channels a matrix unit's tile is mostly empty. `blocked` fills it: neighbouring cells
become channels, for about twice the arithmetic. `fft` needs a fifteenth of the arithmetic where 16
channels meet 8 by 180 taps, and is bound by memory (XLA's count multiplies the logarithms of the
three lengths where it should add them, so its GFLOP are several times too many). An explicit im2col
is no candidate: of that one layer it writes 0.5 GB a shower.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from keras import ops

from cloudgan.gan.kernels.fourier import smooth_size
from cloudgan.gan.layers import PUBLISHED, ConvolutionLayer, PhaseStages

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.gan.layers import Stage, Stages

Cells = tuple[int, int, int]
_TRAINED: dict[str, Stages] = {"published": PUBLISHED, "phases": PhaseStages()}


def find_conv_impl(name: str) -> Stages:
    """Returns the kernels called `published`, `phases`, `fft` or `blocked:XxYxZ`.

    Raises:
        ValueError: There is none of this name.
    """
    if name in _TRAINED:
        return _TRAINED[name]
    if name == "fft":
        return _Own(FourierConvolution)
    if found := re.fullmatch(r"blocked:([1-9])x([1-9])x([1-9])", name):
        x, y, z = map(int, found.groups())
        return _Own(lambda *given, **named: BlockedConvolution(*given, cells=(x, y, z), **named))
    known = ", ".join([*_TRAINED, "fft", "blocked:2x2x2"])
    raise ValueError(f"--conv-impls has {name!r}; there are {known}")


class _Own(PhaseStages):
    """A layer for every convolution but those with an up-sampling, which have the phase form."""

    def __init__(self, layer: Callable[..., ConvolutionLayer]) -> None:
        self._layer = layer

    def convolution(self, stage: Stage, x: Any) -> Any:
        """Puts the layer in its place."""
        if stage.block.upsample != (1, 1, 1):
            return super().convolution(stage, x)
        return self._layer(stage.block, stage.initializer, name=f"conv{stage.number}")(x)


class _Convolution(ConvolutionLayer):
    """(B, x, y, z, C) -> (B, X, Y, Z, filters): padding and Conv3D, with the same weights."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        block, channels = self._block, int(input_shape[-1] or 0)
        # What is made of the kernel is rounded once, at the end.
        self.add_weights(channels, autocast=False)
        pads = [(n, n) for n in block.pad]
        if block.padding == "same":
            pads = [((k - 1) // 2, k // 2) for k in block.kernel]
        self._pads = pads
        sizes = [int(n or 0) + sum(pad) for n, pad in zip(input_shape[1:4], pads, strict=True)]
        self._padded = sizes
        self._size = [n - k + 1 for n, k in zip(sizes, block.kernel, strict=True)]

    def call(self, x: Any) -> Any:
        y = self._convolved(ops.pad(x, [(0, 0), *self._pads, (0, 0)]))
        return y + ops.cast(self.bias, y.dtype) if self._block.bias else y

    def _convolved(self, x: Any) -> Any:
        raise NotImplementedError


class BlockedConvolution(_Convolution):
    """Blocks of neighbouring cells are channels, before and after a convolution of blocks."""

    def __init__(self, *args: Any, cells: Cells, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cells = cells

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Makes the weights, and which tap joins which cells of two blocks."""
        super().build(input_shape)
        axes = list(zip(self._block.kernel, self._cells, strict=True))
        self._places = [_places(taps, cells) for taps, cells in axes]
        blocks = [-(-n // cells) for n, cells in zip(self._size, self._cells, strict=True)]
        self._blocks = [
            n + place.shape[1] - 1 for n, place in zip(blocks, self._places, strict=True)
        ]

    def _convolved(self, x: Any) -> Any:
        (u, v, w), (nx, ny, nz) = self._cells, self._blocks
        channels, filters = x.shape[-1], self._block.filters
        whole = zip(self._blocks, self._cells, self._padded, strict=True)
        x = ops.pad(x, [(0, 0), *((0, n * cells - size) for n, cells, size in whole), (0, 0)])
        x = ops.reshape(x, (-1, nx, u, ny, v, nz, w * channels))
        x = ops.transpose(x, (0, 1, 3, 5, 2, 4, 6))
        x = ops.reshape(x, (-1, nx, ny, nz, u * v * w * channels))
        y = ops.conv(x, ops.cast(self._block_kernel(), self.compute_dtype), padding="valid")
        nx, ny, nz = y.shape[1:4]
        y = ops.reshape(y, (-1, nx, ny, nz, u, v, w * filters))
        y = ops.transpose(y, (0, 1, 4, 2, 5, 3, 6))
        y = ops.reshape(y, (-1, nx * u, ny * v, nz * w, filters))
        return ops.slice(y, (0, 0, 0, 0, 0), (-1, *self._size, filters))

    def _block_kernel(self) -> Any:
        """The kernel between blocks, (tx, ty, tz, cells * C, cells * filters)."""
        kernel = ops.convert_to_tensor(self.kernel)
        places = [ops.cast(place, kernel.dtype) for place in self._places]
        kernel = ops.einsum("xyzcf,zCkr->xyCkcrf", kernel, places[2])
        kernel = ops.einsum("xyCkcrf,yBjq->xBCjkcqrf", kernel, places[1])
        kernel = ops.einsum("xBCjkcqrf,xAip->ABCijkcpqrf", kernel, places[0])
        taps, cells = [place.shape[1] for place in self._places], int(np.prod(self._cells))
        return ops.reshape(kernel, (*taps, cells * self.kernel.shape[3], -1))


class FourierConvolution(_Convolution):
    """A product of spectra, in float32 whatever the precision of the network."""

    def _convolved(self, x: Any) -> Any:
        lengths = [smooth_size(n) for n in self._padded]
        spectrum = jnp.fft.rfftn(jnp.moveaxis(x, -1, 1).astype(jnp.float32), lengths, (2, 3, 4))
        kernel = jnp.transpose(ops.convert_to_tensor(self.kernel), (3, 4, 0, 1, 2))
        taps = jnp.fft.rfftn(kernel.astype(jnp.float32), lengths, (2, 3, 4))
        product = jnp.einsum("bcxyz,cfxyz->bfxyz", spectrum, jnp.conj(taps))
        y = jnp.moveaxis(jnp.fft.irfftn(product, lengths, (2, 3, 4)), 1, -1)
        nx, ny, nz = self._size
        return y[:, :nx, :ny, :nz].astype(self.compute_dtype)


def _places(taps: int, cells: int) -> np.ndarray[Any, Any]:
    """(taps, blocks, cells in, cells out): 1 where a tap joins a cell in to a cell out."""
    found = np.zeros((taps, (cells + taps - 2) // cells + 1, cells, cells), np.float32)
    for tap, out in itertools.product(range(taps), range(cells)):
        found[tap, (tap + out) // cells, (tap + out) % cells, out] = 1
    return found
