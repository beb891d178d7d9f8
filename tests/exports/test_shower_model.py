"""Exported generators against the network that `generate` runs, and against NumPy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from scipy.ndimage import correlate

from cloudgan.data.summary import AngleFit
from cloudgan.exports.layout import noise_length
from cloudgan.exports.shower_model import (
    network_in_gev,
    save_onnx,
    shower_model,
    without_own_layers,
)
from cloudgan.gan.shower_frame import table_shape
from cloudgan.schema.presets import PROFILES, find_preset
from cloudgan.training.inference import ShowerGenerator
from exports.example_run import example_run
from exports.example_weights import example_weights

pytestmark = pytest.mark.tf

FIT = AngleFit(offset_rad=0.1, slope=0.87)
SMOKE = find_preset("smoke")
MARGINALS = {"cell_marginals": True, "angle": "primary", "noise_channels": 2}
PERIODIC = {"image_shape": (10, 16, 24), "periodic_axes": ("y",)}
CASES = [
    *((name, {}) for name in PROFILES),
    ("smoke", PERIODIC | {"generator_width": 1.5, "generator_depth": 2, "log_energy": True}),
    ("smoke", PERIODIC | MARGINALS),
    ("smoke", MARGINALS | {"image_shape": (16, 9, 15), "periodic_axes": ("x",)}),
]


def built(preset, weights, fit=None, *, plain=False):
    network = network_in_gev(preset, plain=plain)
    network.set_weights(list(weights.values()))
    return shower_model(preset, without_own_layers(network) if plain else network, fit)


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def inputs(preset, showers, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "energy": rng.uniform(10, 100, showers).astype(np.float32),
        "theta": rng.uniform(1.1, 2.0, showers).astype(np.float32),
        "noise": rng.normal(size=(showers, noise_length(preset))).astype(np.float32),
    }


@pytest.mark.parametrize(("name", "changes"), CASES)
def test_onnx_runtime_and_keras_make_the_showers_of_generate(name, changes, tmp_path):
    preset = find_preset(name).model_copy(update=changes)
    weights = example_weights(preset)
    generator = ShowerGenerator(preset)
    generator.set_weights(list(weights.values()))
    save_onnx(built(preset, weights, FIT), preset, {"preset": name}, tmp_path / "a.onnx")
    has_the_documented_form(onnx.load(tmp_path / "a.onnx"), preset)
    run = session(tmp_path / "a.onnx")
    plain = built(preset, weights, FIT, plain=True)
    given = inputs(preset, 2, seed=2)
    expected = generator.ecal_gev(latent(preset, given))
    largest = expected.max((1, 2, 3))
    assert (largest > 1e-4).all()
    for found in (run.run(None, given)[0], plain(given).numpy()):
        assert found.shape == (2, *preset.image_shape)
        assert (np.abs(found - expected).max((1, 2, 3)) <= 1e-5 * largest).all()
        assert np.allclose(found.sum((1, 2, 3)), expected.sum((1, 2, 3)), rtol=1e-5)
    (together,) = run.run(None, given)
    for number in range(2):  # a shower does not depend on its batch
        one = {name: value[number : number + 1] for name, value in given.items()}
        assert np.allclose(run.run(None, one)[0][0], together[number], rtol=1e-5, atol=1e-9)


def has_the_documented_form(model, preset):
    onnx.checker.check_model(model, full_check=True)
    named = {each.name: each.type.tensor_type.shape.dim for each in model.graph.input}
    assert list(named) == ["energy", "theta", "noise"]
    assert {dim[0].dim_param for dim in named.values()} == {"batch"}
    assert named["noise"][1].dim_value == noise_length(preset)
    (output,) = model.graph.output
    batch, *cells = output.type.tensor_type.shape.dim
    assert (output.name, batch.dim_param) == ("ecal", "batch")
    assert [each.dim_value for each in cells] == list(preset.image_shape)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 15)]
    assert model.ir_version == 8
    assert {each.key: each.value for each in model.metadata_props} == {"preset": preset.preset}
    assert model.ByteSize() < 2**31


def latent(preset, given):
    """Returns the input of the network, as `generate` makes it."""
    unit = (given["energy"] / np.float32(100))[:, None]
    if preset.condition == "multiply":
        return given["noise"] * unit
    return np.concatenate([unit, FIT.mtheta_rad(given["theta"])[:, None], given["noise"]], 1)


def test_a_network_without_marginals_is_that_of_its_table():
    weights, fit = example_weights(SMOKE), AngleFit(offset_rad=0.1, slope=0.9)
    given = inputs(SMOKE, 3)
    found = built(SMOKE, weights, fit)(given).numpy()
    unit = given["energy"][:, None].astype(np.float64) / 100
    angle = 0.1 + 0.9 * given["theta"][:, None]
    x = np.concatenate([unit, angle, given["noise"]], 1)
    x = (x @ weights["start/kernel"] + weights["start/bias"]).reshape(-1, 5, 5, 13, 4)
    x = np.maximum(convolve(x, weights["conv0/kernel"], weights["conv0/bias"]), 0)
    scale = weights["norm0/gamma"] / np.sqrt(weights["norm0/moving_variance"] + 1e-6)
    x = (x - weights["norm0/moving_mean"]) * scale + weights["norm0/beta"]
    x = convolve(x, weights["conv1/kernel"], weights["conv1/bias"])
    x = x.reshape(-1, 5, 5, 13, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3, 6).reshape(-1, 10, 10, 26)
    x = np.maximum(x[:, :9, :9, :25], 0) ** 2
    x = x * unit[..., None, None] ** 0.85 * float(weights["output/calibration"])
    expected = x ** (1 / 0.85) / 50
    expected[expected < 2e-6] = 0
    assert expected.max() > 1e-3
    assert np.abs(found - expected).max() < 1e-5 * expected.max()


WITH_TABLES = SMOKE.model_copy(update={"cell_marginals": True, "noise_channels": 2})


def test_the_layers_of_a_shower_have_the_energies_of_the_tables():
    weights = example_weights(WITH_TABLES)
    weights["output/layer_quantiles"] = np.zeros_like(weights["output/layer_quantiles"])
    given = inputs(WITH_TABLES, 5)
    found = built(WITH_TABLES, weights)(given).numpy()
    log_energy = np.log(given["energy"])[:, None]
    square = np.tan(given["theta"])[:, None] ** -2
    ones = np.ones_like(log_energy)
    depth = given["noise"][:, -table_shape(WITH_TABLES).normals, None]
    terms = [ones, log_energy, log_energy**2, square, square * log_energy]
    terms += [depth, depth**2, depth * log_energy, depth * square]
    root = np.concatenate(terms, 1) @ weights["output/layer_mean"]
    share = np.maximum(root, 1e-3) ** 2
    share[:, :-1][root[:, :-1] <= weights["output/layer_least"]] = 0
    assert (share[:, :2] == 0).any(), "empty layers"
    layers = share[:, :-1] / share[:, :-1].sum(1, keepdims=True) * share[:, -1:]
    expected = given["energy"][:, None] * layers
    bright = expected > 1e-3  # of a faint layer, cells below the threshold are a part
    assert bright.sum() > 50
    assert np.allclose(found.sum((1, 2))[bright], expected[bright], rtol=1e-2)
    assert not found.sum((1, 2))[expected == 0].any()


def convolve(image, kernel, bias):
    """Convolves (B, x, y, z, C) with a kernel of 3 x 3 x 3 taps, padded with zeros."""
    filters = [
        sum(
            correlate(image[..., channel], kernel[None, ..., channel, number], mode="constant")
            for channel in range(image.shape[-1])
        )
        + bias[number]
        for number in range(kernel.shape[-1])
    ]
    return np.stack(filters, -1)


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
    weights, preset = (
        example_run(tmp_path / "mine", **MARGINALS),
        SMOKE.model_copy(update=MARGINALS),
    )
    for kind in ("keras", "savedmodel"):
        cloudgan_here("export", tmp_path / "mine", tmp_path / kind, f"--format={kind}")
    given = inputs(preset, 2, seed=4)
    np.savez(tmp_path / "given.npz", **given)
    subprocess.run([sys.executable, "-c", LOADED], cwd=tmp_path, check=True, capture_output=True)
    expected = built(preset, weights, AngleFit(offset_rad=0.1, slope=0.9))(given).numpy()
    with np.load(tmp_path / "found.npz") as found:
        for kind in ("keras", "savedmodel"):
            assert np.abs(found[kind] - expected).max() <= 1e-5 * expected.max()
