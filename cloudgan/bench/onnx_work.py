"""Showers from the exported generator with ONNX Runtime, in a measuring process; imports no TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from cloudgan.bench.measurement import round_or_latency
from cloudgan.data.showers import measured_angle
from cloudgan.exports.generator_weights import read_weights, weight_shapes
from cloudgan.exports.layout import noise_length
from cloudgan.exports.onnx_generator import onnx_generator
from cloudgan.schema.presets import find_preset
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint_choice import find_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloudgan.exports.generator_weights import Weights
    from cloudgan.schema.presets import Preset

_ANGLE_RAD = (1.05, 2.09)


class OnnxWork:
    """The ONNX model of a generator, with the weights of a run, or with untrained ones."""

    def __init__(
        self, preset: str, run: str | None, batch: int, threads: int, energy_gev: Sequence[float]
    ) -> None:
        """Builds the model and loads it.

        Args:
            preset: Of the generator, without a run.
            run: Folder of a run; its newest checkpoint is loaded.
            batch: Showers at a time.
            threads: Of ONNX Runtime.
            energy_gev: Energy range of the electrons.

        Raises:
            DataError: The run has no checkpoint.
        """
        self._energy_gev, self._batch = (energy_gev[0], energy_gev[1]), batch
        if run is None:
            model = find_preset(preset)
            weights, fit = untrained_weights(model), None
        else:
            checkpoint = find_checkpoint(RunFolder(run), None)
            model = checkpoint.state.config.model
            weights, fit = read_weights(checkpoint), checkpoint.state.summary.angle_fit
        self._normals = noise_length(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self._session = onnxruntime.InferenceSession(
            onnx_generator(model, weights, fit, {}).SerializeToString(),
            options,
            providers=["CPUExecutionProvider"],
        )

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answers round and latency, see `round_or_latency`."""
        return round_or_latency(self._generate, question, given)

    def _generate(self, count: int, seed: int) -> None:
        """Generates showers and measures their angles, as `generate` does."""
        random = np.random.default_rng(seed)
        for first in range(0, count, self._batch):
            rows = min(self._batch, count - first)
            energy, theta = (
                random.uniform(*span, rows).astype(np.float32)
                for span in (self._energy_gev, _ANGLE_RAD)
            )
            noise = random.standard_normal((rows, self._normals), np.float32)
            given = {"energy": energy, "theta": theta, "noise": noise}
            measured_angle(self._session.run(None, given)[0])


def untrained_weights(preset: Preset) -> Weights:
    """Returns random kernels and neutral other weights, by name; measured tables are empty."""
    random = np.random.default_rng(0)
    weights: Weights = {}
    for name, shape in weight_shapes(preset).items():
        if name.endswith("kernel"):
            scale = np.sqrt(2 / np.prod(shape[:-1]))
            weights[name] = (scale * random.standard_normal(shape)).astype(np.float32)
        else:
            one = name.endswith(("gamma", "moving_variance", "calibration"))
            weights[name] = np.full(shape, float(one), np.float32)
    return weights
