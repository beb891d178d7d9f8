"""Measures a generator's showers per second beside those of the simulations, in turns."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.bench.measurement import Rounds, Spread, paired, spread
from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.core.errors import ConfigError, install_command
from cloudgan.core.hardware import this_machine
from cloudgan.core.settings import geant4_data
from cloudgan.reports.table import Table
from cloudgan.simulation.geant4.engine import PLANE_CELLS
from cloudgan.simulation.geant4.workers import prepare_geant4

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cloudgan.core.progress import Progress

GENERATOR, ONNX = "generator, TensorFlow", "generator, ONNX Runtime"
PARAMETRIC, GEANT4 = "parametric source", "Geant4"
_ROUND_SECONDS = 0.5
_SHOWERS_OF_A_STREAM = 50  # block size of the parametric source
_SINGLE_SHOWERS = 5
_ONNX_PACKAGES = ("onnx", "onnxruntime")

RECORDED_SECONDS_PER_GEV = 0.0098
RECORDED = "recorded: Geant4 11.4.1, 0.0098 s of one core per GeV, November 2026"
"""Used where Geant4 cannot run: 200 electrons of 10 GeV, 60 of 50 GeV, range cut 0.7 mm."""


class GenerateRound(NamedTuple):
    """One turn of a source: wall and CPU seconds per shower, then those of a request for one shower."""

    seconds: float
    cpu_seconds: float
    latency_seconds: float
    latency_cpu_seconds: float


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

    @property
    def latency_seconds(self) -> Spread:
        """Of wall time of a request for one shower."""
        return spread([one.latency_seconds for one in self.rounds])

    @property
    def latency_cpu_seconds(self) -> Spread:
        """Of CPU time of a request for one shower."""
        return spread([one.latency_cpu_seconds for one in self.rounds])

    def as_json(self) -> dict[str, Any]:
        """Returns all results by name."""
        return {
            "name": self.name,
            "showers_per_round": self.showers_per_round,
            "seconds_per_shower": self.seconds_per_shower.as_json(),
            "showers_per_second": self.showers_per_second.as_json(),
            "showers_per_cpu_second": self.showers_per_cpu_second.as_json(),
            "latency_seconds": self.latency_seconds.as_json(),
            "latency_cpu_seconds": self.latency_cpu_seconds.as_json(),
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
        threads: Of each generator.
        core: The core that all share; None: not pinned.
        sources: Generators, then the simulations.
        interrupted: Whether Ctrl-C ended it early.
        left_out: Reason by name of each source that is missing.
    """

    preset: str
    cells: tuple[int, int, int]
    energy_gev: tuple[float, float]
    threads: int
    core: int | None
    sources: tuple[Source, ...]
    interrupted: bool
    left_out: Mapping[str, str]

    def times_geant4(self, source: Source, *, cpu: bool = False) -> Spread:
        """How many times as fast as Geant4 a source is, pairs of one round.

        Without Geant4 in the run, its recorded time is compared; `is_recorded` says so.

        Args:
            source: One of `sources`.
            cpu: By CPU time, not wall time.
        """
        column = 1 if cpu else 0
        own = [one[column] for one in source.rounds]
        for other in self.sources:
            if other.name == GEANT4:
                return paired([one[column] for one in other.rounds], own)
        recorded = RECORDED_SECONDS_PER_GEV * sum(self.energy_gev) / 2
        return spread([recorded / seconds for seconds in own])

    @property
    def is_recorded(self) -> bool:
        """Whether the time of Geant4 is a recorded one."""
        return all(source.name != GEANT4 for source in self.sources)

    def as_json(self) -> dict[str, Any]:
        """By name, with the ratios to Geant4 of each source."""
        ratios = ("times_geant4", False), ("times_geant4_cpu", True)
        return {
            "preset": self.preset,
            "cells": list(self.cells),
            "energy_gev": list(self.energy_gev),
            "threads": self.threads,
            "core": self.core,
            "interrupted": self.interrupted,
            "left_out": dict(self.left_out),
            "geant4": RECORDED if self.is_recorded else "measured in this run",
            "sources": [
                source.as_json()
                | {name: self.times_geant4(source, cpu=cpu).as_json() for name, cpu in ratios}
                for source in self.sources
            ],
        }


def generate_table(result: GenerateResult) -> Table:
    """Returns a row per source."""
    rows = tuple(
        (
            *(one.name, one.showers_per_second.median, result.times_geant4(one).describe()),
            *(result.times_geant4(one, cpu=True).median, one.showers_per_cpu_second.median),
            *(1000 * one.latency_seconds.median, 1000 * one.latency_cpu_seconds.median),
        )
        for one in result.sources
    )
    x, y, z = result.cells
    low, high = result.energy_gev
    energy = f"{low:g} GeV" if low == high else f"{low:g} to {high:g} GeV"
    where = "sharing one core" if result.core is not None else f"{result.threads} threads"
    caption = (
        f"{result.preset}, {x}x{y}x{z} cells, electrons of {energy}, {where},"
        f" {this_machine().describe()}. Medians (least to most) of"
        f" {len(result.sources[0].rounds)} rounds in turns."
    )
    if any(one.name == GEANT4 for one in result.sources):
        caption += f" Geant4 simulates {PLANE_CELLS}x{PLANE_CELLS}x25 cells for any preset."
    columns = (
        *("source", "showers/s", "times Geant4", "by CPU time", "showers/CPU s"),
        *("one shower, ms", "CPU ms"),
    )
    return Table(columns, rows, caption, "lrlrrrr")


class GenerateRequest(NamedTuple):
    """What to measure.

    Attributes:
        preset: Of the generator, without a run.
        run: Folder of a run; its newest checkpoint is loaded.
        batch: Showers per call of the generators; None: as `generate`.
        threads: Of TensorFlow and ONNX Runtime; the simulations use one.
        energy_gev: Range of the electrons.
    """

    preset: str
    run: str | None
    batch: int | None
    threads: int
    energy_gev: tuple[float, float]


def measure_generate(asked: GenerateRequest, *, rounds: int, progress: Progress) -> GenerateResult:
    """Measures the generator in TensorFlow and in ONNX Runtime, the parametric source and Geant4 in turns.

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
    left_out: dict[str, str] = {}
    with ExitStack() as stack:

        def begin(name: str, work: str, **given: Any) -> MeasuringProcess:
            process = stack.enter_context(MeasuringProcess(name))
            process.ask("begin", work=work, core=core, energy_gev=energy_gev, **given)
            return process

        progress.start("building the generator")
        given: dict[str, Any] = {
            "preset": asked.preset,
            "run": asked.run,
            "batch": asked.batch,
            "threads": asked.threads,
        }
        generator = begin(GENERATOR, "generate", **given)
        built = generator.ask("describe")
        sources = {GENERATOR: _calibrate_count(generator, built["batch"])}
        if missing := [name for name in _ONNX_PACKAGES if find_spec(name) is None]:
            command = install_command("export")
            left_out[ONNX] = f"the package {missing[0]} is missing; run {command}"
        else:
            exported = begin(ONNX, "onnx", **given | {"batch": built["batch"]})
            sources[ONNX] = _calibrate_count(exported, built["batch"])
        parametric = begin(PARAMETRIC, "simulate", cells=built["cells"][:2])
        sources[PARAMETRIC] = _calibrate_count(parametric, _SHOWERS_OF_A_STREAM)
        tables, reason = usable_tables(stack, progress)
        if tables:
            sources[GEANT4] = _calibrate_count(begin(GEANT4, "geant4", tables=tables), 1)
        else:
            left_out[GEANT4] = reason
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
        return None, f"the package {error.name} is missing; run {install_command('geant4')}"
    except ConfigError as error:
        return None, str(error)


def _calibrate_count(process: MeasuringProcess, least: int) -> tuple[MeasuringProcess, int]:
    """Warms up, then returns the showers per half second, a multiple of `least`."""
    process.ask("round", count=least, seed=0)
    process.ask("latency", count=1, seed=0)
    seconds: float = least * process.ask("round", count=least, seed=1)["seconds"]
    return process, least * max(1, math.ceil(_ROUND_SECONDS / seconds))


def _turn(process: MeasuringProcess, count: int, seeds: Iterator[int]) -> GenerateRound:
    taken = process.ask("round", count=count, seed=next(seeds))
    if count == 1:  # Geant4: a round is a request for one shower
        return GenerateRound(*taken.values(), *taken.values())
    single = process.ask("latency", count=_SINGLE_SHOWERS, seed=next(seeds))
    return GenerateRound(*taken.values(), *single.values())


def _core() -> int | None:
    """Returns the last available core; None if pinning is not supported."""
    affinity = getattr(os, "sched_getaffinity", None)
    return max(affinity(0)) if affinity else None
