"""A generator as a Keras model from energies, angles and normals to showers in GeV, and its files.

The model is what `generate` does: condition, network, output layer, inverse of the preprocessing and the
threshold of a cell. Inputs and output are those of `cloudgan.exports.layout` in every format.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import CloudganError
from cloudgan.data.showers import ENERGY_UNIT_GEV, LEAST_CELL_GEV
from cloudgan.data.summary import AngleFit
from cloudgan.exports.layout import inputs, output
from cloudgan.gan.layers import PUBLISHED, PhaseStages
from cloudgan.gan.networks import build_generator
from cloudgan.schema.presets import Preset
from cloudgan.training.checkpoint import Checkpoint, restore_part

OPSET = 15
"""Operators of ONNX 1.10 and later."""


def network_in_gev(preset: Preset, *, plain: bool = False) -> keras.Model:
    """Builds the generator with its initial weights, whose order is that of every form of it.

    Cell marginals raise an exponential to `image_power`: asked for GeV, they need no root afterwards.

    Args:
        preset: Of the network.
        plain: Of the published layers; else up-sampled convolutions run over the coarse cells.
    """
    keras.config.set_dtype_policy("float32")
    for gpu in tf.config.list_physical_devices("GPU"):
        with suppress(RuntimeError):  # TensorFlow runs already
            tf.config.experimental.set_memory_growth(gpu, enable=True)
    units = {"image_power": 1.0, "image_scale": 1.0} if preset.cell_marginals else {}
    stages = PUBLISHED if plain else PhaseStages()
    return build_generator(preset.model_copy(update=units), stages=stages)


def trained_network(checkpoint: Checkpoint, *, plain: bool = False) -> keras.Model:
    """Returns the network with the weights that `generate` uses: averaged, if the preset has such."""
    preset = checkpoint.state.config.model
    network = network_in_gev(preset, plain=plain)
    restore_part(checkpoint, "ema_generator" if preset.ema_decay else "generator", network.weights)
    return network


def shower_model(preset: Preset, network: keras.Model, angle_fit: AngleFit | None) -> keras.Model:
    """Returns a model from ``{"energy": (B,), "theta": (B,), "noise": (B, N)}`` to showers in GeV.

    Args:
        preset: Of the network.
        network: As of `network_in_gev`.
        angle_fit: Line from theta to the angle of the condition; None: theta is the condition.
    """
    given = {each.name: keras.Input(each.shape, name=each.name) for each in inputs(preset)}
    unit = given["energy"][:, None] / ENERGY_UNIT_GEV
    if preset.has_angle:
        angle = given["theta"][:, None]
        if angle_fit:
            angle = angle * angle_fit.slope + angle_fit.offset_rad
        latent = ops.concatenate([unit, angle, given["noise"]], axis=1)
    else:
        latent = given["noise"] * unit
    ecal = network(latent)[..., 0]
    if not preset.cell_marginals:
        ecal = ops.power(ecal, 1 / preset.image_power) / preset.image_scale
    ecal = ops.where(ecal < LEAST_CELL_GEV, 0.0, ecal)
    return keras.Model(given, ecal, name=f"cloudgan_{preset.preset}")


def without_own_layers(network: keras.Model) -> keras.Model:
    """Returns the network of Keras' own layers and operations, which loads without cloudgan.

    The layers of cloudgan are traced with their weights as constants.
    """

    def traced(layer: Any, *values: Any, **options: Any) -> Any:
        if not type(layer).__module__.startswith("cloudgan."):
            return layer(*values, **options)
        for weight in layer.weights:
            setattr(layer, weight.name, weight.numpy())
        return layer.call(*values)

    return keras.models.clone_model(
        network, clone_function=lambda layer: layer, call_function=traced
    )


def save_onnx(model: keras.Model, preset: Preset, facts: dict[str, str], path: Path) -> None:
    """Writes a shower model as ONNX: operators of the default domain, `facts` as metadata."""
    import onnx  # noqa: PLC0415 - of another extra than Keras

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of Keras, which looks for `np.object`
        _export(model, preset, path, format="onnx", opset_version=OPSET)
    written = onnx.load(path)
    order = [each.name for each in inputs(preset)]
    given = sorted(written.graph.input, key=lambda each: order.index(each.name))
    for tensor in (*given, *written.graph.output):
        tensor.type.tensor_type.shape.dim[0].dim_param = "batch"
    del written.graph.input[:]
    written.graph.input.extend(given)
    operators = [each for each in written.opset_import if not each.domain]
    del written.opset_import[:]
    written.opset_import.extend(operators)
    written.graph.name = f"cloudgan_{preset.preset}"
    onnx.helper.set_model_props(written, facts)
    onnx.checker.check_model(written, full_check=True)
    write_atomic(path, written.SerializeToString())


def save_tensorflow(model: keras.Model, preset: Preset, folder: Path) -> None:
    """Writes a SavedModel with the signature `serving_default`, whose output is named `ecal`."""
    try:
        _export(model, preset, folder, format="tf_saved_model")
    except tf.errors.OpError as error:
        reason = " ".join(error.message.split()).rpartition("; ")[2]
        raise CloudganError(
            f"the SavedModel cannot be written ({reason}); free space, then run the command again"
        ) from error


def _export(model: keras.Model, preset: Preset, path: Path, **options: Any) -> None:
    given = {
        each.name: tf.TensorSpec((None, *each.shape), tf.float32, each.name)
        for each in inputs(preset)
    }
    named = keras.Model(model.input, {output(preset).name: model.output})
    named.export(str(path), verbose=False, input_signature=[given], **options)
