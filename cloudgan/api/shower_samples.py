"""Showers of a trained generator: loads it, draws energies and angles, generates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cloudgan.api.grid_samples import grid_generator, has_other_samples, is_grid
from cloudgan.api.notebook_progress import usual_progress
from cloudgan.api.run import Run, Step
from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.data.showers import Showers
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.conditions import Conditions

if TYPE_CHECKING:
    from cloudgan.training.inference import RunGenerator

Range = tuple[float, float]

_STREAM = 4096
"""Showers whose energies and angles are drawn at a time."""


def sample(
    run: Run,
    energy_gev: float | Range,
    theta_deg: float | Range,
    showers: int,
    *,
    seed: int = 0,
    extrapolate: bool = False,
    step: Step = None,
    cell: str | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Generates showers in memory; see `Run.sample`."""
    import numpy as np

    ranges.Range(1, ranges.MAX_SHOWERS).check("showers", showers)
    ranges.Range(0, ranges.MAX_SEED).check("seed", seed)
    if has_other_samples(run.folder):
        raise ConfigError(
            f"{run.path} generates samples of another task, not showers: cloudgan generate {run.path} samples.npz"
        )
    progress = progress or usual_progress()
    generator = load_generator(run.folder, step, progress, cell=cell)
    energies, thetas = (
        value if isinstance(value, tuple) else (value, value) for value in (energy_gev, theta_deg)
    )
    blocks = drawn(
        generator, showers, (energies, thetas), seed, extrapolate=extrapolate, progress=progress
    )
    found = np.empty((showers, *generator.preset.image_shape), np.float32)
    first = 0
    for block in blocks:
        found[first : first + len(block)] = block.ecal_gev
        first += len(block)
    return found


def load_generator(
    folder: RunFolder, step: Step, progress: Progress, *, cell: str | None = None
) -> RunGenerator:
    """Loads the generator of a checkpoint of a run, or of a grid of cells.

    Raises:
        ConfigError: A cell of an ordinary run, a cell that does not exist, or a step of a grid.
        DataError: The run has no such checkpoint, or its weights are not finite.
    """
    if is_grid(folder):
        return grid_generator(folder, step, cell or "mixture")
    if cell is not None:
        raise ConfigError(
            f"--cell={cell}: {folder.path} is no grid of `cloudgan evolve`; omit --cell, or choose a"
            " checkpoint with --step"
        )
    import_tensorflow()
    from cloudgan.training.checkpoint import find_checkpoint
    from cloudgan.training.inference import TrainedGenerator

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
    if not extrapolate:
        _refuse_untrained(generator, spans)
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


def _refuse_untrained(generator: RunGenerator, spans: tuple[Range, Range]) -> None:
    """Refuses ranges beyond the trained ones.

    Raises:
        ConfigError: A range exceeds the trained one.
    """
    import numpy as np

    energies, thetas = (np.array(span, np.float32) for span in spans)
    generator.conditions(energies, np.deg2rad(thetas))


def _flat_conditions(
    generator: RunGenerator, count: int, spans: tuple[Range, Range], seed: int
) -> Iterator[Conditions]:
    """Draws energies and angles in blocks: a function of the seed and of the shower's number.

    Energies over decades are flat in their logarithm.
    """
    import numpy as np

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
