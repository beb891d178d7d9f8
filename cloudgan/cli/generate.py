"""`cloudgan generate`: showers from a trained generator."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.ranges import parse_range
from cloudgan.cli.simulate import refuse_existing
from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.core.errors import ConfigError
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from cloudgan.training.generating import Conditions, TrainedGenerator


def generate(
    run: str,
    out: str,
    *,
    count: int = 1000,
    energy_gev: str | None = None,
    theta_deg: str | None = None,
    step: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Generates showers with a trained run into HDF5 (ECAL in GeV*50).

    Args:
        run: Folder of the run.
        out: File to write, such as generated.h5.
        count: How many showers.
        energy_gev: Range of the primary energy, flat. Default: the one it was trained on.
        theta_deg: Range of the polar angle, flat. Default: the one it was trained on.
        step: Checkpoint to use; 0 is untrained. Default: the newest.
        seed: The same seed gives the same showers.
        overwrite: Replace the file where it exists.
        json: Print the result as JSON.
    """
    path = Path(out)
    refuse_existing(path, overwrite=overwrite)
    if count < 1:
        raise ConfigError(f"--count={count}: at least one shower")
    with shown_progress(as_json=json) as progress:
        generator = load_generator(RunFolder(run), step)
        from cloudgan.data.hdf5_writer import write_hdf5

        asked = _conditions(generator, count, energy_gev, theta_deg, seed)
        began = time.perf_counter()
        blocks = generator.showers(asked, seed=seed, progress=progress)
        attrs = {"source": f"cloudgan generator, step {generator.state.step}", "seed": seed}
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
    energy_gev: str | None,
    theta_deg: str | None,
    seed: int,
) -> Conditions:
    import numpy as np

    summary = generator.state.summary
    energies = parse_range("energy_gev", energy_gev) if energy_gev else summary.energy_range_gev
    if theta_deg:
        thetas = parse_range("theta_deg", theta_deg)
    else:
        low, high = np.rad2deg(summary.theta_range_rad or summary.mtheta_range_rad)
        thetas = float(low), float(high)
    rng = np.random.default_rng(seed)
    energy = rng.uniform(*energies, count).astype(np.float32)
    theta = np.deg2rad(rng.uniform(*thetas, count)).astype(np.float32)
    return generator.conditions(energy, theta)
