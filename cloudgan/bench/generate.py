"""Measures a generator's showers per second beside those of the parametric source, in turns."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.bench.spread import Spread, paired, spread
from cloudgan.bench.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.core.progress import Progress

GENERATOR, PARAMETRIC = "generator", "parametric source"
_ROUND_SECONDS = 0.5
_SHOWERS_OF_A_STREAM = 50  # what the parametric source draws at once


class Making(NamedTuple):
    """One turn of a source, wall and CPU seconds for one shower."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Source:
    """Something that makes showers, and its rounds.

    Attributes:
        name: What it is.
        showers_per_round: How many it made in each.
        rounds: In their order.
    """

    name: str
    showers_per_round: int
    rounds: Sequence[Making]

    @property
    def showers_per_second(self) -> Spread:
        """Of wall time."""
        return spread([1 / one.seconds for one in self.rounds])

    @property
    def showers_per_cpu_second(self) -> Spread:
        """Of CPU time, which other work on the machine hardly changes."""
        return spread([1 / one.cpu_seconds for one in self.rounds])

    def as_json(self) -> dict[str, Any]:
        """By name."""
        return {
            "name": self.name,
            "showers_per_round": self.showers_per_round,
            "showers_per_second": self.showers_per_second.as_json(),
            "showers_per_cpu_second": self.showers_per_cpu_second.as_json(),
            "rounds": [one._asdict() for one in self.rounds],
        }


@dataclass(frozen=True)
class GenerateResult:
    """All that was measured; the generator comes first.

    Attributes:
        preset: Of the generator.
        cells: Of a shower, for all sources.
        threads: That each source may use.
        core: The one that all of them share; None where each has any.
        sources: Generator, then what it is compared with.
        interrupted: Whether Ctrl-C ended it early.
    """

    preset: str
    cells: tuple[int, int, int]
    threads: int
    core: int | None
    sources: tuple[Source, ...]
    interrupted: bool

    def ratio(self, source: Source) -> Spread:
        """Seconds of a shower of `source` over those of the generator, pairs of one round."""
        own = [one.seconds for one in self.sources[0].rounds]
        return paired([one.seconds for one in source.rounds], own)

    def as_json(self) -> dict[str, Any]:
        """By name; `ratio` is how many times faster the generator is than each other source."""
        return {
            "preset": self.preset,
            "cells": list(self.cells),
            "threads": self.threads,
            "core": self.core,
            "interrupted": self.interrupted,
            "sources": [source.as_json() for source in self.sources],
            "ratio": {one.name: self.ratio(one).as_json() for one in self.sources[1:]},
        }


def measure_generate(
    preset: str, run: str | None, *, batch: int, threads: int, rounds: int, progress: Progress
) -> GenerateResult:
    """Lets the generator and the parametric source make showers in turns.

    With one thread all share one core, where the system can say so.

    Args:
        preset: Whose generator, where no run is named.
        run: Folder of a run, whose newest checkpoint is loaded.
        batch: Showers that the generator makes at a time.
        threads: That TensorFlow may use; the parametric source has one.
        rounds: How many turns each has.
        progress: Shows the turns.

    Raises:
        DataError: The run has no checkpoint.
        CloudganError: A process died, or not one round was finished.
    """
    core = _core() if threads == 1 else None
    with ExitStack() as stack:
        progress.start("building the generator")
        asked = {"preset": preset, "run": run, "batch": batch, "threads": threads}
        generator = stack.enter_context(MeasuringProcess(GENERATOR))
        generator.ask("begin", work="generate", core=core, **asked)
        built = generator.ask("describe")
        parametric = stack.enter_context(MeasuringProcess(PARAMETRIC))
        parametric.ask("begin", work="simulate", core=core, cells=built["cells"][:2])
        sizes = {
            GENERATOR: _showers_per_round(generator, batch),
            PARAMETRIC: _showers_per_round(parametric, _SHOWERS_OF_A_STREAM),
        }
        turns = Turns(
            {
                name: partial(_turn, process, sizes[name], numbers(2))
                for name, process in ((GENERATOR, generator), (PARAMETRIC, parametric))
            }
        )
        turns.take(rounds, progress)
    x, y, z = built["cells"]
    return GenerateResult(
        *(built["preset"], (x, y, z), threads, core),
        sources=tuple(Source(name, sizes[name], taken) for name, taken in turns.taken.items()),
        interrupted=turns.interrupted,
    )


def _showers_per_round(process: MeasuringProcess, least: int) -> int:
    """Warms up, then finds how many showers last half a second, a multiple of `least`."""
    process.ask("round", count=least, seed=0)
    seconds: float = least * process.ask("round", count=least, seed=1)["seconds"]
    return least * max(1, math.ceil(_ROUND_SECONDS / seconds))


def _turn(process: MeasuringProcess, count: int, seeds: Iterator[int]) -> Making:
    return Making(**process.ask("round", count=count, seed=next(seeds)))


def _core() -> int | None:
    """The last core that we may use; None where nobody can be bound to one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(affinity(0)) if affinity else None
