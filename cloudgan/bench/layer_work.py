"""The convolutions of both networks, each timed alone with the kernels that were asked for."""

from __future__ import annotations

import functools
import statistics
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from cloudgan.bench.machine_limits import timed
from cloudgan.models.convolutions import convolutions
from cloudgan.models.stage import Stage
from cloudgan.training.formulation import make_kernels
from cloudgan.training.gan import POLICIES

if TYPE_CHECKING:
    from cloudgan.core.config import RunConfig
    from cloudgan.models.convolutions import Convolution

_REPEATS = 3


class LayerWork:
    """Times one convolution after the other, on values that a random generator made."""

    def __init__(self, config: RunConfig, batch: int, formulation: str) -> None:
        """Prepares to time the convolutions of a preset with `batch` showers at a time."""
        self._layers = convolutions(config.model)
        self._precision, self._batch = config.training.precision, batch
        self._kernels = make_kernels(formulation)

    def time(self, number: int) -> dict[str, Any]:
        """Times layer `number`, in the order of `models.convolutions`.

        Returns:
            By pass the median seconds of a batch; `all_passes` is the three of them in one call,
            where a form may share what they have in common.
        """
        layer = self._layers[number]
        keras.config.set_dtype_policy(POLICIES[self._precision])
        network = self._alone(layer)
        kind = network.compute_dtype
        make = functools.partial(tf.random.stateless_normal, seed=(0, number))
        x = tf.cast(make((self._batch, *layer.cells, layer.channels)), kind)
        slope = tf.cast(make((self._batch, *layer.output_cells, layer.block.filters)), kind)
        weights = network.trainable_variables

        def forward(x: tf.Tensor, slope: tf.Tensor) -> Any:
            del slope
            return network(x)

        def gradient(of: str, x: tf.Tensor, slope: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = network(x)
            sources = {"input": x, "weight": weights, "all": [x, *weights]}[of]
            found = tape.gradient(y, sources, slope)
            return (y, found) if of == "all" else found

        calls = {
            "forward": forward,
            "input_gradient": functools.partial(gradient, "input"),
            "weight_gradient": functools.partial(gradient, "weight"),
            "all_passes": functools.partial(gradient, "all"),
        }
        return {name: _median(call, x, slope) for name, call in calls.items()}

    def _alone(self, layer: Convolution) -> keras.Model:
        image = keras.Input((*layer.cells, layer.channels))
        block = layer.block._replace(normalise=False)
        initializer = keras.initializers.get("glorot_uniform")
        stage = Stage(block, 0, initializer, leak=1.0, momentum=0.0, epsilon=0.0)
        made = self._kernels.stage(stage, image)
        return keras.Model(image, getattr(made, "cells", made))


def _median(call: Any, x: tf.Tensor, slope: tf.Tensor) -> float:
    compiled = tf.function(call, autograph=False)
    timed(compiled, x, slope)
    return statistics.median(timed(compiled, x, slope) for _ in range(_REPEATS))
