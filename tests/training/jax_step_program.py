"""Takes steps under JAX from the weights in a file, and writes those after them.

Arguments: the file to read, the file to write, the precision, the steps, the preset as JSON.
Both files hold arrays by the names of `Gan.variables`; the first also a batch.
"""

from __future__ import annotations

import sys

import jax
import keras
import numpy as np
from keras.src.backend.common import dtypes
from narrow_gan import build

from cloudgan.schema.presets import Preset
from cloudgan.training.jax_backend import pure

# Under JAX Keras takes no number for a float64: batch norm would compute in float32.
dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"


def main(read, written, *options):
    precision, steps, preset = options
    arrays = dict(np.load(read))
    preset = Preset.model_validate_json(preset)
    keras.config.set_floatx(precision)  # a model casts what it is called with
    gan, step = build(
        preset,
        rows=len(arrays["energy"]),
        constants={name: arrays[name] for name in ("layer_target", "shape_scale")},
        precision=precision,
        conv_impl="phases",
    )
    variables = gan.variables()
    take, test = (jax.jit(pure(call, list(variables.values()))) for call in (step, step.evaluate))
    values, losses = [arrays[name] for name in variables], []
    batch = {name: arrays[name] for name in ("image", "energy", "angle", "ecal")}
    batch["first_row"] = np.zeros(1, np.int32)
    for number in range(int(steps)):
        table, values = take(values, batch | {"step": np.array([number], np.int32)})
        losses.append(table)
    held_out, _ = test(values, batch | {"step": np.zeros(1, np.int32)})
    found = dict(zip(variables, values, strict=True))
    modules = np.array("tensorflow" in sys.modules)
    np.savez(written, losses=losses, held_out=held_out, has_tensorflow=modules, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
