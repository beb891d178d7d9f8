"""The weights of a generator by name, read from a checkpoint without building the network.

A checkpoint holds them in the order of Keras, which sorts layers by their distance from the output.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.errors import DataError
from cloudgan.models.convolutions import generator_convolutions
from cloudgan.models.shower_frame import LAYER_UNITS, table_shape
from cloudgan.schema.network_size import generator_table
from cloudgan.training.checkpoint import not_finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.models.convolutions import Convolution
    from cloudgan.schema.presets import Preset
    from cloudgan.training.checkpoint import Checkpoint

Weights = dict[str, "NDArray[Any]"]
"""By ``layer/name``, such as ``conv0/kernel``."""


def read_weights(checkpoint: Checkpoint) -> Weights:
    """Returns the weights of the generator that `generate` uses: the averaged one if the preset has it.

    Raises:
        DataError: They do not fit the preset, or are not finite.
    """
    preset = checkpoint.state.config.model
    part = "ema_generator" if preset.ema_decay else "generator"
    path = checkpoint.path
    stored = sorted(name for name in checkpoint.arrays if name.startswith(f"{part}/"))
    arrays = {name: checkpoint.arrays[name] for name in stored}
    wanted = weight_shapes(preset)
    fits = [(name.rpartition("/")[2], each.shape) for name, each in arrays.items()] == [
        (name.rpartition("/")[2], shape) for name, shape in wanted.items()
    ]
    if not fits:
        raise DataError(
            f"{path}: the arrays of {part} do not match preset {preset.preset}; export it with the"
            " version of cloudgan that trained it"
        )
    if problem := not_finite(arrays):
        raise DataError(
            f"{path}: {problem}; this training diverged. Use an earlier step, or train again with a"
            " smaller model.learning_rate"
        )
    values = (np.asarray(each, np.float32) for each in arrays.values())
    return dict(zip(wanted, values, strict=True))


def weight_shapes(preset: Preset) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each weight, in the order of Keras."""
    table = generator_table(preset)
    start = math.prod(table.grid) * table.channels
    *parts, last = [_of_convolution(each) for each in generator_convolutions(preset)]
    shapes = _dense("start", preset.latent_size, start)
    for part in parts:
        shapes |= part
    if not preset.cell_marginals:
        constant = {"output/calibration": ()} if preset.calibrated_output else {}
        return shapes | last | constant
    layers = preset.image_shape[2] + 1
    hidden = _dense("layers_hidden", preset.latent_size, LAYER_UNITS)
    # Without sub-pixels the last convolution is as near to the output as the layer `layers`.
    shapes |= last | hidden if table.subpixel > 1 else hidden | last
    shapes |= _dense("layers", LAYER_UNITS, layers)
    tables = table_shape(preset.image_shape).weights()
    return shapes | {f"output/{name}": shape for name, shape in tables.items()}


def _dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _of_convolution(convolution: Convolution) -> dict[str, tuple[int, ...]]:
    block, name = convolution.block, convolution.name
    filters = (block.filters,)
    shapes: dict[str, tuple[int, ...]] = {}
    shapes[f"{name}/kernel"] = (*block.kernel, convolution.channels, block.filters)
    if block.bias:
        shapes[f"{name}/bias"] = filters
    if block.normalise:
        norm = name.replace("conv", "norm")
        for of_norm in ("gamma", "beta", "moving_mean", "moving_variance"):
            shapes[f"{norm}/{of_norm}"] = filters
    return shapes
