"""A generator as an ONNX graph: energies, angles and normals to showers in GeV.

Inputs, 32-bit floats: `energy` in GeV (batch,), `theta` in rad (batch,), `noise`, independent standard normals
(batch, N). Output: `ecal` in GeV (batch, X, Y, Z). The graph is what `generate` does: condition, network,
output layer, inverse of the preprocessing and the threshold of a cell.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.data.pipeline.preprocessing import ENERGY_UNIT_GEV, LEAST_CELL_GEV
from cloudgan.exports.layout import noise_length
from cloudgan.exports.onnx_graph import Graph, Value
from cloudgan.exports.onnx_marginals import Tables, marginal_showers
from cloudgan.models.convolutions import generator_convolutions
from cloudgan.models.phases import coarse_taps, phase_kernel
from cloudgan.models.shower_frame import table_shape
from cloudgan.schema.network_size import generator_table

if TYPE_CHECKING:
    from cloudgan.data.summary import AngleFit
    from cloudgan.exports.generator_weights import Weights
    from cloudgan.models.convolutions import Convolution
    from cloudgan.schema.presets import Generator, Preset

LEAK = 0.2
"""Slope below zero of Keras' `leaky_relu`, the activation of the layers' corrections."""


def onnx_generator(
    preset: Preset, weights: Weights, angle_fit: AngleFit | None, facts: dict[str, str]
) -> Any:
    """Returns the ONNX model of a generator.

    Args:
        preset: Of the network.
        weights: As of `read_weights`.
        angle_fit: Line from theta to the angle of the condition; None: theta is the condition.
        facts: Metadata of the model.
    """
    graph = Graph()
    energy = graph.input("energy", (None,))[:, None]
    theta = graph.input("theta", (None,))[:, None]
    noise = graph.input("noise", (None, noise_length(preset)))
    unit = energy / ENERGY_UNIT_GEV
    angle = theta if angle_fit is None else theta * angle_fit.slope + angle_fit.offset_rad
    if preset.condition == "multiply":
        latent = noise * unit
    else:
        latent = graph.concatenate([unit, angle, noise], 1)
    cells = _network(graph, preset, weights, latent)
    if preset.cell_marginals:
        ecal = marginal_showers(
            Tables(graph, preset, weights), cells, _layers(graph, preset, weights, latent),
            (energy, angle), latent[:, -table_shape(preset.image_shape).normals :],
        )  # fmt: skip
    else:
        ecal = _scaled(graph, preset, weights, cells, latent[:, :1])
    ecal = graph.where(graph.less(ecal, LEAST_CELL_GEV), 0.0, ecal)
    return graph.model(f"cloudgan_{preset.preset}", ecal, "ecal", facts)


def _network(graph: Graph, preset: Preset, weights: Weights, latent: Value) -> Value:
    """Cells of the last block, (B, X, Y, Z); inside, channels are the second axis, as ONNX has them."""
    table = generator_table(preset)
    x = _start(graph, preset, table, weights, latent)
    for number, convolution in enumerate(generator_convolutions(preset)):
        x = _convolved(graph, convolution, weights, x)
        block = convolution.block
        if block.activate:
            x = (
                graph.node("LeakyRelu", [x], x.shape, alpha=table.leak)
                if table.leak
                else graph.relu(x)
            )
        if block.normalise:
            names = ("gamma", "beta", "moving_mean", "moving_variance")
            of_norm = [graph.constant(weights[f"norm{number}/{name}"]) for name in names]
            epsilon = preset.batch_norm_epsilon
            x = graph.node("BatchNormalization", [x, *of_norm], x.shape, epsilon=epsilon)
    if table.subpixel > 1:
        x = _fine_cells(graph, x, (table.subpixel,) * 3, preset.image_shape)
    return graph.reshape(x, (None, *preset.image_shape))


def _start(
    graph: Graph, preset: Preset, table: Generator, weights: Weights, latent: Value
) -> Value:
    """Coarse cells of the dense start, and their noise, (B, C, x, y, z)."""
    vector = latent[:, : preset.latent_size]
    by_cell = (*table.grid, table.channels)
    kernel, bias = weights["start/kernel"], weights["start/bias"]
    kernel = np.moveaxis(kernel.reshape(-1, *by_cell), -1, 1).reshape(kernel.shape)
    bias = np.moveaxis(bias.reshape(by_cell), -1, 0).ravel()
    x = _dense(graph, vector, kernel, bias)
    x = graph.reshape(x, (None, table.channels, *table.grid))
    if not preset.noise_channels:
        return x
    last = preset.latent_size + preset.noise_channels * math.prod(table.grid)
    noise = latent[:, preset.latent_size : last]
    noise = graph.reshape(noise, (None, *table.grid, preset.noise_channels))
    return graph.concatenate([x, graph.transpose(noise, (0, 4, 1, 2, 3))], 1)


def _dense(graph: Graph, x: Value, kernel: Any, bias: Any) -> Value:
    shape = (x.shape[0], kernel.shape[1])
    return graph.node("Gemm", [x, graph.constant(kernel), graph.constant(bias)], shape)


def _convolved(graph: Graph, convolution: Convolution, weights: Weights, x: Value) -> Value:
    """Up-samples, pads and convolves; without padding the first and the last are one convolution."""
    block, name = convolution.block, convolution.name
    kernel, bias = weights[f"{name}/kernel"], weights.get(f"{name}/bias")
    is_plain = block.upsample == (1, 1, 1)
    if not is_plain and block.pad == (0, 0, 0) and block.padding == "valid":
        ends = [
            max(0, -(-out // up) + coarse_taps(taps, up) - 1 - size)
            for out, up, taps, size in zip(
                convolution.output_cells,
                block.upsample,
                block.kernel,
                convolution.cells,
                strict=True,
            )
        ]
        summed = phase_kernel(kernel, block.upsample, np)
        x = _conv(graph, x, summed, _each_phase(bias, math.prod(block.upsample)), [0, 0, 0, *ends])
        return _fine_cells(graph, x, block.upsample, convolution.output_cells)
    if not is_plain:
        x = _repeated(graph, x, block.upsample)
    pads = [*block.pad, *block.pad]
    if block.padding == "same":
        before = [(taps - 1) // 2 for taps in block.kernel]
        after = [taps - 1 - less for taps, less in zip(block.kernel, before, strict=True)]
        pads = [*before, *after]
    return _conv(graph, x, kernel, bias, pads)


def _each_phase(bias: Any, phases: int) -> Any:
    return None if bias is None else np.tile(bias, phases)


def _conv(graph: Graph, x: Value, kernel: Any, bias: Any, pads: list[int]) -> Value:
    """Convolves (B, C, x, y, z) with a kernel (kx, ky, kz, C, filters)."""
    kernel = graph.constant(np.transpose(kernel, (4, 3, 0, 1, 2)))
    inputs = [x, kernel] if bias is None else [x, kernel, graph.constant(bias)]
    sizes = [
        int(size or 0) + pads[axis] + pads[axis + 3] - int(kernel.shape[axis + 2] or 0) + 1
        for axis, size in enumerate(x.shape[2:])
    ]
    return graph.node("Conv", inputs, (None, kernel.shape[0], *sizes), pads=pads)


def _repeated(graph: Graph, x: Value, upsample: tuple[int, int, int]) -> Value:
    """Repeats each cell."""
    sizes = [int(size or 0) * up for size, up in zip(x.shape[2:], upsample, strict=True)]
    scales = graph.constant([1.0, 1.0, *upsample])
    shape = (None, x.shape[1], *sizes)
    options = {"mode": "nearest", "nearest_mode": "floor"}
    options["coordinate_transformation_mode"] = "asymmetric"
    return graph.node("Resize", [x, graph.absent(), scales], shape, **options)


def _fine_cells(
    graph: Graph, x: Value, factors: tuple[int, int, int], cells: tuple[int, int, int]
) -> Value:
    """(B, u*v*w*C, x, y, z) -> (B, C, X, Y, Z): channels become sub-pixels, cropped to `cells`."""
    u, v, w = factors
    channels = int(x.shape[1] or 0) // (u * v * w)
    nx, ny, nz = x.shape[2:]
    x = graph.reshape(x, (None, u, v, w, channels, nx, ny, nz))
    x = graph.transpose(x, (0, 4, 5, 1, 6, 2, 7, 3))
    fine = [int(n or 0) * up for n, up in zip((nx, ny, nz), factors, strict=True)]
    x = graph.reshape(x, (None, channels, *fine))
    return x[:, :, : cells[0], : cells[1], : cells[2]]


def _layers(graph: Graph, preset: Preset, weights: Weights, latent: Value) -> Value:
    """Corrections of the layers and their sum, (B, Z + 1)."""
    vector = latent[:, : preset.latent_size]
    hidden = _dense(graph, vector, weights["layers_hidden/kernel"], weights["layers_hidden/bias"])
    hidden = graph.node("LeakyRelu", [hidden], hidden.shape, alpha=LEAK)
    return _dense(graph, hidden, weights["layers/kernel"], weights["layers/bias"])


def _scaled(graph: Graph, preset: Preset, weights: Weights, cells: Value, energy: Value) -> Value:
    """Activates, scales and inverts the preprocessing: GeV from powered cells, (B, X, Y, Z)."""
    image = graph.relu(cells)
    if preset.output_activation == "squared_relu":
        image = image * image
    if preset.energy_scaled_output:
        image = image * graph.maximum(energy, 0.0)[:, :, None, None] ** preset.image_power
    if preset.calibrated_output:
        image = image * float(weights["output/calibration"])
    if preset.image_power != 1:
        image = image ** (1 / preset.image_power)
    return image / preset.image_scale
