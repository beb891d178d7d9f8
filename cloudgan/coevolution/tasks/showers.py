"""The task `showers`: calorimeter showers with the networks, losses and data of `cloudgan train`.

Sample n has condition n: the energy and angle of a held-out shower, of which as many are chosen as there
are samples, or all of them in turns.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.coevolution.task import Pair
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress
from cloudgan.data.batches import TrainingSet
from cloudgan.data.showers import Showers as ShowerArrays
from cloudgan.data.showers import measured_angle
from cloudgan.schema.coevolution import CoevolutionConfig, SampleQuality
from cloudgan.schema.config import RunConfig
from cloudgan.training.inference import Conditions
from cloudgan.training.quality import HeldOutReference
from cloudgan.validation.assess import quick_metrics
from cloudgan.validation.observables import join_observables

_BLOCK = 100
_PICTURES = 16
_FAINT_GEV = 1e-3
"""Energy of a column of cells that a picture shows as dark grey."""


class Showers:
    """Showers of one training set, shared by all cells of a process."""

    def __init__(
        self,
        config: CoevolutionConfig,
        run_config: RunConfig,
        folder: Path,
        progress: Progress | None = None,
    ) -> None:
        """Opens the showers; imports no TensorFlow."""
        precision = run_config.training.precision
        if precision != "float32":
            raise ConfigError(
                f"cells train in float32, but training.precision of run.yaml is {precision!r}; omit it"
            )
        self._config, self._run = config, run_config
        self.showers: TrainingSet = TrainingSet.open(
            folder, run_config.model, run_config.data, progress=progress
        )
        self._reference = lru_cache(1)(self._reference_of)

    def make_pair(self) -> Pair:
        """Builds the networks of this process, with tables measured on the training showers."""
        from cloudgan.coevolution.tasks.shower_pair import ShowerPair  # noqa: PLC0415

        return ShowerPair(self._config, self._run, self.showers, self.conditions)

    def conditions(self, samples: int) -> Conditions:
        """Returns the conditions of a number of samples."""
        known = self._reference(samples).measured[0]
        return known.take(np.arange(samples) % len(known))

    def facts(self) -> dict[str, Any]:
        """Returns the summary of the training showers: ranges, and the fit of the angle."""
        return {"summary": self.showers.summary.model_dump(mode="json")}

    def measure(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the showers (N, X, Y, Z) themselves: what is measured depends on their number."""
        return samples

    def quality(self, measures: NDArray[np.float32]) -> SampleQuality:
        """Measures showers (N, X, Y, Z) in GeV with the metric of a validation.

        With as many samples as a validation has, the reference and conditions are those of a validation.
        """
        count = len(measures)
        reference, conditions = self._reference(count), self.conditions(count)
        parts = []
        try:
            for first in range(0, count, _BLOCK):
                ecal = measures[first : first + _BLOCK]
                rows = slice(first, first + len(ecal))
                theta = None if conditions.theta_rad is None else conditions.theta_rad[rows]
                block = ShowerArrays(ecal, conditions.energy_gev[rows], theta, measured_angle(ecal))
                parts.append(reference.observe(block, first))
        except DataError:
            return SampleQuality(score=math.inf)
        metrics = quick_metrics(join_observables(parts), reference.measured[1])
        score = metrics.pop("metric", math.inf)
        return SampleQuality(score=score, details=metrics)

    def pictures(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns at most 16 showers from the side, (N, Y, Z), on a logarithmic scale from 0 to 1.

        What is not a number is 0.
        """
        side = np.nan_to_num(samples[:_PICTURES], posinf=0).sum(1)
        found: NDArray[Any] = np.log1p(side / _FAINT_GEV)
        return (found / max(float(found.max(initial=0.0)), 1.0)).astype(np.float32)

    def _reference_of(self, samples: int) -> HeldOutReference:
        from cloudgan.training.quality import HeldOutReference  # noqa: PLC0415

        seed = self._run.training.seed
        return HeldOutReference(self._run.model, self.showers, seed=seed, most=samples)
