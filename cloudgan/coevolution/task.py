"""What a grid of cells trains: individuals, and the interface between the evolution and a task. Imports no TensorFlow.

A task brings data, networks and a measure of quality. The rest of the package knows no task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import DataError
from cloudgan.ranks.flat import FlatLayout, Floats
from cloudgan.schema.coevolution import AdversarialLoss, SampleQuality

Kind = Literal["generator", "discriminator"]
KINDS: tuple[Kind, Kind] = ("generator", "discriminator")


class Draw(NamedTuple):
    """Position of random numbers: every array that a task draws is a function of it.

    Cells are numbered row by row, iterations of a cell from 0; purposes are those of
    `cloudgan.coevolution.evolution.Purpose`.
    """

    seed: int
    cell: int
    iteration: int
    purpose: int


@dataclass(frozen=True)
class Individual:
    """A network that competes; immutable but for the content of `state`, which its owner may reuse.

    `state` has weights and optimiser slots, as `Pair.layouts` say; fitness is the aggregated loss against
    the adversaries of the neighbourhood, lower is better. `name` is ``CELL/ITERATION/NUMBER`` of its
    creation, `parent` that of the individual that it was trained from; empty for the first ones.
    """

    kind: Kind
    state: Floats
    rate: float
    loss: AdversarialLoss
    fitness: float
    name: str
    parent: str = ""

    @property
    def is_finite(self) -> bool:
        """Whether all values are finite."""
        return bool(np.isfinite(self.state).all() and np.isfinite(self.rate))

    def child(self, name: str) -> Individual:
        """Returns a copy of its own, which names this individual as its parent."""
        return replace(self, state=self.state.copy(), name=name, parent=self.name)

    def header(self) -> dict[str, Any]:
        """Returns everything but the state, as JSON; an infinite fitness is null."""
        known = {name: value for name, value in vars(self).items() if name != "state"}
        return known | {"fitness": self.fitness if np.isfinite(self.fitness) else None}

    @classmethod
    def from_header(cls, header: Mapping[str, Any], state: Floats) -> Individual:
        """Returns the individual of a header and a state."""
        try:
            fitness = float("inf") if header["fitness"] is None else float(header["fitness"])
            numbers = {"rate": float(header["rate"]), "fitness": fitness}
            return cls(state=state, **{**header, **numbers})
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the header of an individual is not valid: {error}") from error


class Pair(Protocol):
    """A generator and a discriminator with their optimisers, traced once per process.

    Individuals are loaded into it, trained, and read back.
    """

    layouts: dict[Kind, FlatLayout]
    """Where the arrays of an individual are: weights, then optimiser slots and counters."""

    def initial(self, kind: Kind, seed: int) -> Floats:
        """Returns the state of a new individual: weights drawn from `seed`, empty optimiser slots."""

    def load(self, individual: Individual) -> None:
        """Sets the network of the individual's kind: state, learning rate and loss."""

    def read(self, kind: Kind) -> Floats:
        """Returns a copy of the state of the loaded individual."""

    def train(
        self, draw: Draw, numbers: Sequence[int], *, generator: bool, discriminator_every: int
    ) -> None:
        """Trains the loaded individuals on batches, in order.

        For each batch the generator is updated, then every `discriminator_every`-th batch the
        discriminator, each against the other as it is at that moment.

        `numbers` are those of the batches within the iteration, from 0; `discriminator_every` 0 updates no
        discriminator.
        """

    def fakes(self, draw: Draw, generators: Sequence[Individual], samples: int) -> Any:
        """Returns what each generator makes of one held batch, for `losses`."""

    def losses(
        self, fakes: Any, discriminators: Sequence[Individual], kinds: Sequence[Kind] = KINDS
    ) -> dict[Kind, NDArray[np.float64]]:
        """Returns losses of all generators of `fakes` against all discriminators; lower is better.

        Those of generators are (G, D), of discriminators (D, G).
        """

    def generator_weights(self, generator: Individual) -> dict[str, Floats]:
        """Returns all weights that generate, by names that sort in their order."""

    def generate(
        self,
        draw: Draw,
        generator: Individual,
        samples: int,
        rows: NDArray[np.intp] | None = None,
    ) -> Any:
        """Returns samples (N, ...). Sample n belongs to condition n of the task.

        `rows` are numbers of those that are returned, with noise of their own; None: all.
        """

    def generate_with(self, draw: Draw, weights: Mapping[str, Floats], samples: int) -> Any:
        """Returns samples (N, ...) of weights that `generator_weights` returned."""


class Task(Protocol):
    """Data, networks and quality of what the cells train."""

    def make_pair(self) -> Pair:
        """Builds the networks of this process; imports TensorFlow."""

    def facts(self) -> dict[str, Any]:
        """Returns what is needed beside the weights to generate without the data, as JSON."""

    def measure(self, samples: Any) -> NDArray[Any]:
        """Returns what `quality` needs of each sample of `Pair.generate`, (N, ...), in their order."""

    def quality(self, measures: NDArray[Any]) -> SampleQuality:
        """Returns the quality of samples from their measures, (N, ...), against held-out data."""

    def pictures(self, samples: Any) -> NDArray[np.float32]:
        """Returns at most 16 samples as images (N, height, width) from 0 to 1, for the page."""
