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

from cloudgan.bench.measurement import Rounds, Spread, paired, spread
from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.core.errors import ConfigError
from cloudgan.core.settings import geant4_data
from cloudgan.simulation.geant4.workers import prepare_geant4

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cloudgan.core.progress import Progress

GENERATOR, PARAMETRIC, GEANT4 = "generator", "parametric source", "Geant4"
_ROUND_SECONDS = 0.5
_SHOWERS_OF_A_STREAM = 50  # block size of the parametric source


class GenerateRound(NamedTuple):
    """One turn of a source: wall and CPU seconds per shower."""

    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Source:
    """A source of showers, and its rounds.

    Attributes:
        name: Name of the source.
        showers_per_round: Showers of each round.
        rounds: In order.
    """

    name: str
    showers_per_round: int
    rounds: Sequence[GenerateRound]

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
        """Returns all results by name."""
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
    """All measurements; the generator comes first.

    Attributes:
        preset: Of the generator.
        cells: Of a shower of the generator and of the parametric source; Geant4 always simulates
            75 x 75 x 25.
        energy_gev: Range of the electrons, for all sources.
        threads: Of each source.
        core: The core that all share; None: not pinned.
        sources: Generator, then the simulations.
        interrupted: Whether Ctrl-C ended it early.
        left_out: Why Geant4 is missing; empty if it is included.
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


class GenerateRequest(NamedTuple):
    """What to measure.

    Attributes:
        preset: Of the generator, without a run.
        run: Folder of a run; its newest checkpoint is loaded.
        batch: Showers per call of the generator.
        threads: Of TensorFlow; the simulations use one.
        energy_gev: Range of the electrons.
    """

    preset: str
    run: str | None
    batch: int
    threads: int
    energy_gev: tuple[float, float]


def measure_generate(asked: GenerateRequest, *, rounds: int, progress: Progress) -> GenerateResult:
    """Measures the generator, the parametric source and Geant4 in turns.

    With one thread all are pinned to one core, if the system supports it.

    Args:
        asked: What to measure.
        rounds: Measurements of each.
        progress: Progress of the rounds.

    Raises:
        DataError: The run has no checkpoint.
        CloudganError: A process died, or no round was completed.
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
            GENERATOR: _calibrate_count(generator, asked.batch),
            PARAMETRIC: _calibrate_count(parametric, _SHOWERS_OF_A_STREAM),
        }
        tables, left_out = usable_tables(stack, progress)
        if tables:
            geant4 = stack.enter_context(MeasuringProcess(GEANT4))
            given = {"tables": tables, "energy_gev": energy_gev}
            geant4.ask("begin", work="geant4", core=core, **given)
            sources[GEANT4] = _calibrate_count(geant4, 1)
        rounds_run = Rounds(
            {name: partial(_turn, *source, numbers(2)) for name, source in sources.items()}
        )
        rounds_run.run(rounds, progress)
    x, y, z = built["cells"]
    return GenerateResult(
        *(built["preset"], (x, y, z), asked.energy_gev, asked.threads, core),
        sources=tuple(
            Source(name, sources[name][1], taken) for name, taken in rounds_run.results.items()
        ),
        interrupted=rounds_run.interrupted,
        left_out=left_out,
    )


def usable_tables(stack: ExitStack, progress: Progress) -> tuple[dict[str, str] | None, str]:
    """Returns the Geant4 tables, valid while `stack` is open, or None and the reason."""
    progress.start("preparing Geant4")
    folder = stack.enter_context(TemporaryDirectory(prefix="cloudgan-"))
    try:
        return prepare_geant4(Path(folder), geant4_data()).tables.as_json(), ""
    except ModuleNotFoundError as error:
        return None, f"the package {error.name} is missing: pip install 'cloudgan[geant4]'"
    except ConfigError as error:
        return None, str(error)


def _calibrate_count(process: MeasuringProcess, least: int) -> tuple[MeasuringProcess, int]:
    """Warms up, then returns the showers per half second, a multiple of `least`."""
    process.ask("round", count=least, seed=0)
    seconds: float = least * process.ask("round", count=least, seed=1)["seconds"]
    return process, least * max(1, math.ceil(_ROUND_SECONDS / seconds))


def _turn(process: MeasuringProcess, count: int, seeds: Iterator[int]) -> GenerateRound:
    return GenerateRound(**process.ask("round", count=count, seed=next(seeds)))


def _core() -> int | None:
    """Returns the last available core; None if pinning is not supported."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(affinity(0)) if affinity else None
