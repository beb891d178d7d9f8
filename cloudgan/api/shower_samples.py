"""Showers of a trained generator: loads it, draws energies and angles, generates."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cloudgan.coevolution.samples import grid_generator, is_grid
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.data.showers import Showers
from cloudgan.schema.run_folder import RunFolder, Step
from cloudgan.training.checkpoint import find_checkpoint
from cloudgan.training.inference import Conditions, RunGenerator, TrainedGenerator
from cloudgan.training.tensorflow_import import import_engine

Range = tuple[float, float]

_STREAM = 4096
"""Showers whose energies and angles are drawn at a time."""


def load_generator(
    folder: RunFolder, step: Step, progress: Progress, *, cell: str | None = None
) -> RunGenerator:
    """Loads the generator of a checkpoint of a run, or of a grid of cells."""
    if is_grid(folder):
        return grid_generator(folder, step, cell or "mixture")
    if cell is not None:
        raise ConfigError(
            f"--cell={cell}: {folder.path} is no grid of `cloudgan evolve`; omit --cell, or choose a"
            " checkpoint with --step"
        )
    import_engine()
    return TrainedGenerator(find_checkpoint(folder, step, progress))


def drawn(
    generator: RunGenerator,
    count: int,
    spans: tuple[Range, Range],
    seed: int,
    *,
    extrapolate: bool,
    progress: Progress,
) -> Iterator[Showers]:
    """Yields showers of energies and angles that are flat in their ranges, in blocks."""
    if not extrapolate:  # refuses ranges beyond the trained ones
        energies, thetas = (np.array(span, np.float32) for span in spans)
        generator.conditions(energies, np.deg2rad(thetas))
    progress.start("generating", count, "showers")
    conditions = _flat_conditions(generator, count, spans, seed)
    return generator.streamed(conditions, seed=seed, progress=progress)


def trained_or(
    generator: RunGenerator, energy_gev: Range | None, theta_deg: Range | None
) -> tuple[Range, Range]:
    """Returns the given ranges, or the trained ones."""
    summary = generator.summary
    low, high = summary.theta_range_rad or summary.mtheta_range_rad
    trained = math.degrees(low), math.degrees(high)
    return energy_gev or summary.energy_range_gev, theta_deg or trained


def _flat_conditions(
    generator: RunGenerator, count: int, spans: tuple[Range, Range], seed: int
) -> Iterator[Conditions]:
    """Draws energies and angles in blocks: a function of the seed and of the shower's number.

    Energies over decades are flat in their logarithm.
    """
    for first in range(0, count, _STREAM):
        key = np.random.SeedSequence(seed, spawn_key=(first // _STREAM,))
        uniform = np.random.default_rng(key).random((2, _STREAM))[:, : count - first]
        energy, theta = (
            (low + (high - low) * part).astype(np.float32)
            for part, (low, high) in zip(uniform, spans, strict=True)
        )
        if generator.preset.log_energy:
            low, high = spans[0]
            energy = (low * (high / low) ** uniform[0]).clip(low, high).astype(np.float32)
        yield generator.conditions(energy, np.deg2rad(theta), extrapolate=True)
