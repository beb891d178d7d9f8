"""Eight Gaussians on a ring: a task whose answer is known, in seconds.

The distribution is that of Metz et al. 2017 (arXiv:1611.02163, section 3.1) and of Lipizzaner's toy
problems: eight modes at radius 2 with a standard deviation of 0.02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from cloudgan.coevolution.evolution import random_numbers
from cloudgan.coevolution.keras_pair import Batch
from cloudgan.coevolution.task import Draw
from cloudgan.coevolution.tasks.dense_pair import DensePair, dense_network
from cloudgan.schema.coevolution import CoevolutionConfig, SampleQuality

MODES = 8
RADIUS, SIGMA = 2.0, 0.02
_NEAR = 3.0
"""A sample within this many standard deviations of a mode is good (arXiv:1611.02163)."""
_LEAST_SHARE = 0.25 / MODES
"""A mode with fewer of the good samples than a quarter of its share is lost."""
_LATENT, _HIDDEN = 32, 64
_PICTURE_PIXELS = 64


class Ring:
    """Task of the ring."""

    def __init__(self, config: CoevolutionConfig) -> None:
        self._config = config

    def make_pair(self) -> RingPair:
        """Builds the networks."""
        return RingPair(self._config.batch_size)

    def facts(self) -> dict[str, Any]:
        """Returns nothing: the weights suffice."""
        return {}

    def measure(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the samples (N, 2) themselves."""
        return samples

    def quality(self, measures: NDArray[np.float32]) -> SampleQuality:
        """Returns mean distance to the nearest mode, and how evenly modes are covered.

        The score is the total variation between the shares of the modes among the good samples and
        uniform shares, plus the share of samples that are not good: 0 is perfect, 2 the worst.
        """
        distances = np.linalg.norm(measures[:, None] - centres()[None], axis=2)
        nearest, distance = distances.argmin(1), distances.min(1)
        good = distance < _NEAR * SIGMA
        counts = np.bincount(nearest[good], minlength=MODES)
        shares = counts / max(1, counts.sum())
        variation = float(np.abs(shares - 1 / MODES).sum() / 2) if counts.any() else 1.0
        bad = 1.0 - float(good.mean())
        return SampleQuality(
            score=variation + bad,
            details={
                "modes": float((shares >= _LEAST_SHARE).sum()),
                "good": 1.0 - bad,
                "total_variation": variation,
                "mean_distance": float(distance.mean()),
            },
        )

    def pictures(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns one image (1, height, width) of the density of samples."""
        edge = 1.25 * RADIUS
        density, _, _ = np.histogram2d(
            samples[:, 1],
            samples[:, 0],
            bins=_PICTURE_PIXELS,
            range=((-edge, edge), (-edge, edge)),
        )
        return np.minimum(density, 1.0)[None].astype(np.float32)


def centres() -> NDArray[np.float64]:
    """Returns the modes, (8, 2)."""
    angles = 2 * np.pi * np.arange(MODES) / MODES
    return RADIUS * np.stack([np.cos(angles), np.sin(angles)], 1)


class RingPair(DensePair):
    """Networks of two hidden layers, with Adam."""

    def __init__(self, batch_size: int) -> None:
        hidden = (_HIDDEN, _HIDDEN)
        super().__init__(
            dense_network((_LATENT, *hidden, 2), "tanh", None),
            dense_network((2, *hidden, 1), "tanh", "sigmoid"),
            batch_size=batch_size,
        )

    def batches(self, draw: Draw, numbers: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Returns points of the ring and noise."""
        parts = [_points(random_numbers(draw, number), self._batch_size) for number in numbers]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def held_batch(self, draw: Draw, samples: int) -> dict[str, NDArray[Any]]:
        """Returns other points of the ring and noise."""
        return _points(random_numbers(draw), samples)

    def noise(self, draw: Draw, samples: int) -> NDArray[np.float32]:
        """Returns the noise of a held batch."""
        return self.held_batch(draw, samples)["noise"]

    def real(self, batch: Batch) -> tf.Tensor:
        """Returns the points of the ring."""
        return batch["real"]


def _points(random: np.random.Generator, count: int) -> dict[str, NDArray[Any]]:
    modes = centres()[random.integers(MODES, size=count)]
    return {
        "real": (modes + SIGMA * random.standard_normal((count, 2))).astype(np.float32),
        "noise": random.standard_normal((count, _LATENT), dtype=np.float32),
    }
