"""Generators as ONNX graphs, run with ONNX Runtime against NumPy; against Keras: test_export_agreement.py."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from scipy.ndimage import correlate

from cloudgan.data.summary import AngleFit
from cloudgan.exports.layout import noise_length
from cloudgan.exports.onnx_generator import onnx_generator
from cloudgan.exports.onnx_graph import Graph
from cloudgan.models.convolutions import Convolution
from cloudgan.models.phases import phase_kernel
from cloudgan.schema.presets import PROFILES, Block, find_preset
from exports.example_weights import example_weights

SMOKE = find_preset("smoke")
MARGINALS = SMOKE.model_copy(update={"cell_marginals": True, "noise_channels": 2})


def session(preset, weights, fit=None):
    model = onnx_generator(preset, weights, fit, {"preset": preset.preset})
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def inputs(preset, showers, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "energy": rng.uniform(10, 100, showers).astype(np.float32),
        "theta": rng.uniform(1.1, 2.0, showers).astype(np.float32),
        "noise": rng.normal(size=(showers, noise_length(preset))).astype(np.float32),
    }


@pytest.mark.parametrize("preset", [*PROFILES, "marginals"])
def test_every_preset_has_the_same_inputs_and_output(preset):
    chosen = MARGINALS if preset == "marginals" else find_preset(preset)
    model = onnx_generator(chosen, example_weights(chosen), None, {"preset": preset})
    onnx.checker.check_model(model, full_check=True)
    named = {each.name: each.type.tensor_type.shape.dim for each in model.graph.input}
    assert list(named) == ["energy", "theta", "noise"]
    assert {dim[0].dim_param for dim in named.values()} == {"batch"}
    (output,) = model.graph.output
    cells = [dim.dim_value for dim in output.type.tensor_type.shape.dim[1:]]
    assert output.name == "ecal"
    assert cells == list(chosen.image_shape)
    assert {each.key: each.value for each in model.metadata_props} == {"preset": preset}
    assert model.ByteSize() < 2**31


def test_a_network_without_marginals_is_that_of_its_table():
    weights, fit = example_weights(SMOKE), AngleFit(offset_rad=0.1, slope=0.9)
    given = inputs(SMOKE, 3)
    (found,) = session(SMOKE, weights, fit).run(None, given)
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


def test_small_cells_are_zero():
    weights = example_weights(SMOKE) | {"output/calibration": np.float32(1e-3)}
    (found,) = session(SMOKE, weights).run(None, inputs(SMOKE, 4))
    assert found[found > 0].min() >= 2e-6
    assert (found == 0).any()


def test_a_convolution_of_repeated_cells_is_one_of_coarse_cells():
    block = Block(2, (6, 5, 8), upsample=(3, 2, 4))
    rng = np.random.default_rng(3)
    image, kernel = rng.normal(size=(4, 5, 4, 3)), rng.normal(size=(6, 5, 8, 3, 2))
    fine = image.repeat(3, 0).repeat(2, 1).repeat(4, 2)
    sizes = Convolution("generator", "conv", block, (4, 5, 4), 3).output_cells
    windows = np.lib.stride_tricks.sliding_window_view(fine, (6, 5, 8), (0, 1, 2))
    expected = np.einsum("abcixyz,xyzio->abco", windows, kernel)
    summed = phase_kernel(kernel, block.upsample, np)
    taps = summed.shape[:3]
    padded = np.pad(image, [(0, 4)] * 3 + [(0, 0)])
    coarse = np.lib.stride_tricks.sliding_window_view(padded, taps, (0, 1, 2))
    found = np.einsum("abcixyz,xyzio->abco", coarse, summed)
    nx, ny, nz = found.shape[:3]
    found = found.reshape(nx, ny, nz, 3, 2, 4, 2).transpose(0, 3, 1, 4, 2, 5, 6)
    found = found.reshape(nx * 3, ny * 2, nz * 4, 2)[: sizes[0], : sizes[1], : sizes[2]]
    assert expected.shape[:3] == sizes
    assert np.allclose(found, expected)


def test_the_layers_of_a_shower_have_the_energies_of_the_tables():
    weights = example_weights(MARGINALS)
    weights["layers/kernel"] = np.zeros_like(weights["layers/kernel"])
    weights["layers/bias"] = np.zeros_like(weights["layers/bias"])
    weights["output/layer_quantiles"] = np.zeros_like(weights["output/layer_quantiles"])
    given = inputs(MARGINALS, 5)
    (found,) = session(MARGINALS, weights).run(None, given)
    log_energy = np.log(given["energy"])[:, None]
    cotangent = 1 / np.tan(given["theta"])[:, None]
    terms = np.concatenate(
        [
            np.ones_like(log_energy),
            log_energy,
            log_energy**2,
            cotangent**2,
            cotangent**2 * log_energy,
        ],
        1,
    )
    share = (terms @ weights["output/layer_mean"]) ** 2
    layers = share[:, :-1] / share[:, :-1].sum(1, keepdims=True) * share[:, -1:]
    expected = given["energy"][:, None] * layers
    bright = expected > 1e-3  # of a faint layer, cells below the threshold are a part
    assert bright.sum() > 50
    assert np.allclose(found.sum((1, 2))[bright], expected[bright], rtol=1e-2)


def test_a_shower_does_not_depend_on_its_batch():
    chosen = session(MARGINALS, example_weights(MARGINALS))
    given = inputs(MARGINALS, 3)
    (together,) = chosen.run(None, given)
    for number in range(3):
        (alone,) = chosen.run(
            None, {name: value[number : number + 1] for name, value in given.items()}
        )
        assert np.allclose(alone[0], together[number], rtol=1e-5, atol=1e-9)


def test_the_axis_follows_the_angle():
    chosen = session(MARGINALS, example_weights(MARGINALS))
    given = inputs(MARGINALS, 40)
    y = np.arange(9)[None, :, None]
    slopes = []
    for theta in (1.2, np.pi - 1.2):
        given["theta"] = np.full(40, theta, np.float32)
        (found,) = chosen.run(None, given)
        profile = found.sum(1)
        centre = (profile * y).sum((0, 1)) / profile.sum((0, 1))
        slopes.append(np.polyfit(np.arange(5, 15), centre[5:15], 1)[0])
    assert slopes[0] > 0.1
    assert slopes[1] < -0.1


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), None, slice(1, None)),
        (..., slice(-1, None)),
        (slice(None), slice(None, 2), None, slice(1, 3)),
        (..., None),
    ],
)
def test_a_graph_indexes_as_numpy_does(key):
    graph, table = Graph(), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    made = graph.model("graph", graph.input("x", (None, 3, 4))[key], "y", {})
    run = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.array_equal(run.run(None, {"x": table})[0], table[key])


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
