"""Samples that the figures of a validation show, and their style.

Style: the reference in ink over a grey area, generated showers blue, the untrained generator orange and
dashed, the MC-MC baseline as a grey band.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cloudgan.reports.charts import COLOURS, INK
from cloudgan.validation.metrics.bootstrap_weights import halves
from cloudgan.validation.observables.observables import Observables
from cloudgan.validation.observables.overlap import OverlapRegion

HALVINGS = 8
"""Random halvings of the reference behind a baseline band, which is then known to a quarter."""

GENERATED_COLOUR = COLOURS[0]
UNTRAINED_COLOUR = COLOURS[1]


@dataclass(frozen=True)
class Shower:
    """One shower: cells (x, y, z) in GeV, energy of the primary and requested angle."""

    ecal_gev: NDArray[np.float32]
    energy_gev: float
    angle_deg: float

    def __str__(self) -> str:
        return f"{self.energy_gev:.3g} GeV, {self.angle_deg:.0f}°"


Pair = tuple[Shower, Shower]
"""A generated shower and one of the Monte Carlo."""


@dataclass(frozen=True)
class DrawnSample:
    """One sample and its style."""

    sample: Observables
    name: str
    colour: str
    line: str = "-"

    @property
    def is_tested(self) -> bool:
        """Whether this is the sample under test, drawn with errors; the untrained one has none."""
        return self.line == "-"


@dataclass(frozen=True)
class Samples:
    """Samples to draw; the names go into the legends.

    Attributes:
        overlap: Compared region of both samples.
        generated_name: Name of the sample under test.
        reference_name: Name of the Monte Carlo.
        untrained: Sample of the same generator before training, if it was kept.
        seed: Seed of the random halves.
        pairs: Showers to draw, each generated one with one of the Monte Carlo.
    """

    overlap: OverlapRegion
    generated_name: str = "generator"
    reference_name: str = "Monte Carlo"
    untrained: Observables | None = None
    seed: int = 0
    pairs: tuple[Pair, ...] = ()

    @property
    def reference(self) -> Observables:
        """Monte Carlo."""
        return self.overlap.reference

    @property
    def generated(self) -> Observables:
        """Sample under test."""
        return self.overlap.generated

    @property
    def shown_reference(self) -> DrawnSample:
        """Monte Carlo and its style."""
        return DrawnSample(self.reference, self.reference_name, INK)

    @property
    def compared(self) -> tuple[DrawnSample, ...]:
        """Samples compared with the reference, the sample under test last."""
        generated = DrawnSample(self.generated, self.generated_name, GENERATED_COLOUR)
        if self.untrained is None:
            return (generated,)
        return (DrawnSample(self.untrained, "untrained", UNTRAINED_COLOUR, "--"), generated)

    @cached_property
    def halves(self) -> tuple[tuple[Observables, Observables], ...]:
        """Random halves of the reference, behind the baseline bands."""
        return tuple(halves(self.overlap, count=HALVINGS, seed=self.seed))
