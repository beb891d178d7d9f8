"""Showers from an exported generator with ONNX Runtime: no cloudgan, no TensorFlow.

    pip install numpy onnxruntime
    python onnx_inference.py exports/mine/generator.onnx --energy=50 --theta=90 --showers=100

Prints the mean energy in the cells and its spread. Requests outside the trained ranges end with exit code 2.
"""

from __future__ import annotations

import argparse
import math
import os
import sys

import numpy as np

# Else ONNX Runtime 1.29 and later report to Microsoft.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # noqa: TID251
import onnxruntime


class Generator:
    """An exported generator and the ranges of its training showers."""

    def __init__(self, path: str) -> None:
        """Loads `generator.onnx`."""
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        facts = self._session.get_modelmeta().custom_metadata_map
        self.energy_gev = _limits(facts["energy_gev"])
        self.theta_rad = _limits(facts["theta_rad"])
        (self._normals,) = [
            each.shape[1] for each in self._session.get_inputs() if each.name == "noise"
        ]

    def showers(
        self, energy_gev: np.ndarray, theta_rad: np.ndarray, random: np.random.Generator
    ) -> np.ndarray:
        """Returns cells in GeV, (N, x, y, z), for energies and polar angles, (N,).

        Raises:
            ValueError: Outside the ranges of the training showers; the model itself cannot refuse.
        """
        energy, theta = energy_gev.astype(np.float32), theta_rad.astype(np.float32)
        for name, values, (low, high) in (
            ("energy (GeV)", energy, self.energy_gev),
            ("theta (rad)", theta, self.theta_rad),
        ):
            if values.min() < np.float32(low) or values.max() > np.float32(high):
                raise ValueError(f"{name}: trained on {low:g} to {high:g}")
        noise = random.standard_normal((len(energy_gev), self._normals), np.float32)
        inputs = {"energy": energy, "theta": theta, "noise": noise}
        (ecal,) = self._session.run(["ecal"], inputs)
        return ecal


def _limits(text: str) -> tuple[float, float]:
    low, high = text.split(":")
    return float(low), float(high)


def main() -> int:
    """Generates showers of one energy and angle, and prints their mean."""
    parser = argparse.ArgumentParser(description="Showers from an exported generator.")
    parser.add_argument("model", help="generator.onnx")
    parser.add_argument("--energy", type=float, default=50.0, help="GeV")
    parser.add_argument("--theta", type=float, default=90.0, help="degrees")
    parser.add_argument("--showers", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    generator = Generator(given.model)
    energy = np.full(given.showers, given.energy)
    theta = np.full(given.showers, math.radians(given.theta))
    try:
        ecal = generator.showers(energy, theta, np.random.default_rng(given.seed))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    total = ecal.sum((1, 2, 3))
    print(f"{given.showers} showers of {ecal.shape[1:]} cells")
    print(f"energy in the cells: {total.mean():.4g} GeV, spread {total.std():.3g} GeV")
    return 0


if __name__ == "__main__":
    sys.exit(main())
