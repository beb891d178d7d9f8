"""Showers from a generator, as `generate` makes them, in a measuring process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.bench.measurement import round_or_latency
from cloudgan.core.errors import CloudganError
from cloudgan.schema.presets import find_preset
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.checkpoint_choice import find_checkpoint
from cloudgan.training.conditions import Conditions
from cloudgan.training.inference import ShowerGenerator, TrainedGenerator
from cloudgan.training.strategy import set_up_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANGLE_RAD = (1.05, 2.09)


class GenerateWork:
    """A generator with the weights of a run, or with initial weights."""

    def __init__(
        self,
        preset: str,
        run: str | None,
        batch: int | None,
        threads: int,
        energy_gev: Sequence[float],
    ) -> None:
        """Sets up TensorFlow and builds the generator.

        Args:
            preset: Of the generator, without a run.
            run: Folder of a run; its newest checkpoint is loaded.
            batch: Showers at a time; None: as `generate`.
            threads: Of TensorFlow.
            energy_gev: Energy range of the electrons.

        Raises:
            DataError: The run has no checkpoint.
        """
        self._energy_gev = (energy_gev[0], energy_gev[1])
        set_up_devices(TrainingConfig(), threads=threads)
        if run is None:
            self._generator = ShowerGenerator(find_preset(preset), block=batch)
        else:
            checkpoint = find_checkpoint(RunFolder(run), None)
            self._generator = TrainedGenerator(checkpoint, block=batch)

    def answer(self, question: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answers describe, and round and latency as in `round_or_latency`."""
        if question == "describe":
            preset, batch = self._generator.preset, self._generator.block
            return {"preset": preset.preset, "cells": preset.image_shape, "batch": batch}
        return round_or_latency(self._generate, question, given)

    def _generate(self, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        energy, angle = (
            random.uniform(*of, count).astype(np.float32) for of in (self._energy_gev, _ANGLE_RAD)
        )
        if isinstance(self._generator, TrainedGenerator):
            asked = self._generator.conditions(energy, angle)
        else:
            asked = Conditions(energy, angle)
        blocks = self._generator.showers(asked, seed=seed)
        if sum(map(len, blocks)) != count:
            raise CloudganError("the generator returned a wrong number of showers")
