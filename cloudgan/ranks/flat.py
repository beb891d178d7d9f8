"""Named arrays as one flat float32 buffer, as ranks exchange them, and where each of them is in it.

The leading arrays are those that a rule or a selection treats apart from the rest: the trained weights
before the statistics of batch norm, or the weights of a network before the slots of its optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FlatLayout:
    """Names and shapes of the arrays in the buffer, in order, the same in every process."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    leading: int

    @cached_property
    def _places(self) -> tuple[slice, ...]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return tuple(slice(int(a), int(b)) for a, b in zip((0, *ends[:-1]), ends, strict=True))

    @property
    def size(self) -> int:
        """Values in the buffer."""
        return int(self._places[-1].stop)

    @property
    def leading_size(self) -> int:
        """Values of the leading arrays, with which the buffer begins."""
        return int(self._places[self.leading - 1].stop)

    def pack(self, arrays: Iterable[Any], into: Floats) -> None:
        """Copies arrays, in the order of `names`, into a buffer."""
        for place, array in zip(self._places, arrays, strict=True):
            into[place] = np.ravel(array)

    def views(self, buffer: Floats) -> dict[str, Floats]:
        """Returns the arrays of a buffer by name, without copies."""
        shapes = zip(self.names, self._places, self.shapes, strict=True)
        return {name: buffer[place].reshape(shape) for name, place, shape in shapes}


def as_buffer(arrays: Iterable[Any]) -> Floats:
    """Returns arrays, one after the other, as one buffer."""
    return np.concatenate([np.ravel(array) for array in arrays]).astype(np.float32)
