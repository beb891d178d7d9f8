"""Takes one step under JAX from the weights in a file, and writes those after it.

Arguments: the file to read, the file to write, the conv_impl, the policy of Keras, the preset as
JSON. Both files hold arrays named group/number; the first also a batch and the normals of each pass.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras.src.backend.common import dtypes

from benchmarks.gpu_step.conv_impls import find_conv_impl
from benchmarks.gpu_step.jax_step import JaxStep, State, build_networks
from cloudgan.schema.presets import Preset

# Under JAX Keras takes no number for a float64: batch norm would compute in float32.
dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"


class GivenNormals:
    """Draws that another backend made."""

    def __init__(self, arrays):
        self._arrays = arrays
        self._call = None

    @contextmanager
    def at(self, key, call):
        before, self._call = self._call, call
        yield
        self._call = before

    def normal(self, rows, per_row):
        return jnp.asarray(self._arrays[f"normals/{self._call}"][:rows, :per_row])


def group(arrays, name):
    return [jnp.asarray(arrays[key]) for key in sorted(arrays) if key.startswith(f"{name}/")]


def main(read, written, conv_impl, policy, preset):
    arrays = dict(np.load(read))
    preset = Preset.model_validate_json(preset)
    keras.config.set_floatx(arrays["image"].dtype.name)  # a model casts what it is called with
    rng = GivenNormals(arrays)
    networks = build_networks(preset, rng, find_conv_impl(conv_impl), policy)
    state = State(**{name: group(arrays, name) for name in State._fields})
    batch = {name: jnp.asarray(arrays[name]) for name in ("image", "energy", "angle", "ecal")}
    step = JaxStep(networks, preset, rng, arrays["layer_target"])
    after, losses = jax.jit(step)(state, batch, jnp.zeros(()))
    found = {
        f"{name}/{number:03d}": array
        for name, values in after._asdict().items()
        for number, array in enumerate(values)
    }
    np.savez(written, losses=losses, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
