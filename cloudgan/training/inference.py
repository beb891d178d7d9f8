"""Inference: showers from a generator. Keras is imported when one is built: the API names its types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress, Silent
from cloudgan.data.layouts import Layout
from cloudgan.data.showers import (
    ENERGY_UNIT_GEV,
    LEAST_CELL_GEV,
    Showers,
    as_read_out,
    measured_angle,
)
from cloudgan.data.summary import TrainingSummary
from cloudgan.gan.convolutions import choose_conv_impl
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import Preset
from cloudgan.training.checkpoint import Checkpoint, restore_part

Floats = NDArray[np.float32]

_ROUNDING = 1e-5
_ACCELERATOR_BLOCK = 256
_CACHED_CELLS = 2**19
"""Cells of a block on a CPU, 2 MB: what a layer writes is still in the cache when the next one reads it."""


@dataclass(frozen=True)
class Conditions:
    """Requested conditions of showers, each (N,).

    Attributes:
        energy_gev: Of the primary.
        angle_rad: Angle that conditions the generator, see `Preset.angle`.
        theta_rad: Polar angle of the primary, where it is known.
    """

    energy_gev: Floats
    angle_rad: Floats
    theta_rad: Floats | None = None

    def __len__(self) -> int:
        return len(self.energy_gev)

    def take(self, rows: NDArray[np.intp]) -> Conditions:
        """Returns the conditions of `rows`."""
        theta = self.theta_rad
        return Conditions(
            self.energy_gev[rows], self.angle_rad[rows], None if theta is None else theta[rows]
        )

    @classmethod
    def of(cls, showers: Showers, preset: Preset) -> Conditions:
        """Returns the conditions of Monte Carlo showers, whose images have the network's cells."""
        primary = showers.theta_rad if preset.angle == "primary" else None
        angle = showers.mtheta_rad if primary is None else primary
        return cls(showers.energy_gev, angle, showers.theta_rad)


def usual_block(preset: Preset) -> int:
    """Returns the number of showers to compute at a time on this device, a power of two on a CPU."""
    from cloudgan.training.backend import backend

    if backend().device_kind() != "CPU":
        return _ACCELERATOR_BLOCK
    most = max(1, _CACHED_CELLS // math.prod(preset.image_shape))
    return 1 << (most.bit_length() - 1)


class ShowerGenerator:
    """The generator of a preset with its initial weights.

    Attributes:
        layout: Of the showers that it was trained on; None: 3DGAN's.
    """

    layout: Layout | None = None

    def __init__(self, preset: Preset, *, block: int | None = None) -> None:
        """Builds the network, which computes `block` showers at a time, by default `usual_block`."""
        import keras

        from cloudgan.gan.networks import build_generator
        from cloudgan.training.backend import backend
        from cloudgan.training.gan import make_stages

        self.preset, self.block = preset, block or usual_block(preset)
        self._traced = 0
        keras.config.set_dtype_policy("float32")
        # Cell marginals raise an exponential to `image_power`: asked for GeV, they need no root afterwards.
        self._in_gev = preset.cell_marginals
        units: dict[str, Any] = {"image_power": 1.0, "image_scale": 1.0} if self._in_gev else {}
        # The fastest form in float32 on this device.
        form = choose_conv_impl(RunConfig(model=preset), backend().conv_device())
        network = build_generator(preset.model_copy(update=units), stages=make_stages(form))
        self.network = network
        self._images = backend().compiled(
            lambda latent: network(latent, training=False)[..., 0], network.variables
        )

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets the weights of a trained generator, in Keras order."""
        self.network.set_weights(weights)

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
        before = 0
        for part in parts:
            for first in range(0, len(part), self.block):
                rows = slice(first, min(first + self.block, len(part)))
                yield self._block(part, rows, before, seed)
                progress.advance(rows.stop - first)
            before += len(part)

    def blocks(self, count: int) -> int:
        """Returns the number of blocks of `count` showers."""
        return -(-count // self.block)

    def block_of(self, conditions: Conditions, number: int, *, seed: int) -> Showers:
        """Returns one block of `showers` with the same bits, in any order of the blocks."""
        first, last = number * self.block, len(conditions)
        # A graph of another batch size may round differently.
        self._traced = max(self._traced, min(self.block, last))
        rows = slice(first, min(first + self.block, last))
        return self._block(conditions, rows, 0, seed)

    def _block(self, conditions: Conditions, rows: slice, before: int, seed: int) -> Showers:
        from keras import ops

        from cloudgan.gan.networks import latent_of
        from cloudgan.training.rng import Call, Rng

        rng, count = Rng(seed), rows.stop - rows.start
        # A graph is traced for each number of rows: a shorter block is filled up, but for a single shower.
        self._traced = max(self._traced, count)
        fill = (0, self._traced - count if count > 1 else 0)
        energy, angle = (
            ops.convert_to_tensor(np.pad(values[rows], fill, "edge")[:, None], "float32")
            for values in (conditions.energy_gev / ENERGY_UNIT_GEV, conditions.angle_rad)
        )
        with rng.at(0, before + rows.start, Call.GENERATE):
            latent = latent_of(self.preset, rng.normal, energy, angle)
        ecal = self.ecal_gev(latent)[:count]
        theta, layout = conditions.theta_rad, self.layout
        if layout:
            ecal = as_read_out(layout, ecal)
        is_shown = layout is None or layout.tilts
        return Showers(
            ecal,
            conditions.energy_gev[rows],
            None if theta is None else theta[rows],
            measured_angle(ecal) if is_shown else conditions.angle_rad[rows],
        )

    def ecal_gev(self, latent: Any) -> Floats:
        """Returns cells in GeV, (B, X, Y, Z), for inputs of the network (B, `latent_length`)."""
        ecal: Floats = self._images(latent)
        if not self._in_gev:
            ecal **= np.float32(1 / self.preset.image_power)
            ecal /= np.float32(self.preset.image_scale)
        ecal *= ecal >= LEAST_CELL_GEV
        return ecal


class RunGenerator(ShowerGenerator):
    """The generator of a run, which knows the showers it was trained on.

    Attributes:
        config: Of the run.
        summary: Of its training showers.
        step: Steps of its training; of a grid: iterations.
        name: Which generator of the run it is, such as ``step 120``.
    """

    def __init__(
        self,
        config: RunConfig,
        summary: TrainingSummary,
        *,
        step: int,
        name: str,
        block: int | None = None,
    ) -> None:
        """Builds the network with its initial weights."""
        self.config, self.summary, self.step, self.name = config, summary, step, name
        self.layout = summary.dataset
        super().__init__(config.model, block=block)

    def conditions(
        self, energy_gev: Floats, theta_rad: Floats, *, extrapolate: bool = False
    ) -> Conditions:
        """Maps polar angles to the angles that condition the generator.

        Where the training showers have no polar angle, `theta_rad` is the measured one. Unless `extrapolate` is
        set, what is outside the range of the training showers is a ConfigError.
        """
        summary = self.summary
        if not extrapolate:
            trained = summary.theta_range_rad or summary.mtheta_range_rad
            degrees = tuple(np.rad2deg(trained))
            _check_range("energies", energy_gev, summary.energy_range_gev, "GeV", "--energy")
            _check_range("angles", np.rad2deg(theta_rad), degrees, "degrees", "--theta")
        fit = summary.angle_fit
        if fit is None or summary.theta_range_rad is None:
            return Conditions(energy_gev, theta_rad.astype(np.float32))
        return Conditions(energy_gev, fit.mtheta_rad(theta_rad), theta_rad)


class TrainedGenerator(RunGenerator):
    """The generator of a checkpoint: the averaged one if the preset has it."""

    def __init__(self, checkpoint: Checkpoint, *, block: int | None = None) -> None:
        """Builds the network of a checkpoint."""
        state = checkpoint.state
        super().__init__(
            state.config, state.summary, step=state.step, name=f"step {state.step}", block=block
        )
        part = "ema_generator" if self.preset.ema_decay else "generator"
        restore_part(checkpoint, part, self.network.weights)


def _check_range(
    what: str, values: NDArray[np.floating], known: tuple[float, ...], unit: str, flag: str
) -> None:
    # 2 % slack: uniform samples of 10 to 100 GeV never span the full range. Showers of a single angle have
    # no range; degrees of 32-bit radians differ in the sixth digit.
    slack = max(0.02 * (known[1] - known[0]), _ROUNDING * abs(known[1]))
    low, high = float(values.min()), float(values.max())
    if low < known[0] - slack or high > known[1] + slack:
        raise ConfigError(
            f"{what} from {low:g} to {high:g} {unit} requested, trained on {known[0]:.4g} to"
            f" {known[1]:.4g}; use a range within {flag}={known[0]:.4g}:{known[1]:.4g}, or --extrapolate"
            " for showers that no Monte Carlo was compared with"
        )
