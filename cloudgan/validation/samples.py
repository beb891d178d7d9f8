"""Samples that the figures of a validation show, and their style.

Style: the reference in ink over a grey area, generated showers blue, the untrained generator orange and
dashed, the MC-MC baseline as a grey band. This module loads no Matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cloudgan.data.showers import Showers
from cloudgan.reports.charts import COLOURS, INK
from cloudgan.validation.observables import Observables
from cloudgan.validation.overlap import OverlapRegion
from cloudgan.validation.resampling import halves

HALVINGS = 8
"""Random halvings of the reference behind a baseline band, which is then known to a quarter."""

SHOWN = 4
KEPT = 100
"""Showers of a generator among which some are drawn."""
READ = 300
"""Showers of each of two files among which pairs of nearly the same energy and angle are drawn."""

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

    @property
    def baseline_scale(self) -> float:
        """By which the difference of two halves becomes that of two samples of the compared sizes.

        The variance of a difference of means, shares or widths of n and m showers is proportional to
        1/n + 1/m: the halves of N showers differ sqrt(2) times as much as N showers from N others.
        """
        (first, second), *_ = self.halves
        here = 1 / len(self.generated) + 1 / len(self.reference)
        return float(np.sqrt(here / (1 / len(first) + 1 / len(second))))


def first_of(blocks: Iterable[Showers], kept: list[Showers]) -> Iterator[Showers]:
    """Yields the blocks, and adds the first ones to `kept` until they hold `KEPT` showers."""
    for block in blocks:
        if sum(map(len, kept)) < KEPT:
            kept.append(block)
        yield block


def pick_pairs(
    generated: Showers, reference: Showers, *, matched: bool = False
) -> tuple[Pair, ...]:
    """Returns Monte Carlo showers of evenly spread energies, each with a generated one.

    Args:
        matched: Row by row, a generated shower was asked for energy and angle of the Monte Carlo one; else
            the nearest one is taken.
    """
    filled = np.flatnonzero(reference.ecal_gev.any((1, 2, 3)))
    filled = filled[np.argsort(reference.energy_gev[filled], kind="stable")]
    places = ((np.arange(SHOWN) + 0.5) / SHOWN * len(filled)).astype(int)
    rows = [int(row) for row in filled[np.unique(places)]] if filled.size else []
    known = generated.theta_rad is not None and reference.theta_rad is not None
    theirs = _conditions(reference, known)
    ours = theirs if matched else _conditions(generated, known)
    width = np.maximum(np.ptp(theirs, 0), 1e-6)
    found = []
    for row in rows:
        near = row if matched else int(np.square((ours - theirs[row]) / width).sum(1).argmin())
        found.append((
            Shower(generated.ecal_gev[near], *map(float, ours[near])),
            Shower(reference.ecal_gev[row], *map(float, theirs[row])),
        ))  # fmt: skip
    return tuple(found)


def _conditions(sample: Showers, known: bool) -> NDArray[np.float64]:
    """Energies in GeV and angles in degrees, (N, 2): the polar angle if `known`, else the measured one."""
    angle = sample.theta_rad if known and sample.theta_rad is not None else sample.mtheta_rad
    return np.stack([sample.energy_gev, np.rad2deg(angle)], 1).astype(np.float64)
