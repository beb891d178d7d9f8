"""The step of `train --engine=jax` is TensorFlow's: same weights and random numbers in, same weights out."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.data.batches import Batch
from cloudgan.schema.presets import find_preset
from cloudgan.training.calibration import shape_scale
from training.narrow_gan import build, showers

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.skipif(not find_spec("jax"), reason="JAX is not installed"),
]
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "jax_step_program.py"
BATCH = 3
APART = 1e-3
QUICK = "--xla_backend_optimization_level=0"  # compiles in a fraction of the time


def numbers(gan):
    """All that a step changes."""
    return {name: variable.numpy() for name, variable in gan.variables().items()}


def under_both(preset, folder, *, precision, steps):
    """Returns the numbers before the steps, after them under TensorFlow, and after them under JAX."""
    keras.config.set_floatx(precision)  # a model casts what it is called with
    given = showers(preset, rows=BATCH, kind=precision)
    scale = shape_scale(preset, Batch(given["image"][..., 0], *list(given.values())[1:]))
    constants = {
        "layer_target": np.full(preset.image_shape[2], 8e-4),
        "shape_scale": np.maximum(scale, 0.1),  # of three showers
    }
    gan, step = build(preset, rows=BATCH, constants=constants, precision=precision)  # as published
    before = numbers(gan)
    np.savez(folder / "before.npz", **before, **given, **constants)
    fed = {name: tf.constant(array) for name, array in given.items()}

    def place(number):
        return {
            "step": tf.constant([number], tf.int64),
            "first_row": tf.zeros((1,), tf.int64),
        }

    losses = [step(fed | place(number)).numpy() for number in range(steps)]
    theirs = numbers(gan) | {"losses": losses, "held_out": step.evaluate(fed | place(0)).numpy()}
    files = [str(folder / "before.npz"), str(folder / "after.npz")]
    environment = os.environ | {
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1" if precision == "float64" else "0",
        "XLA_FLAGS": QUICK,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    arguments = [*files, precision, str(steps), preset.model_dump_json()]
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "after.npz") as archive:
        return before, theirs, dict(archive)


# TensorFlow holds slopes and Adam's betas as float32 even where all else is float64, and both engines the
# normals.
def test_steps_under_jax_make_of_the_same_weights_the_same_weights_without_tensorflow(tmp_path):
    before, theirs, ours = under_both(find_preset("smoke"), tmp_path, precision="float64", steps=2)
    assert not ours.pop("has_tensorflow")
    assert ours.keys() == theirs.keys()
    for name in ("losses", "held_out"):
        np.testing.assert_allclose(ours.pop(name), theirs.pop(name), rtol=APART, atol=1e-6)
    for name, wanted in theirs.items():
        moved = np.linalg.norm(wanted - before[name])
        assert np.linalg.norm(ours[name] - wanted) <= APART * moved, name
    moving = {name.partition("/")[0] for name in before if np.any(before[name] != theirs[name])}
    assert moving == {name.partition("/")[0] for name in before}
