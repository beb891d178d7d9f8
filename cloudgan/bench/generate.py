"""Measures a generator's showers per second beside those of the simulations, in turns."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.bench.spread import Spread, paired, spread
from cloudgan.bench.turns import Turns
from cloudgan.core.errors import ConfigError
from cloudgan.core.settings import geant4_data
from cloudgan.simulation.geant4.farm import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.core.progress import Progress

GENERATOR, PARAMETRIC, GEANT4 = "generator", "parametric source", "Geant4"
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
    def seconds_per_shower(self) -> Spread:
        """Of wall time."""
        return spread([one.seconds for one in self.rounds])

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
            "seconds_per_shower": self.seconds_per_shower.as_json(),
            "showers_per_second": self.showers_per_second.as_json(),
            "showers_per_cpu_second": self.showers_per_cpu_second.as_json(),
            "rounds": [one._asdict() for one in self.rounds],
        }


@dataclass(frozen=True)
class GenerateResult:
    """All that was measured; the generator comes first.

    Attributes:
        preset: Of the generator.
        cells: Of a shower of the generator and of the parametric source; Geant4 always simulates
            75 x 75 x 25.
        energy_gev: Range of the electrons, for all sources.
        threads: That each source may use.
        core: The one that all of them share; None where each has any.
        sources: Generator, then what it is compared with.
        interrupted: Whether Ctrl-C ended it early.
        left_out: Why Geant4 is not among them; empty where it is.
    """

    preset: str
    cells: tuple[int, int, int]
    energy_gev: tuple[float, float]
    threads: int
    core: int | None
    sources: tuple[Source, ...]
    interrupted: bool
    left_out: str = ""

    def ratio(self, source: Source) -> Spread:
        """Seconds of a shower of `source` over those of the generator, pairs of one round."""
        own = [one.seconds for one in self.sources[0].rounds]
        return paired([one.seconds for one in source.rounds], own)

    def as_json(self) -> dict[str, Any]:
        """By name; `ratio` is how many times faster the generator is than each other source."""
        return {
            "preset": self.preset,
            "cells": list(self.cells),
            "energy_gev": list(self.energy_gev),
            "threads": self.threads,
            "core": self.core,
            "interrupted": self.interrupted,
            "left_out": self.left_out,
            "sources": [source.as_json() for source in self.sources],
            "ratio": {one.name: self.ratio(one).as_json() for one in self.sources[1:]},
        }


class Asked(NamedTuple):
    """What is measured.

    Attributes:
        preset: Whose generator, where no run is named.
        run: Folder of a run, whose newest checkpoint is loaded.
        batch: Showers that the generator makes at a time.
        threads: That TensorFlow may use; the simulations have one.
        energy_gev: Range of the electrons.
    """

    preset: str
    run: str | None
    batch: int
    threads: int
    energy_gev: tuple[float, float]


def measure_generate(asked: Asked, *, rounds: int, progress: Progress) -> GenerateResult:
    """Lets the generator, the parametric source and Geant4 make showers in turns.

    With one thread all share one core, where the system can say so.

    Args:
        asked: What is measured.
        rounds: How many turns each has.
        progress: Shows the turns.

    Raises:
        DataError: The run has no checkpoint.
        CloudganError: A process died, or not one round was finished.
    """
    core = _core() if asked.threads == 1 else None
    energy_gev = list(asked.energy_gev)
    with ExitStack() as stack:
        progress.start("building the generator")
        generator = stack.enter_context(MeasuringProcess(GENERATOR))
        generator.ask("begin", work="generate", core=core, **asked._asdict())
        built = generator.ask("describe")
        parametric = stack.enter_context(MeasuringProcess(PARAMETRIC))
        cells = built["cells"][:2]
        parametric.ask("begin", work="simulate", core=core, cells=cells, energy_gev=energy_gev)
        sources = {
            GENERATOR: _sized(generator, asked.batch),
            PARAMETRIC: _sized(parametric, _SHOWERS_OF_A_STREAM),
        }
        tables, left_out = usable_tables(stack, progress)
        if tables:
            geant4 = stack.enter_context(MeasuringProcess(GEANT4))
            given = {"tables": tables, "energy_gev": energy_gev}
            geant4.ask("begin", work="geant4", core=core, **given)
            sources[GEANT4] = _sized(geant4, 1)
        turns = Turns(
            {name: partial(_turn, *source, numbers(2)) for name, source in sources.items()}
        )
        turns.take(rounds, progress)
    x, y, z = built["cells"]
    return GenerateResult(
        *(built["preset"], (x, y, z), asked.energy_gev, asked.threads, core),
        sources=tuple(Source(name, sources[name][1], taken) for name, taken in turns.taken.items()),
        interrupted=turns.interrupted,
        left_out=left_out,
    )


def usable_tables(stack: ExitStack, progress: Progress) -> tuple[dict[str, str] | None, str]:
    """Returns what Geant4 reads, there while `stack` is open; else None and why it is left out."""
    progress.start("preparing Geant4")
    folder = stack.enter_context(TemporaryDirectory(prefix="cloudgan-"))
    try:
        return prepare(Path(folder), geant4_data()).tables.as_json(), ""
    except ModuleNotFoundError as error:
        return None, f"the package {error.name} is missing: pip install 'cloudgan[geant4]'"
    except ConfigError as error:
        return None, str(error)


def _sized(process: MeasuringProcess, least: int) -> tuple[MeasuringProcess, int]:
    """Warms up, then finds how many showers last half a second, a multiple of `least`."""
    process.ask("round", count=least, seed=0)
    seconds: float = least * process.ask("round", count=least, seed=1)["seconds"]
    return process, least * max(1, math.ceil(_ROUND_SECONDS / seconds))


def _turn(process: MeasuringProcess, count: int, seeds: Iterator[int]) -> Making:
    return Making(**process.ask("round", count=count, seed=next(seeds)))


def _core() -> int | None:
    """The last core that we may use; None where nobody can be bound to one."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(affinity(0)) if affinity else None
