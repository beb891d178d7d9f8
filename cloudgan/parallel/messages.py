"""What workers and masters send each other: headers of numbers, and flat buffers of weights.

A worker joins with `Tag.JOIN` (JSON), and for a new run the first worker sends all its arrays
(`Tag.ARRAYS`). It exchanges with `Tag.UPDATE`: an `Update`, then the weights; or, where the rule
fetches first, with a `FETCH` before. The master answers with an `Answer`, then the weights, unless the
answer ends the worker. A worker confirms a saved checkpoint with `Tag.SAVED`, and its end with
`Tag.DONE`; weights for inference return with `Tag.RECALIBRATED`. All numbers are float64: steps are
exact up to 2^53.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Header = np.dtype(np.float64)


class Tag(IntEnum):
    """Kind of a message."""

    JOIN = 1
    ARRAYS = 2
    FETCH = 3
    UPDATE = 4
    WEIGHTS = 5
    ANSWER = 6
    CENTRE = 7
    SAVED = 8
    RECALIBRATED = 9
    DONE = 10


class Wanted(IntFlag):
    """What a master wants of a worker."""

    NOTHING = 0
    SAVE = 1
    RECALIBRATE = 2
    STOP = 4
    END = 8


@dataclass
class Seconds:
    """Seconds of a rank by routine, since it joined.

    Attributes:
        train: Steps of the worker; of a master none.
        gather: Weights copied from the device, and what is sent computed from them.
        update: Weights moved by the rule, and copied to the device.
        wait: For an answer; of a master for messages.
        validate: Quality metrics of a master.
    """

    train: float = 0.0
    gather: float = 0.0
    update: float = 0.0
    wait: float = 0.0
    validate: float = 0.0

    def minus(self, before: Seconds) -> Seconds:
        """Returns the seconds since `before`."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Seconds(*(max(0.0, now - then) for now, then in pairs))


ROUTINES = tuple(field.name for field in fields(Seconds))


@dataclass
class Update:
    """Header of a worker's update; everything counts since the worker joined.

    Attributes:
        step: Own steps of the worker in the run.
        seconds: By routine.
        trace_seconds: Of its first call, which traces and compiles.
        trace_steps: Steps of that call.
        losses: Sums over all steps, flat.
    """

    step: int
    seconds: Seconds
    trace_seconds: float
    trace_steps: int
    losses: NDArray[np.float64]

    def as_array(self) -> NDArray[np.float64]:
        """Returns the numbers that are sent."""
        head = [self.step, *astuple(self.seconds), self.trace_seconds, self.trace_steps]
        return np.concatenate([np.array(head, Header), np.ravel(self.losses)])

    @classmethod
    def from_array(cls, values: NDArray[np.float64]) -> Self:
        """Returns the header from the received numbers."""
        count = len(ROUTINES)
        step, *rest = values[: count + 3].tolist()
        return cls(
            int(step),
            Seconds(*rest[:count]),
            rest[count],
            int(rest[count + 1]),
            values[count + 3 :],
        )


@dataclass(frozen=True)
class Answer:
    """Header of a master's answer.

    Attributes:
        wanted: Of the worker.
        reason: Number of the reason to stop among `training.stopping`'s; 0 without `Wanted.STOP`.
    """

    wanted: Wanted
    reason: int = 0

    SIZE = 2

    def as_array(self) -> NDArray[np.float64]:
        """Returns the numbers that are sent."""
        return np.array([self.wanted, self.reason], Header)

    @classmethod
    def from_array(cls, values: NDArray[np.float64]) -> Self:
        """Returns the header from the received numbers."""
        wanted, reason = values.tolist()
        return cls(Wanted(int(wanted)), int(reason))
