"""What the figures of a validation are drawn from: samples, their names, and how each one looks.

The same looks everywhere: the reference in the ink of the page over a grey sheet, the generated
showers blue, the untrained generator orange and dashed, the floor as a grey band.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cloudgan.reports.drawing import COLOURS, INK
from cloudgan.validation.weightings import weightings

if TYPE_CHECKING:
    from cloudgan.validation.observables import Observables
    from cloudgan.validation.overlap import Common

HALVINGS = 8
"""Random halvings of the reference behind a band of the floor: it is known to a quarter."""

GENERATED_COLOUR = COLOURS[0]
UNTRAINED_COLOUR = COLOURS[1]


@dataclass(frozen=True)
class Drawn:
    """One sample and its look."""

    sample: Observables
    name: str
    colour: str
    line: str = "-"

    @property
    def is_tested(self) -> bool:
        """Whether the verdict is on this one: it has errors, the untrained one is there to see."""
        return self.line == "-"


@dataclass(frozen=True)
class Samples:
    """What is drawn; names go into the legends.

    Attributes:
        common: The part of both samples that was compared.
        generated_name: Of the showers under test.
        reference_name: Of the Monte Carlo.
        untrained: By the same generator before training, where it was kept.
        seed: Of the random halves.
    """

    common: Common
    generated_name: str = "generator"
    reference_name: str = "Monte Carlo"
    untrained: Observables | None = None
    seed: int = 0

    @property
    def reference(self) -> Observables:
        """Monte Carlo."""
        return self.common.reference

    @property
    def generated(self) -> Observables:
        """The showers under test."""
        return self.common.generated

    @property
    def shown_reference(self) -> Drawn:
        """The Monte Carlo and its look."""
        return Drawn(self.reference, self.reference_name, INK)

    @property
    def compared(self) -> tuple[Drawn, ...]:
        """What is held against the reference, the least important first."""
        generated = Drawn(self.generated, self.generated_name, GENERATED_COLOUR)
        if self.untrained is None:
            return (generated,)
        return (Drawn(self.untrained, "untrained", UNTRAINED_COLOUR, "--"), generated)

    @cached_property
    def halves(self) -> tuple[tuple[Observables, Observables], ...]:
        """Random halves of the reference, drawn as those behind the floors of the numbers."""
        drawn = weightings(self.common, bootstraps=0, halvings=HALVINGS, seed=self.seed)
        return tuple(
            (self.reference[first > 0], self.reference[second > 0])
            for first, second in zip(drawn.first, drawn.second, strict=True)
        )
