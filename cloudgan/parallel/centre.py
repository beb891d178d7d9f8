"""What a master keeps: its weights, the ranks that exchange with it, and the point at which all of them save.

A point is complete when every rank below has saved; then the master writes its own part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cloudgan.core.errors import ConfigError
from cloudgan.parallel.update_rules import Floats, State, UpdateRule
from cloudgan.ranks.flat import FlatLayout
from cloudgan.ranks.mpi import Silence

_EXCHANGED = ("generator/", "discriminator/")
"""Prefixes of the variables that are exchanged; optimizers and the averaged generator stay."""


def exchanged_layout(variables: Mapping[str, Any]) -> FlatLayout:
    """Returns the layout of Keras variables by checkpoint name: first those that are trained.

    Generator before discriminator, then the statistics of batch norm and the measured tables: the update
    rules move the two parts differently.
    """
    found = [(name, v) for name, v in variables.items() if name.startswith(_EXCHANGED)]
    other = next((v.dtype for _, v in found if str(v.dtype) != "float32"), None)
    if other is not None:
        raise ConfigError(
            f"--parallel exchanges float32 weights, and these are {other}; use --precision=float32"
            " or mixed"
        )
    ordered = sorted(found, key=lambda pair: not pair[1].trainable)
    return FlatLayout(
        tuple(name for name, _ in ordered),
        tuple(tuple(v.shape) for _, v in ordered),
        sum(bool(v.trainable) for _, v in ordered),
    )


def generator_arrays(flat: FlatLayout, buffer: Floats) -> list[Floats]:
    """Returns the generator's arrays in Keras order."""
    views = flat.views(buffer)
    return [views[name] for name in sorted(views) if name.startswith(_EXCHANGED[0])]


@dataclass
class Child:
    """The leader of a worker, or a master below rank 0, as its master knows it.

    `clock` is that of the centre that it fetched last. `ended_with` has the steps that it saved at its end,
    as in `Tag.DONE`; empty while it trains.
    """

    rank: int
    workers: tuple[int, ...]
    silence: Silence
    clock: int = 0
    updates: int = 0
    ended_with: list[int] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return bool(self.ended_with)

    @property
    def name(self) -> str:
        """What it is, for messages."""
        if len(self.workers) == 1:
            return f"worker {self.workers[0]} (rank {self.rank})"
        return f"the master of workers {self.workers[0]} to {self.workers[-1]} (rank {self.rank})"

    @property
    def is_steady(self) -> bool:
        """Whether the time between its messages is that of its steps: it traces and compiles in the first."""
        return self.updates > 1


class Centre:
    """Weights of a master, and their exponential average for presets with an averaged generator.

    The clock counts the updates applied so far by this process.
    """

    def __init__(
        self, weights: Floats, trainable: int, average: Floats | None = None, *, decay: float = 0.0
    ) -> None:
        """Prepares a centre whose leading `trainable` values are trained."""
        self.weights, self.average, self.clock = weights, average, 0
        self._trainable, self._decay = trainable, decay
        self._scratch = np.empty(trainable if decay else 0, np.float32)

    def move(self, rule: UpdateRule, sent: Floats, staleness: int, steps: int) -> None:
        """Applies what a worker sent after `steps` steps."""
        rule.at_master(self.weights, sent, staleness)
        self.clock += not rule.pending
        if self.average is None:
            return
        k = self._trainable
        np.subtract(self.weights[:k], self.average[:k], out=self._scratch)
        self._scratch *= np.float32(1 - self._decay**steps)
        self.average[:k] += self._scratch
        self.average[k:] = self.weights[k:]  # statistics are averages already


@dataclass
class Point:
    """The centre at one moment, until all ranks below have saved.

    Attributes:
        step: Steps of all workers below together.
        weights: Of the centre.
        average: Of the centre; None without averaging.
        rule: Arrays of the master's update rule.
        epoch: Epoch to validate with this point; None: none.
        recalibrates: Whether the first worker fits statistics of the average.
        asked: Ranks that were asked to save.
        saved: Ranks that have saved.
        worker_steps: Own steps of the workers that have saved, by number.
        master_steps: Steps of the masters below that have saved, by rank.
        inference: Arrays of the averaged generator with fitted statistics, in Keras order; None until
            the first worker has sent them.
        written: Path and size of the checkpoint, and seconds of writing it; None until it was
            written. The point stays open until it is copied.
    """

    step: int
    weights: Floats
    average: Floats | None
    rule: State
    epoch: int | None = None
    recalibrates: bool = False
    asked: set[int] = field(default_factory=set)
    saved: set[int] = field(default_factory=set)
    worker_steps: dict[int, int] = field(default_factory=dict)
    master_steps: dict[int, int] = field(default_factory=dict)
    inference: Floats | None = None
    written: tuple[Path, int, float] | None = None

    @classmethod
    def of(cls, centre: Centre, rule: UpdateRule, step: int) -> Point:
        """Copies the present centre."""
        average = None if centre.average is None else centre.average.copy()
        state = {name: array.copy() for name, array in rule.state().items()}
        return cls(step, centre.weights.copy(), average, state)

    def save(self, child: Child, steps: Iterable[float]) -> None:
        """Notes that a child has saved."""
        found = [int(step) for step in steps]
        if len(found) > len(child.workers):
            self.master_steps[child.rank] = found.pop(0)
        self.worker_steps |= zip(child.workers, found, strict=True)
        self.saved.add(child.rank)
