"""Trains a grid of cells on the digits of MNIST: a task of your own, with the interfaces of cloudgan.

    python digits.py FOLDER [--grid=2x2] [--iterations=20] [--batches=50] [--out=digits.npy]

FOLDER has train-images-idx3-ubyte and t10k-images-idx3-ubyte, plain or with .gz.
"""

from __future__ import annotations

import argparse
import gzip
import math
import struct
import sys
import zlib
from pathlib import Path

import numpy as np

from cloudgan.coevolution.engine import run_here
from cloudgan.coevolution.ensemble import compare
from cloudgan.coevolution.evolution import Purpose, random_numbers
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid
from cloudgan.coevolution.task import Draw, SampleQuality
from cloudgan.coevolution.tasks.dense_pair import DensePair, dense_network
from cloudgan.core.progress import Silent
from cloudgan.schema.coevolution import CoevolutionConfig, parse_grid

LATENT, HIDDEN = 64, 256  # the networks of Lipizzaner (arXiv:1811.12843)
COMPONENTS = 32
PICTURES = 16


def read_images(folder, name):
    """Returns images (N, rows, columns), uint8: two zero bytes, type 8, 3 axes, their lengths, the values."""
    path = folder / name
    if not path.exists():
        path = path.with_name(f"{name}.gz")
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise SystemExit(f"{folder}: cannot read {name}, plain or with .gz: {error}") from error
    shape = struct.unpack(">3I", content[4:16]) if len(content) >= 16 else (0,)
    if content[:4] != b"\0\0\x08\x03" or len(content) != 16 + math.prod(shape):
        raise SystemExit(f"{path}: not an idx file of images, or damaged")
    return np.frombuffer(content, np.uint8, offset=16).reshape(shape)


class Digits:
    """The task, see `cloudgan.coevolution.task.Task`: a sample is a row of pixels from -1 to 1."""

    def __init__(self, training, held_out, batch_size):
        """Takes images (N, rows, columns), uint8."""
        self.shape, self._batch_size = training.shape[1:], batch_size
        self.training, self.held_out = (
            images.reshape(len(images), -1).astype(np.float32) / 127.5 - 1
            for images in (training, held_out)
        )
        self._mean = self.training.mean(0)
        axes = np.linalg.eigh(np.cov(self.training.T))[1]
        self._axes = axes[:, ::-1][:, :COMPONENTS]
        self._reference = _moments(self.measure(self.held_out))

    def make_pair(self):
        """Builds the networks."""
        return DigitPair(self, self._batch_size)

    def facts(self):
        """Returns nothing: the weights suffice."""
        return {}

    def measure(self, samples):
        """Returns the principal components of the training digits, (N, 32)."""
        return (samples - self._mean) @ self._axes

    def quality(self, measures):
        """Returns the Fréchet distance to the held-out digits (Heusel et al. 2017, arXiv:1706.08500)."""
        if not np.isfinite(measures).all():
            return SampleQuality(score=math.inf)
        (mean, covariance), (expected, spread) = _moments(measures), self._reference
        root = np.sqrt(np.linalg.eigvals(covariance @ spread).real.clip(0)).sum()
        distance = ((mean - expected) ** 2).sum() + np.trace(covariance + spread) - 2 * root
        return SampleQuality(score=float(distance))

    def pictures(self, samples):
        """Returns at most 16 samples as images from 0 to 1."""
        return np.clip((samples[:PICTURES].reshape(-1, *self.shape) + 1) / 2, 0, 1)


def _moments(measures):
    return measures.mean(0), np.atleast_2d(np.cov(measures.T))


class DigitPair(DensePair):
    """The networks; every batch is a function of its draw, so that a run can be repeated."""

    def __init__(self, digits, batch_size):
        """Builds the networks."""
        self._digits, pixels = digits, digits.training.shape[1]
        super().__init__(
            dense_network((LATENT, HIDDEN, HIDDEN, pixels), "leaky_relu", "tanh"),
            dense_network((pixels, HIDDEN, HIDDEN, 1), "leaky_relu", "sigmoid"),
            batch_size=batch_size,
        )

    def batches(self, draw, numbers):
        """Returns training digits and noise, (batches, B, values)."""
        size, images = self._batch_size, self._digits.training
        parts = [_batch(images, random_numbers(draw, number), size) for number in numbers]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def held_batch(self, draw, samples):
        """Returns held-out digits and noise, (samples, values)."""
        return _batch(self._digits.held_out, random_numbers(draw), samples)

    def noise(self, draw, samples):
        """Returns the noise of a held batch."""
        return self.held_batch(draw, samples)["noise"]

    def real(self, batch):
        """Returns the digits of a batch."""
        return batch["real"]


def _batch(images, random, size):
    rows = random.integers(len(images), size=size)
    return {"real": images[rows], "noise": random.standard_normal((size, LATENT), np.float32)}


class Lines(Silent):
    """Prints a line for each iteration."""

    def say(self, line):
        """Prints a line."""
        print(line)


def main():
    """Trains the grid, prints its scores, and writes images of the best generator."""
    parser = argparse.ArgumentParser(description="a grid of cells on the digits of MNIST")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--grid", default="2x2")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--run", type=Path, default=Path("digits"))
    parser.add_argument("--out", type=Path, default=Path("digits.npy"))
    asked = parser.parse_args()
    rows, columns = parse_grid("--grid", asked.grid)
    config = CoevolutionConfig(
        rows=rows,
        columns=columns,
        iterations=asked.iterations,
        batches=asked.batches,
        learning_rate=5e-4,
        discriminator_every=1,
    )
    training, held_out = (
        read_images(asked.folder, f"{part}-images-idx3-ubyte") for part in ("train", "t10k")
    )
    task = Digits(training, held_out, config.batch_size)
    folder = GridFolder(asked.run, check_grid(config))
    folder.write_config(config)
    end, _, pair = run_here(folder, config, lambda _: task, Lines())
    if end.reason != "finished":
        sys.exit(f"stopped after iteration {end.position}; the same command continues")
    states = [folder.cell(cell).read(end.position, pair.layouts) for cell in range(config.cells)]
    found = compare(config, states, task=task, pair=pair)
    print(f"mixture {found.mixture.score:.4g}, best generator {found.best_generator.score:.4g}")
    generator = states[found.best_generator_cell].population.generators[0]
    samples = pair.generate(Draw(config.seed, 0, 0, Purpose.RESULT), generator, PICTURES)
    np.save(asked.out, task.pictures(samples))


if __name__ == "__main__":
    main()
