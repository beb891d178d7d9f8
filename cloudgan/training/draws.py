"""What the random numbers of training are drawn for; the same for every engine.

A number is a function of seed, stream, pass, step and row of the global batch. There is no state, so
checkpoints store none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, Protocol


class Call(IntEnum):
    """Pass of a step, so that two passes do not share their masks."""

    REAL = 0
    FAKE = 1
    TEST = 2
    CALIBRATION = 3
    GENERATE = 4
    GENERATOR = 5  # and the following ones: one per generator update


class Stream(IntEnum):
    """Purpose of the numbers; dropout layer n has stream DROPOUT + n."""

    LABEL = 0
    LATENT = 1
    DROPOUT = 2


class Draws(Protocol):
    """Random numbers at a position; also a `cloudgan.models.layers.MaskSource`."""

    def at(self, step: Any, first_row: Any, call: int) -> AbstractContextManager[None]:
        """Sets the position: `call` of `step`, rows from `first_row` on (integer scalars)."""

    def dropout_mask(self, shape: tuple[int, ...], rate: float, stream: int) -> Any:
        """Returns a dropout mask: True with probability 1 - rate (to 1/65536)."""

    def bernoulli(self, probability: float, rows: int, *, step: Any = None) -> Any:
        """Returns booleans (rows, 1), True with `probability`; `step` overrides the position."""

    def normal(self, rows: int, per_row: int) -> Any:
        """Returns standard normals, float32 (rows, per_row)."""


def dropout_threshold(rate: float) -> int:
    """Returns the smallest 16-bit number that dropout keeps."""
    return round(rate * 65536)
