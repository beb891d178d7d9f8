"""Exported generators against the network that `generate` runs, for every preset, in one process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

from cloudgan.data.summary import AngleFit
from cloudgan.exports.generator_weights import weight_shapes
from cloudgan.exports.layout import noise_length
from cloudgan.exports.onnx_generator import onnx_generator
from cloudgan.schema.presets import PROFILES, find_preset
from exports.example_run import example_run
from exports.example_weights import example_weights

pytestmark = [pytest.mark.tf, pytest.mark.slow]

FIT = AngleFit(offset_rad=0.1, slope=0.87)
MARGINALS = {"cell_marginals": True, "angle": "primary", "noise_channels": 2}
SIZES = {"generator_width": 1.5, "generator_depth": 2}
PRESETS = [*((name, {}) for name in PROFILES), ("smoke", MARGINALS), ("smoke", SIZES)]


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("marginals", [False, True])
def test_the_weights_have_the_names_and_the_order_of_keras(name, marginals):
    from cloudgan.models.networks import build_generator

    changes = {"cell_marginals": True, "condition": "concatenate"} if marginals else {}
    preset = find_preset(name).model_copy(update=changes)
    built = [
        ("/".join(weight.path.split("/")[-2:]), tuple(weight.shape))
        for weight in build_generator(preset).weights
    ]
    assert built == list(weight_shapes(preset).items())


@pytest.mark.parametrize(("name", "changes"), PRESETS)
def test_onnx_runtime_and_keras_make_the_showers_of_generate(name, changes):
    from cloudgan.exports.keras_generator import keras_generator
    from cloudgan.training.inference import ShowerGenerator

    preset = find_preset(name).model_copy(update=changes)
    generator = ShowerGenerator(preset)
    weights = example_weights(preset)
    generator.set_weights(list(weights.values()))
    model = onnx_generator(preset, weights, FIT, {})
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(2)
    for showers in (1, 2):
        given = {
            "energy": rng.uniform(10, 100, showers).astype(np.float32),
            "theta": rng.uniform(1.1, 2.0, showers).astype(np.float32),
            "noise": rng.normal(size=(showers, noise_length(preset))).astype(np.float32),
        }
        (found,) = session.run(None, given)
        expected = generator.ecal_gev(latent(preset, given))
        largest = expected.max((1, 2, 3))
        assert found.shape == (showers, *preset.image_shape)
        assert (largest > 1e-4).all()
        assert (np.abs(found - expected).max((1, 2, 3)) <= 1e-5 * largest).all()
        assert np.allclose(found.sum((1, 2, 3)), expected.sum((1, 2, 3)), rtol=1e-5)
        if showers == 1:
            plain = keras_generator(preset, weights, FIT)
            assert np.abs(plain(given).numpy() - expected).max() <= 1e-5 * largest[0]


LOADED = """
import json, sys
import keras, numpy as np, tensorflow as tf
given = dict(np.load("given.npz"))
loaded = keras.saving.load_model("keras/generator.keras")(given).numpy()
signature = tf.saved_model.load("savedmodel/saved_model").signatures["serving_default"]
served = signature(**{name: tf.constant(each) for name, each in given.items()})["ecal"].numpy()
np.savez("found.npz", keras=loaded, savedmodel=served)
assert not [name for name in sys.modules if name.startswith("cloudgan")]
"""


def test_keras_file_and_savedmodel_load_without_cloudgan(tmp_path, cloudgan_here):
    example_run(tmp_path / "mine", **MARGINALS)
    for kind in ("onnx", "keras", "savedmodel"):
        cloudgan_here("export", tmp_path / "mine", tmp_path / kind, f"--format={kind}")
    session = onnxruntime.InferenceSession(
        tmp_path / "onnx" / "generator.onnx", providers=["CPUExecutionProvider"]
    )
    (_, length) = session.get_inputs()[2].shape
    noise = np.random.default_rng(4).standard_normal((2, length), np.float32)
    given = {"energy": np.float32([20, 80]), "theta": np.float32([1.2, 1.9]), "noise": noise}
    np.savez(tmp_path / "given.npz", **given)
    subprocess.run([sys.executable, "-c", LOADED], cwd=tmp_path, check=True, capture_output=True)
    (expected,) = session.run(None, given)
    with np.load(tmp_path / "found.npz") as found:
        for kind in ("keras", "savedmodel"):
            assert np.abs(found[kind] - expected).max() <= 1e-5 * expected.max()


def latent(preset, given):
    """Returns the input of the network, as `generate` makes it."""
    unit = (given["energy"] / np.float32(100))[:, None]
    if preset.condition == "multiply":
        return given["noise"] * unit
    return np.concatenate([unit, FIT.mtheta_rad(given["theta"])[:, None], given["noise"]], 1)
