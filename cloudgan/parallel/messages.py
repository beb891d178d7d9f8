"""What workers and masters send each other: headers of numbers, and flat buffers of weights.

A worker joins with `Tag.JOIN` (JSON; the first one with `Described`), and for a new run the first worker
sends all its arrays (`Tag.ARRAYS`). It exchanges with `Tag.UPDATE`: an `Update`, then the weights; or, where the rule
fetches first, with a `FETCH` before. The master answers with an `Answer`, then the weights, unless the
answer ends the worker. A worker confirms a saved checkpoint with `Tag.SAVED`, and its end with
`Tag.DONE`; weights for inference return with `Tag.RECALIBRATED`. While it waits for the copy of a checkpoint it
sends `Tag.ALIVE`. All numbers are float64: steps are exact up to 2^53.

A master below rank 0 sends it the same messages, with a `Report` (JSON) about its workers in place of
the `Update`. With `SAVED` and `DONE` it sends its own steps, then those of each of its workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field
from enum import IntEnum, IntFlag
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.document import Document
from cloudgan.data.summary import TrainingSummary
from cloudgan.parallel.trace import ROUTINES, Seconds
from cloudgan.ranks.flat import FlatLayout
from cloudgan.schema.record import Started


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
    REPORT = 11
    ALIVE = 12


class Described(Document):
    """What the first worker of a master tells it about the run when it joins.

    The leading weights of `flat` are trained; `recalibrates`: it can fit the statistics of an averaged
    generator.
    """

    flat: FlatLayout
    started: Started
    summary: TrainingSummary
    recalibrates: bool


class Wanted(IntFlag):
    """What a master wants of a worker."""

    NOTHING = 0
    SAVE = 1
    RECALIBRATE = 2
    STOP = 4
    END = 8


@dataclass
class Update:
    """Header of a worker's update; everything counts since the worker joined.

    `step` is of the worker in the run; `trace_seconds` and `trace_steps` are of its first call, which
    traces and compiles. Losses are sums over all steps, flat. `peak_memory_bytes` is of its process; 0:
    unknown.
    """

    step: int
    seconds: Seconds
    trace_seconds: float
    trace_steps: int
    peak_memory_bytes: int
    losses: NDArray[np.float64]

    def as_array(self) -> NDArray[np.float64]:
        """Returns the numbers that are sent."""
        head = [self.step, *astuple(self.seconds), self.trace_seconds, self.trace_steps]
        head.append(self.peak_memory_bytes)
        return np.concatenate([np.array(head, np.float64), np.ravel(self.losses)])

    @classmethod
    def from_array(cls, values: NDArray[np.float64]) -> Self:
        """Returns the header from the received numbers."""
        count = len(ROUTINES)
        step, *rest = values[: count + 4].tolist()
        return cls(
            int(step),
            Seconds(*rest[:count]),
            rest[count],
            int(rest[count + 1]),
            int(rest[count + 2]),
            values[count + 4 :],
        )


@dataclass
class WorkerReport:
    """What one worker has sent since the last report.

    `staleness` is the number of updates by the others that came between fetch and update, of all of them.
    """

    update: Update
    staleness: Counter[int] = field(default_factory=Counter)


@dataclass
class Report:
    """What a master sends rank 0 about its workers."""

    seconds: Seconds
    workers: dict[int, WorkerReport] = field(default_factory=dict)

    @property
    def staleness(self) -> Counter[int]:
        """Updates of all workers by their staleness."""
        return sum((each.staleness for each in self.workers.values()), Counter())

    def as_json(self) -> dict[str, Any]:
        """Returns the report as a JSON value."""
        return {
            "seconds": asdict(self.seconds),
            "workers": [
                [number, each.update.as_array().tolist(), list(each.staleness.items())]
                for number, each in self.workers.items()
            ],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Returns the report of `as_json`."""
        workers = {
            number: WorkerReport(Update.from_array(np.array(numbers)), Counter(dict(staleness)))
            for number, numbers, staleness in value["workers"]
        }
        return cls(Seconds(**value["seconds"]), workers)


@dataclass(frozen=True)
class Answer:
    """Header of a master's answer."""

    wanted: Wanted
    reason: int = 0

    SIZE = 2

    def as_array(self) -> NDArray[np.float64]:
        """Returns the numbers that are sent."""
        return np.array([self.wanted, self.reason], np.float64)

    @classmethod
    def from_array(cls, values: NDArray[np.float64]) -> Self:
        """Returns the header from the received numbers."""
        wanted, reason = values.tolist()
        return cls(Wanted(int(wanted)), int(reason))
