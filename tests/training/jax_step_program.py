"""Takes steps under JAX from the weights in a file, and writes those after them.

Arguments: the file to read, the file to write, the conv_impl, the precision, the steps, the preset as JSON.
Both files hold arrays named group/number; the first also a batch.
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras.src.backend.common import dtypes

from benchmarks.gpu_step.conv_impls import find_conv_impl
from cloudgan.schema.presets import Preset
from cloudgan.training.engines.jax_draws import JaxDraws
from cloudgan.training.engines.jax_step import JaxStep, Place, State
from cloudgan.training.gan import LearningRates, build_gan

# Under JAX Keras takes no number for a float64: batch norm would compute in float32.
dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"


def group(arrays, name):
    return [jnp.asarray(arrays[key]) for key in sorted(arrays) if key.startswith(f"{name}/")]


def main(read, written, *options):
    conv_impl, precision, steps, preset = options
    arrays = dict(np.load(read))
    preset = Preset.model_validate_json(preset)
    keras.config.set_floatx(precision)  # a model casts what it is called with
    draws = JaxDraws(1)
    gan = build_gan(
        preset,
        draws,
        seed=1,
        precision=precision,
        synchronized=False,
        learning_rates=LearningRates(preset.learning_rate, preset.learning_rate),
        stages=find_conv_impl(conv_impl),
    )
    state = State(**{name: group(arrays, name) for name in State._fields})
    batch = {name: jnp.asarray(arrays[name]) for name in ("image", "energy", "angle", "ecal")}
    step = JaxStep(
        gan,
        preset,
        draws,
        global_batch_size=len(batch["energy"]),
        layer_target=arrays["layer_target"],
        shape_scale=arrays["shape_scale"],
    )
    take, losses = jax.jit(step), []
    for number in range(int(steps)):
        state, table = take(state, batch, Place(np.int32(number), np.int32(0)))
        losses.append(table)
    held_out = jax.jit(step.evaluate)(state, batch, Place(np.int32(0), np.int32(0)))
    found = {
        f"{name}/{number:03d}": array
        for name, values in state._asdict().items()
        for number, array in enumerate(values)
    }
    modules = np.array("tensorflow" in sys.modules)
    np.savez(written, losses=losses, held_out=held_out, has_tensorflow=modules, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
