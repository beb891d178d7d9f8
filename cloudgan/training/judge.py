"""How good a generator is, in a few numbers: its showers beside held-back ones of the same kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.data.showers import Showers, central, measured_angle
from cloudgan.training.generating import Conditions, ShowerGenerator
from cloudgan.validation.observables import join_observables, observe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from cloudgan.core.presets import Preset
    from cloudgan.core.progress import Progress
    from cloudgan.data.training_set import TrainingSet
    from cloudgan.validation.observables import Observables

    Floats = npt.NDArray[np.float32]
    Measure = Callable[[Observables, Observables], Mapping[str, float]]

SHOWERS = 500
"""Held-back showers that a generator is held against, or all where there are fewer."""

_BLOCK = 25  # of any replica's batch a small part, so that a training that fits still fits


class Judge:
    """Asks a generator for the same showers with the same noise each time, and measures them."""

    def __init__(
        self, preset: Preset, showers: TrainingSet, *, seed: int, measure: Measure
    ) -> None:
        """Builds a generator to put weights into; call it outside of any strategy's scope.

        Args:
            preset: Of the run.
            showers: Of which held-back ones are the reference.
            seed: Says which of them, and the noise.
            measure: Returns numbers of generated showers beside the reference.
        """
        self._generator = ShowerGenerator(preset, block=_BLOCK)
        self._shape, self._seed, self._measure = preset.image_shape, seed, measure
        self._showers = showers
        self._reference: tuple[Conditions, Observables] | None = None

    def __len__(self) -> int:
        return min(SHOWERS, self._showers.held_back_count)

    def prepare(self) -> tuple[Conditions, Observables]:
        """Reads and measures the reference, once; a run that never gets so far does without.

        Raises:
            DataError: A held-back shower holds what is no energy.
        """
        if self._reference is None:
            count = self._showers.held_back_count
            rows = np.random.default_rng(self._seed).permutation(count)[: len(self)]
            showers = _seen(self._showers.held_back_rows(np.sort(rows)), self._shape)
            conditions = Conditions(showers.energy_gev, showers.mtheta_rad, showers.theta_rad)
            self._reference = (
                conditions,
                observe(showers, "held-back showers", requested_rad=_requested(conditions)),
            )
        return self._reference

    def numbers(
        self, weights: Sequence[Any], progress: Progress, *, gives_up: Callable[[], bool]
    ) -> dict[str, float] | None:
        """Measures a generator; None where `gives_up` said so meanwhile.

        Args:
            weights: Of the generator, in Keras' order.
            progress: Shows the showers that were made.
            gives_up: Asked after each few showers.

        Raises:
            DataError: A generated shower holds what is no energy.
        """
        conditions, reference = self.prepare()
        progress.start("validating", len(self), "showers")
        self._generator.set_weights(weights)
        asked, parts, done = _requested(conditions), [], 0
        for block in self._generator.showers(conditions, seed=self._seed):
            if gives_up():
                return None
            numbers = np.arange(done, done + len(block))
            parts.append(
                observe(block, "generated showers", requested_rad=asked[numbers], numbers=numbers)
            )
            done += len(block)
            progress.advance(len(block))
        generated = join_observables(parts)
        return {name: float(value) for name, value in self._measure(generated, reference).items()}


def _requested(conditions: Conditions) -> Floats:
    """The angles that both samples are compared at."""
    theta = conditions.theta_rad
    return conditions.mtheta_rad if theta is None else theta


def _seen(showers: Showers, shape: tuple[int, int, int]) -> Showers:
    """The part of showers that a network sees; the angle of a cut image is not that of the whole."""
    if showers.ecal_gev.shape[1:] == shape:
        return showers
    ecal = central(showers.ecal_gev, shape)
    return Showers(ecal, showers.energy_gev, showers.theta_rad, measured_angle(ecal))
