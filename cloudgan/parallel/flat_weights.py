"""The weights of both networks as one flat float32 buffer, and where each array is in it.

First the trainable weights, generator before discriminator, then the statistics of batch norm and the
measured tables: the update rules move the two parts differently. Imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.errors import ConfigError

Floats = NDArray[np.float32]

EXCHANGED = ("generator/", "discriminator/")
"""Prefixes of the variables that are exchanged; optimizers and the averaged generator stay."""


@dataclass(frozen=True)
class FlatLayout:
    """Names and shapes of the arrays in the buffer, in order.

    Attributes:
        names: Of the variables, as in a checkpoint.
        shapes: Of the variables.
        trainable: Number of leading arrays that are trained.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    trainable: int

    @classmethod
    def of(cls, variables: Mapping[str, Any]) -> FlatLayout:
        """Returns the layout of Keras variables by checkpoint name.

        Raises:
            ConfigError: They are not float32.
        """
        found = [(name, v) for name, v in variables.items() if name.startswith(EXCHANGED)]
        other = next((v.dtype for _, v in found if str(v.dtype) != "float32"), None)
        if other is not None:
            raise ConfigError(
                f"--parallel exchanges float32 weights, and these are {other}; use --precision=float32"
                " or mixed"
            )
        ordered = sorted(found, key=lambda pair: not pair[1].trainable)
        return cls(
            tuple(name for name, _ in ordered),
            tuple(tuple(v.shape) for _, v in ordered),
            sum(bool(v.trainable) for _, v in ordered),
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the layout as a JSON value."""
        return {
            "names": self.names,
            "shapes": [list(shape) for shape in self.shapes],
            "trainable": self.trainable,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FlatLayout:
        """Returns the layout of `as_json`."""
        shapes = tuple(tuple(shape) for shape in value["shapes"])
        return cls(tuple(value["names"]), shapes, int(value["trainable"]))

    @cached_property
    def _places(self) -> dict[str, slice]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        starts = (0, *ends[:-1])
        return {
            name: slice(int(start), int(end))
            for name, start, end in zip(self.names, starts, ends, strict=True)
        }

    @property
    def size(self) -> int:
        """Values in the buffer."""
        return int(self._places[self.names[-1]].stop)

    @property
    def trainable_size(self) -> int:
        """Leading values that are trained."""
        return int(self._places[self.names[self.trainable - 1]].stop)

    def pack(self, arrays: Iterable[Any], into: Floats) -> None:
        """Copies arrays, in the order of `names`, into a buffer."""
        for place, array in zip(self._places.values(), arrays, strict=True):
            into[place] = np.ravel(array)

    def views(self, buffer: Floats) -> dict[str, Floats]:
        """Returns the arrays of a buffer by name, without copies."""
        shapes = zip(self._places.items(), self.shapes, strict=True)
        return {name: buffer[place].reshape(shape) for (name, place), shape in shapes}

    def generator(self, buffer: Floats) -> list[Floats]:
        """Returns the generator's arrays in Keras order."""
        views = self.views(buffer)
        return [views[name] for name in sorted(views) if name.startswith(EXCHANGED[0])]


def same_order(arrays: Sequence[Any]) -> Floats:
    """Returns arrays, one after the other, as one buffer."""
    return np.concatenate([np.ravel(array) for array in arrays]).astype(np.float32)
