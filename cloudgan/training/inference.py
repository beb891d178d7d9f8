"""Inference: showers from a generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np
import tensorflow as tf

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.pipeline.preprocessing import ENERGY_UNIT_GEV
from cloudgan.data.showers import Showers, measured_angle
from cloudgan.models.networks import build_generator
from cloudgan.training.checkpoint import Checkpoints, read_checkpoint, restore_part
from cloudgan.training.gan import inference_stages
from cloudgan.training.rng import Call, Rng
from cloudgan.training.step import latent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from cloudgan.schema.presets import Preset
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.training.checkpoint import Checkpoint, State

    Floats = NDArray[np.float32]

LEAST_CELL_GEV = 2e-6
"""Smaller cells are set to zero: a ReLU network fills all cells, and the authors' analysis cuts at
1e-4 in units of GeV*50."""

_BLOCK = 256


@dataclass(frozen=True)
class Conditions:
    """Requested conditions of showers, each (N,)."""

    energy_gev: Floats
    mtheta_rad: Floats
    theta_rad: Floats | None = None

    def __len__(self) -> int:
        return len(self.energy_gev)


class ShowerGenerator:
    """The generator of a preset with its initial weights."""

    def __init__(self, preset: Preset, *, block: int = _BLOCK) -> None:
        """Builds the network; it generates `block` showers at a time."""
        self.preset, self._rows = preset, block
        keras.config.set_dtype_policy("float32")
        self._network = build_generator(preset, stages=inference_stages(preset))

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets the weights of a trained generator, in Keras order."""
        self._network.set_weights(weights)

    def showers(
        self, conditions: Conditions, *, seed: int, progress: Progress | None = None
    ) -> Iterator[Showers]:
        """Yields showers in blocks, in the order of `conditions`; deterministic for a seed."""
        progress = progress or Silent()
        progress.start("generating", len(conditions), "showers")
        return self.streamed([conditions], seed=seed, progress=progress)

    def streamed(
        self, parts: Iterable[Conditions], *, seed: int, progress: Progress
    ) -> Iterator[Showers]:
        """Yields the same showers as `showers`, for conditions in parts."""
        rng, before = Rng(seed), 0
        for part in parts:
            for first in range(0, len(part), self._rows):
                rows = slice(first, min(first + self._rows, len(part)))
                yield self._block(part, rows, before, rng)
                progress.advance(rows.stop - first)
            before += len(part)

    def _block(self, conditions: Conditions, rows: slice, before: int, rng: Rng) -> Showers:
        energy = tf.constant(conditions.energy_gev[rows, None] / ENERGY_UNIT_GEV, tf.float32)
        angle = tf.constant(conditions.mtheta_rad[rows, None], tf.float32)
        row = tf.constant(before + rows.start, tf.int64)
        with rng.at(tf.zeros((), tf.int64), row, Call.GENERATE):
            latent = latent_of(self.preset, rng, energy, angle)
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
    """The generator of a checkpoint: the averaged one if the preset has it."""

    def __init__(self, checkpoint: Checkpoint, *, block: int = _BLOCK) -> None:
        """Builds the network of a checkpoint.

        Raises:
            DataError: Its weights do not fit the preset, or are not finite.
        """
        self.state: State = checkpoint.state
        super().__init__(self.state.config.model, block=block)
        part = "ema_generator" if self.preset.ema_decay else "generator"
        restore_part(checkpoint, part, self._network.weights)

    def conditions(self, energy_gev: Floats, theta_rad: Floats) -> Conditions:
        """Maps polar angles to measured angles, which condition the generator.

        Raises:
            ConfigError: Outside the range of the training showers.
        """
        summary = self.state.summary
        _check_range("energies", energy_gev, summary.energy_range_gev, "GeV", "--energy")
        fit = summary.angle_fit
        if fit is None or summary.theta_range_rad is None:
            return Conditions(energy_gev, theta_rad.astype(np.float32))
        degrees = tuple(np.rad2deg(summary.theta_range_rad))
        _check_range("angles", np.rad2deg(theta_rad), degrees, "degrees", "--theta")
        return Conditions(energy_gev, fit.mtheta_rad(theta_rad), theta_rad)


def find_checkpoint(
    folder: RunFolder, step: int | Literal["best"] | None, progress: Progress | None = None
) -> Checkpoint:
    """Reads the checkpoint of a step, the best validated one, or the newest that is not damaged.

    Args:
        folder: Of the run.
        step: Number of the step, "best", or None for the newest.
        progress: Shows the damaged ones that are newer.

    Raises:
        DataError: No such checkpoint, or it is damaged.
    """
    config = folder.read_config()
    checkpoints = Checkpoints(folder.checkpoints, url=config.checkpoint.url if config else "")
    if step not in (None, "best"):
        return _of_step(folder, checkpoints, int(step))
    newest, damaged = checkpoints.newest()
    for each in damaged:
        (progress or Silent()).say(f"checkpoint not used: {each.reason}")
    if newest is None:
        raise _missing(folder, checkpoints, "")
    if step is None:
        return newest
    if newest.state.best is None:
        raise DataError(
            f"{folder.path} has no best checkpoint: no epoch was validated. Resume it with"
            " --validate-every=1, or give the number of a step"
        )
    return _of_step(folder, checkpoints, newest.state.best.step)


def _of_step(folder: RunFolder, checkpoints: Checkpoints, step: int) -> Checkpoint:
    path = checkpoints.fetch(step)
    if not path.exists():
        raise _missing(folder, checkpoints, f" of step {step}")
    return read_checkpoint(path)


def _missing(folder: RunFolder, checkpoints: Checkpoints, which: str) -> DataError:
    have = ", ".join(map(str, checkpoints.steps())) or "none"
    return DataError(
        f"{folder.path} has no checkpoint{which}; available: {have}. Train first:"
        f" cloudgan train --run={folder.path} --data=FILE"
    )


def _check_range(
    what: str, values: NDArray[np.floating], known: tuple[float, ...], unit: str, flag: str
) -> None:
    # 2 % slack: uniform samples of 10 to 100 GeV never span the full range.
    slack = 0.02 * (known[1] - known[0])
    low, high = float(values.min()), float(values.max())
    if low < known[0] - slack or high > known[1] + slack:
        raise ConfigError(
            f"{what} from {low:g} to {high:g} {unit} requested, trained on {known[0]:.4g} to"
            f" {known[1]:.4g}; use a range within {flag}={known[0]:.4g}:{known[1]:.4g}"
        )
