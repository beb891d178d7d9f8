"""Showers from a trained generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np
import tensorflow as tf

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.image_view import ENERGY_UNIT_GEV
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.models.networks import build_generator
from cloudgan.training.checkpoint import Checkpoints, read_state, restore_part
from cloudgan.training.draws import Call, Draws
from cloudgan.training.formulation import kernels_for_generating
from cloudgan.training.step import latent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from cloudgan.core.presets import Preset
    from cloudgan.run_folder import RunFolder
    from cloudgan.training.checkpoint import State

    Floats = NDArray[np.float32]

LEAST_CELL_GEV = 2e-6
"""Cells below this are set to zero: a ReLU network leaves dust in all of them, and the authors'
analysis cuts at 1e-4 in units of GeV*50."""

_BLOCK = 256


@dataclass(frozen=True)
class Conditions:
    """What showers are asked for, each (N,)."""

    energy_gev: Floats
    mtheta_rad: Floats
    theta_rad: Floats | None = None

    def __len__(self) -> int:
        return len(self.energy_gev)


class ShowerGenerator:
    """The generator of a preset with the weights it begins with."""

    def __init__(self, preset: Preset, *, block: int = _BLOCK) -> None:
        """Builds it; `block` showers are generated at a time."""
        self.preset, self._rows = preset, block
        keras.config.set_dtype_policy("float32")
        self._network = build_generator(preset, kernels=kernels_for_generating(preset))

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Takes the weights of a trained generator, in Keras' order."""
        self._network.set_weights(weights)

    def showers(
        self, conditions: Conditions, *, seed: int, progress: Progress | None = None
    ) -> Iterator[Showers]:
        """Yields showers in blocks, in the order of `conditions`; the same for the same seed."""
        progress = progress or Silent()
        progress.start("generating", len(conditions), "showers")
        return self.streamed([conditions], seed=seed, progress=progress)

    def streamed(
        self, parts: Iterable[Conditions], *, seed: int, progress: Progress
    ) -> Iterator[Showers]:
        """Yields showers as `showers` does, for conditions that come some at a time."""
        draws, before = Draws(seed), 0
        for part in parts:
            for first in range(0, len(part), self._rows):
                rows = slice(first, min(first + self._rows, len(part)))
                yield self._block(part, rows, before, draws)
                progress.advance(rows.stop - first)
            before += len(part)

    def _block(self, conditions: Conditions, rows: slice, before: int, draws: Draws) -> Showers:
        energy = tf.constant(conditions.energy_gev[rows, None] / ENERGY_UNIT_GEV, tf.float32)
        angle = tf.constant(conditions.mtheta_rad[rows, None], tf.float32)
        row = tf.constant(before + rows.start, tf.int64)
        with draws.at(tf.zeros((), tf.int64), row, Call.GENERATE):
            latent = latent_of(self.preset, draws, energy, angle)
        image = self._network(latent, training=False).numpy()[..., 0]
        ecal = image ** np.float32(1 / self.preset.image_power) / np.float32(
            self.preset.image_scale
        )
        ecal[ecal < LEAST_CELL_GEV] = 0
        theta = conditions.theta_rad
        return Showers(
            ecal,
            conditions.energy_gev[rows],
            None if theta is None else theta[rows],
            measured_angle(ecal),
        )


class TrainedGenerator(ShowerGenerator):
    """The generator of a checkpoint: the averaged one where the preset has it."""

    def __init__(self, checkpoint: Path, *, block: int = _BLOCK) -> None:
        """Loads it.

        Raises:
            DataError: The file is no checkpoint of ours.
        """
        self.state: State = read_state(checkpoint)
        super().__init__(self.state.config.model, block=block)
        part = "average" if self.preset.generator_average else "generator"
        restore_part(checkpoint, part, self._network.weights)

    def conditions(self, energy_gev: Floats, theta_rad: Floats) -> Conditions:
        """Maps polar angles to the angles measured from images, which the generator knows.

        Raises:
            ConfigError: Outside of what the generator was trained on.
        """
        summary = self.state.summary
        _check_range("energies", energy_gev, summary.energy_range_gev, "GeV", "--energy")
        fit = summary.angle_fit
        if fit is None or summary.theta_range_rad is None:
            return Conditions(energy_gev, theta_rad.astype(np.float32))
        degrees = tuple(np.rad2deg(summary.theta_range_rad))
        _check_range("angles", np.rad2deg(theta_rad), degrees, "degrees", "--theta")
        return Conditions(energy_gev, fit.mtheta_rad(theta_rad), theta_rad)


def find_checkpoint(folder: RunFolder, step: int | Literal["best"] | None) -> Path:
    """Returns the checkpoint of a run: of a step, the best one that was validated, or the newest.

    Raises:
        DataError: The run has no such checkpoint.
    """
    config = folder.read_config()
    checkpoints = Checkpoints(
        folder.checkpoints, keep=1, url=config.checkpoint.url if config else ""
    )
    path = checkpoints.latest() if step in (None, "best") else checkpoints.path_of(int(step))
    if path is not None and step == "best":
        path = _best(folder, checkpoints, read_state(path))
    if path is None or not path.exists():
        have = ", ".join(map(str, checkpoints.steps())) or "none"
        raise DataError(
            f"{folder.path} has no checkpoint{'' if step is None else f' of step {step}'};"
            f" there are: {have}. Train first: cloudgan train --run={folder.path} --data=FILE"
        )
    return path


def _best(folder: RunFolder, checkpoints: Checkpoints, newest: State) -> Path:
    if newest.best is None:
        raise DataError(
            f"{folder.path} has no best checkpoint: no epoch of it was validated. Train it on with"
            " --validate_every=1, or give the number of a step"
        )
    return checkpoints.fetched(newest.best.step)


def _check_range(
    what: str, values: NDArray[np.floating], known: tuple[float, ...], unit: str, flag: str
) -> None:
    # A hair of slack: 10 to 100 GeV asked uniformly never spans the range to the last digit.
    slack = 0.02 * (known[1] - known[0])
    low, high = float(values.min()), float(values.max())
    if low < known[0] - slack or high > known[1] + slack:
        raise ConfigError(
            f"{what} from {low:g} to {high:g} {unit} asked, trained on {known[0]:.4g} to"
            f" {known[1]:.4g}; use {flag}={known[0]:.4g}:{known[1]:.4g} or a part of it"
        )
