"""A generator as a Keras model and a SavedModel, of Keras' own layers and operations only.

The layers of cloudgan are traced with their weights as constants, so that `keras.saving.load_model` needs no
class of ours. Inputs and output are those of `cloudgan.exports.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from keras import ops

from cloudgan.core.errors import CloudganError
from cloudgan.data.pipeline.preprocessing import ENERGY_UNIT_GEV, LEAST_CELL_GEV
from cloudgan.exports.layout import inputs, output
from cloudgan.models.networks import build_generator

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.data.summary import AngleFit
    from cloudgan.exports.generator_weights import Weights
    from cloudgan.schema.presets import Preset


def keras_generator(preset: Preset, weights: Weights, angle_fit: AngleFit | None) -> keras.Model:
    """Returns a model from ``{"energy": (B,), "theta": (B,), "noise": (B, N)}`` to showers in GeV.

    Args:
        preset: Of the network.
        weights: As of `read_weights`.
        angle_fit: Line from theta to the angle of the condition; None: theta is the condition.
    """
    keras.config.set_dtype_policy("float32")
    network = build_generator(preset)
    network.set_weights(list(weights.values()))
    plain = keras.models.clone_model(
        network, clone_function=lambda layer: layer, call_function=_traced
    )
    given = {each.name: keras.Input(each.shape, name=each.name) for each in inputs(preset)}
    unit = given["energy"][:, None] / ENERGY_UNIT_GEV
    if preset.has_angle:
        angle = given["theta"][:, None]
        if angle_fit:
            angle = angle * angle_fit.slope + angle_fit.offset_rad
        latent = ops.concatenate([unit, angle, given["noise"]], axis=1)
    else:
        latent = given["noise"] * unit
    image = plain(latent)[..., 0]
    ecal = ops.power(image, 1 / preset.image_power) / preset.image_scale
    ecal = ops.where(ecal < LEAST_CELL_GEV, 0.0, ecal)
    return keras.Model(given, ecal, name=f"cloudgan_{preset.preset}")


def _traced(layer: Any, *values: Any, **options: Any) -> Any:
    """Applies a layer of Keras, or the operations of a layer of cloudgan with constant weights."""
    if not type(layer).__module__.startswith("cloudgan."):
        return layer(*values, **options)
    for weight in layer.weights:
        setattr(layer, weight.name, weight.numpy())
    return layer.call(*values)


def save_tensorflow(model: keras.Model, preset: Preset, folder: Path) -> None:
    """Writes a SavedModel with the signature `serving_default`, whose output is named `ecal`.

    Raises:
        CloudganError: The folder cannot be written, as when the disk is full.
    """
    signature = [
        tf.TensorSpec((None, *each.shape), tf.float32, each.name) for each in inputs(preset)
    ]

    @tf.function(input_signature=signature)
    def serve(energy: Any, theta: Any, noise: Any) -> dict[str, Any]:
        given = {"energy": energy, "theta": theta, "noise": noise}
        return {output(preset).name: model(given, training=False)}

    module = tf.Module()
    module.model, module.serve = model, serve
    try:
        tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    except tf.errors.OpError as error:
        reason = " ".join(error.message.split()).rpartition("; ")[2]
        raise CloudganError(
            f"the SavedModel cannot be written ({reason}); free space, then run the command again"
        ) from error
