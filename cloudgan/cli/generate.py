"""`cloudgan generate`: showers from a trained generator."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.ranges import parse_range
from cloudgan.cli.simulate import program_attributes, refuse_existing
from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.core.errors import ConfigError
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from cloudgan.training.generating import Conditions, TrainedGenerator


def generate(
    run: str,
    output: str,
    *,
    events: int = 1000,
    energy: str | None = None,
    theta: str | None = None,
    step: int | None = None,
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
        step: Checkpoint to use; 0 is untrained. Default: the newest.
        seed: The same seed gives the same showers.
        overwrite: Replace the file where it exists.
        json: Print the result as JSON.
    """
    path = Path(output)
    refuse_existing(path, overwrite=overwrite)
    if events < 1:
        raise ConfigError(f"--events={events}: at least one shower")
    with shown_progress(as_json=json) as progress:
        generator = load_generator(RunFolder(run), step)
        from cloudgan.data.hdf5_writer import write_hdf5

        asked = _conditions(generator, events, energy, theta, seed)
        began = time.perf_counter()
        blocks = generator.showers(asked, seed=seed, progress=progress)
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


def load_generator(folder: RunFolder, step: int | None) -> TrainedGenerator:
    """Loads the generator of a run: of a step, or the newest.

    Raises:
        DataError: The run has no such checkpoint.
    """
    import_tensorflow()
    from cloudgan.training.generating import TrainedGenerator, find_checkpoint

    return TrainedGenerator(find_checkpoint(folder, step))


def _conditions(
    generator: TrainedGenerator,
    count: int,
    energy: str | None,
    theta: str | None,
    seed: int,
) -> Conditions:
    import numpy as np

    summary = generator.state.summary
    energies = parse_range("energy", energy) if energy else summary.energy_range_gev
    if theta:
        thetas = parse_range("theta", theta)
    else:
        low, high = np.rad2deg(summary.theta_range_rad or summary.mtheta_range_rad)
        thetas = float(low), float(high)
    rng = np.random.default_rng(seed)
    energy_gev = rng.uniform(*energies, count).astype(np.float32)
    theta_rad = np.deg2rad(rng.uniform(*thetas, count)).astype(np.float32)
    return generator.conditions(energy_gev, theta_rad)
