"""`cloudgan generate`: showers from a trained generator."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.checkpoint_step import parse_step
from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.ranges import parse_range
from cloudgan.cli.simulate import program_attributes, refuse_existing
from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.core.errors import ConfigError
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.cli.checkpoint_step import Step
    from cloudgan.training.generating import Conditions, TrainedGenerator

    Range = tuple[float, float]

_STREAM = 4096
"""Showers whose energies and angles are drawn at a time."""


def generate(
    run: str,
    output: str,
    *,
    events: int = 1000,
    energy: str | None = None,
    theta: str | None = None,
    step: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Generates showers with a trained run into HDF5 (ECAL in GeV*50).

    Args:
        run: Folder of the run.
        output: File to write, such as generated.h5.
        events: How many showers.
        energy: Range of the primary energy in GeV, flat. Default: the one it was trained on.
        theta: Range of the polar angle in degrees, flat. Default: the one it was trained on.
        step: Checkpoint to use; 0 is untrained, best is what --validate_every found. Default: the newest.
        seed: The same seed gives the same showers.
        overwrite: Replace the file where it exists.
        json: Print the result as JSON.
    """
    path = Path(output)
    refuse_existing(path, overwrite=overwrite)
    if events < 1:
        raise ConfigError(f"--events={events}: at least one shower")
    wanted = parse_step(step)
    with shown_progress(as_json=json) as progress:
        generator = load_generator(RunFolder(run), wanted)
        from cloudgan.data.hdf5_writer import write_hdf5

        asked = _conditions(generator, events, _ranges(generator, energy, theta), seed)
        progress.start("generating", events, "showers")
        began = time.perf_counter()
        blocks = generator.streamed(asked, seed=seed, progress=progress)
        source = f"cloudgan generator, step {generator.state.step}"
        attrs = {"source": source, "seed": seed} | program_attributes()
        written = write_hdf5(path, blocks, attrs=attrs)
        seconds = time.perf_counter() - began
    result = {
        "file": str(path),
        "showers": written,
        "step": generator.state.step,
        "cells": list(generator.preset.image_shape),
        "milliseconds_per_shower": round(1000 * seconds / written, 3),
    }
    show(result, as_json=json)


def load_generator(folder: RunFolder, step: Step) -> TrainedGenerator:
    """Loads the generator of a run: of a step, the best that was validated, or the newest.

    Raises:
        DataError: The run has no such checkpoint.
    """
    import_tensorflow()
    from cloudgan.training.generating import TrainedGenerator, find_checkpoint

    return TrainedGenerator(find_checkpoint(folder, step))


def _ranges(
    generator: TrainedGenerator, energy: str | None, theta: str | None
) -> tuple[Range, Range]:
    """The ranges asked, else those it was trained on.

    Raises:
        ConfigError: Outside of those.
    """
    import numpy as np

    summary = generator.state.summary
    energies = parse_range("energy", energy) if energy else summary.energy_range_gev
    if theta:
        thetas = parse_range("theta", theta)
    else:
        low, high = np.rad2deg(summary.theta_range_rad or summary.mtheta_range_rad)
        thetas = float(low), float(high)
    generator.conditions(np.array(energies, np.float32), np.deg2rad(np.array(thetas, np.float32)))
    return energies, thetas


def _conditions(
    generator: TrainedGenerator, count: int, ranges: tuple[Range, Range], seed: int
) -> Iterator[Conditions]:
    """What is asked, flat, some at a time: a function of the seed and the number of the shower."""
    import numpy as np

    for first in range(0, count, _STREAM):
        key = np.random.SeedSequence(seed, spawn_key=(first // _STREAM,))
        uniform = np.random.default_rng(key).random((2, _STREAM))[:, : count - first]
        energy, theta = (
            (low + (high - low) * part).astype(np.float32)
            for part, (low, high) in zip(uniform, ranges, strict=True)
        )
        yield generator.conditions(energy, np.deg2rad(theta))
