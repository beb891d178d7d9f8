"""A convolution with all that stands around it, by cloudgan.native, inside TensorFlow's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cloudgan.native.convolution import Convolution
from cloudgan.native.emitter import LANES
from cloudgan.native.geometry import Geometry, blocks_of
from cloudgan.native.program import kernel_floats
from cloudgan.native.spectra import from_spectrum, to_spectrum

if TYPE_CHECKING:
    import numpy as np

    from cloudgan.native.fusion import Fusion
    from cloudgan.native.team import Team

Output = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


class Transformed:
    """active, sums, squares of (image, scale, shift, kernel, bias, halves), with its gradient.

    Shapes: image (B, *size, channels), scale and shift (channels,), kernel (*taps, channels,
    filters), bias (filters,), halves uint16 (B, values of an image or more); active (B, *output,
    filters), its sums and sums of squares over the batch (filters,) in float64.
    """

    def __init__(self, sizes: Geometry, fusion: Fusion, team: Team) -> None:
        self.sizes, self._fusion = sizes, fusion
        self._native = Convolution(sizes, fusion, team)
        self._spectrum_of = to_spectrum(sizes)
        self._adjoint_spectrum_of = to_spectrum(sizes.adjoint())
        self._from_spectrum = from_spectrum(sizes)

    def __call__(
        self,
        image: tf.Tensor,
        scale: tf.Tensor,
        shift: tf.Tensor,
        kernel: tf.Tensor,
        bias: tf.Tensor,
        *,
        halves: tf.Tensor | None = None,
    ) -> Output:
        """Runs forward and remembers how to go back."""

        @tf.custom_gradient
        def run(*given: tf.Tensor) -> tuple[Output, Any]:
            image, scale, shift, kernel, _ = given
            inputs = self._inputs(image, scale, shift, halves)
            active, sums, squares = self._forward(inputs, kernel, bias)

            def gradient(*of: tf.Tensor) -> tuple[tf.Tensor, ...]:
                outer = self._outer(active, *of)
                d_image, d_scale, d_shift = self._input_gradient(inputs, outer, kernel)
                return d_image, d_scale, d_shift, *self._kernel_gradient(inputs, outer)

            return (active, sums, squares), gradient

        result: Output = run(image, scale, shift, kernel, bias)
        return result

    def _inputs(
        self, image: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor, halves: tf.Tensor | None
    ) -> dict[str, tf.Tensor]:
        inputs = {"image": image, "scale": _padded(scale), "shift": _padded(shift)}
        return inputs if halves is None else inputs | {"halves": halves}

    def _outer(
        self, active: tf.Tensor, of_active: tf.Tensor, of_sums: tf.Tensor, of_squares: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return {
            "gradient": of_active,
            "active": active,
            "of_sums": _padded(tf.cast(of_sums, tf.float32)),
            "of_squares": _padded(tf.cast(2 * of_squares, tf.float32)),
        }

    def _forward(self, inputs: dict[str, tf.Tensor], kernel: tf.Tensor, bias: tf.Tensor) -> Output:
        spectrum = _spectrum(self._spectrum_of, self.sizes, kernel)
        given = inputs | {"kernel": spectrum, "bias": _padded(bias)}
        active, sums, squares = _call(self._native.forward, given, 3)
        rows, (x, y, z), filters = inputs["image"].shape[0], self.sizes.output, self.sizes.filters
        active.set_shape((rows, x, y, z, filters))
        return active, _total(sums, filters, tf.float64), _total(squares, filters, tf.float64)

    def _input_gradient(
        self, inputs: dict[str, tf.Tensor], outer: dict[str, tf.Tensor], kernel: tf.Tensor
    ) -> Output:
        turned = tf.transpose(tf.reverse(kernel, [0, 1, 2]), (0, 1, 2, 4, 3))
        spectrum = _spectrum(self._adjoint_spectrum_of, self.sizes.adjoint(), turned)
        given = {**inputs, **outer, "kernel": spectrum}
        d_image, d_shift, d_scale = _call(self._native.input_gradient, given, 3)
        d_image.set_shape(inputs["image"].shape)
        channels = self.sizes.channels
        return d_image, _total(d_scale, channels), _total(d_shift, channels)

    def _kernel_gradient(
        self, inputs: dict[str, tf.Tensor], outer: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        spectrum, bias_sums = _call(self._native.kernel_gradient, {**inputs, **outer}, 2)
        sizes = self.sizes
        taps_x, taps_y, taps_z = sizes.kernel
        spectrum.set_shape((kernel_floats(sizes),))
        spectrum = tf.reshape(
            spectrum, (-1, taps_x * sizes.channels, sizes.filter_blocks, 2, LANES)
        )
        spectrum = tf.transpose(spectrum, (0, 3, 1, 2, 4))
        spectrum = tf.reshape(spectrum, (self._spectrum_of.shape[0], -1))
        d_kernel = tf.matmul(tf.constant(self._from_spectrum, tf.float32), spectrum)
        d_kernel = tf.reshape(d_kernel, (taps_y, taps_z, taps_x, sizes.channels, -1))
        d_kernel = tf.transpose(d_kernel[..., : sizes.filters], (2, 0, 1, 3, 4))
        return d_kernel, _total(bias_sums, sizes.filters)


def _call(run: Any, given: dict[str, tf.Tensor], outputs: int) -> list[tf.Tensor]:
    """Calls native code from the graph; without side effects, so that unused gradients are left out."""
    names = list(given)
    found: list[tf.Tensor] = tf.numpy_function(
        lambda *arrays: run(dict(zip(names, arrays, strict=True))),
        list(given.values()),
        [tf.float32] * outputs,
        stateful=False,
    )
    return found


def _spectrum(matrix: np.ndarray[Any, Any], sizes: Geometry, kernel: tf.Tensor) -> tf.Tensor:
    """The kernel at each frequency, laid out as `kernel_floats` says."""
    taps_x, taps_y, taps_z = sizes.kernel
    room = sizes.filter_blocks * LANES - sizes.filters
    kernel = tf.pad(kernel, [(0, 0)] * 4 + [(0, room)])
    kernel = tf.reshape(tf.transpose(kernel, (1, 2, 0, 3, 4)), (taps_y * taps_z, -1))
    spectrum = tf.matmul(tf.constant(matrix, tf.float32), kernel)
    spectrum = tf.reshape(spectrum, (-1, 2, taps_x * sizes.channels, sizes.filter_blocks, LANES))
    return tf.reshape(tf.transpose(spectrum, (0, 2, 3, 1, 4)), (-1,))


def _padded(numbers: tf.Tensor) -> tf.Tensor:
    """Numbers by channel, with zeros up to whole vectors."""
    channels = int(numbers.shape[0])
    return tf.pad(numbers, [(0, blocks_of(channels) * LANES - channels)])


def _total(sums: tf.Tensor, channels: int, dtype: Any = tf.float32) -> tf.Tensor:
    """Sums by shower and plane (B, x, lanes) -> by channel; added in float64, they are many."""
    total = tf.reduce_sum(tf.cast(sums, tf.float64), (0, 1))[:channels]
    return tf.cast(tf.ensure_shape(total, (channels,)), dtype)
