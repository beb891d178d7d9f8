"""An individual of a cell: one network with its optimiser, as one flat buffer. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from cloudgan.coevolution.task import Kind
    from cloudgan.schema.coevolution import AdversarialLoss

    Floats = NDArray[np.float32]


@dataclass(frozen=True)
class StateLayout:
    """Where each array of an individual is in its buffer: weights, then optimiser slots and counters.

    Attributes:
        names: Of the arrays, the same in every process.
        shapes: Of the arrays.
        weights: Number of leading arrays that are weights of the network.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    weights: int

    @cached_property
    def _slices(self) -> tuple[slice, ...]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return tuple(slice(int(a), int(b)) for a, b in zip((0, *ends[:-1]), ends, strict=True))

    @property
    def size(self) -> int:
        """Values in the buffer."""
        return int(self._slices[-1].stop)

    @property
    def weights_size(self) -> int:
        """Values of the weights, with which the buffer begins."""
        return int(self._slices[self.weights - 1].stop)

    def views(self, state: Floats) -> list[Floats]:
        """Returns the arrays of a buffer, without copies."""
        return [
            state[place].reshape(shape)
            for place, shape in zip(self._slices, self.shapes, strict=True)
        ]

    def weight_arrays(self, state: Floats) -> list[Floats]:
        """Returns the weights of the network, in Keras order."""
        return self.views(state)[: self.weights]


@dataclass(frozen=True)
class Individual:
    """A network that competes; immutable but for the content of `state`, which its owner may reuse.

    Attributes:
        kind: Generator or discriminator.
        state: Weights and optimiser slots, float32, as its `StateLayout` says.
        rate: Learning rate.
        loss: Adversarial loss that it is trained with.
        fitness: Aggregated loss against the adversaries of the neighbourhood; lower is better.
        name: ``CELL/ITERATION/NUMBER`` of its creation.
        parent: Name of the individual that it was trained from; empty for the first ones.
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
        return {
            "kind": self.kind,
            "rate": self.rate,
            "loss": self.loss,
            "fitness": self.fitness if np.isfinite(self.fitness) else None,
            "name": self.name,
            "parent": self.parent,
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any], state: Floats) -> Individual:
        """Returns the individual of a header and a state.

        Raises:
            DataError: The header is not that of an individual.
        """
        try:
            return cls(
                kind=header["kind"],
                state=state,
                rate=float(header["rate"]),
                loss=header["loss"],
                fitness=_number(header["fitness"]),
                name=str(header["name"]),
                parent=str(header["parent"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the header of an individual is not valid: {error}") from error


def _number(value: float | None) -> float:
    return float("inf") if value is None else float(value)
