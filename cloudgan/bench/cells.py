"""Speed-up of grids of cells: one core against a rank per cell, measured here or predicted.

The engine `one` runs pinned to one core, the engine `ranks` with a rank per cell and a master, each as
a process of `cloudgan evolve`, in turns. Times are those of the records: of an iteration, without the
first, which traces the networks, and without start-up.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloudgan.bench.measurement import Rounds, paired, spread
from cloudgan.bench.training_program import core_shares, pinned, run_program
from cloudgan.coevolution.cell_files import GridFolder
from cloudgan.core.errors import CloudganError
from cloudgan.core.hardware import this_machine
from cloudgan.schema.cell_line import ROUTINES, WAIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.bench.measurement import Spread
    from cloudgan.coevolution.grid import Grid
    from cloudgan.core.progress import Progress
    from cloudgan.schema.cell_line import CellLine
    from cloudgan.schema.coevolution import Engine

_MEASURED_CELLS = 4
"""Grids of more cells than this, and than there are cores, are predicted."""


@dataclass(frozen=True)
class Workload:
    """What each cell does with the ring.

    Attributes:
        iterations: At least two: the first one traces.
        batches: Per iteration.
        batch: Samples per batch.
    """

    iterations: int = 4
    batches: int = 50
    batch: int = 100


@dataclass(frozen=True)
class EngineRun:
    """Seconds of one run of an engine, medians over its iterations.

    Attributes:
        iteration: Of an iteration of the whole grid.
        slowest: Of its slowest cell, without gather and wait.
        exchange: Least gather of a cell.
        routines: By routine, and `wait` for the slowest cell: of all cells for `one`, of a cell (mean)
            for `ranks`.
    """

    iteration: float
    slowest: float
    exchange: float
    routines: dict[str, float]


@dataclass(frozen=True)
class GridSpeed:
    """One grid: runs of one core, and runs of ranks or their prediction.

    Attributes:
        grid: Its size.
        one: Runs on one core.
        ranks: Runs of a rank per cell; empty: predicted.
        predicted: Seconds of an iteration with a core per cell.
    """

    grid: Grid
    one: Sequence[EngineRun]
    ranks: Sequence[EngineRun]
    predicted: float

    @property
    def name(self) -> str:
        """Such as ``2x2``."""
        return f"{self.grid.rows}x{self.grid.columns}"

    @property
    def single(self) -> Spread:
        """Seconds of an iteration on one core."""
        return spread([run.iteration for run in self.one])

    @property
    def distributed(self) -> Spread | None:
        """Measured seconds of an iteration of ranks; None: predicted only."""
        return spread([run.iteration for run in self.ranks]) if self.ranks else None

    @property
    def speedup(self) -> Spread | None:
        """Of ranks, pairs of one round; None: predicted only."""
        if not self.ranks:
            return None
        return paired([run.iteration for run in self.one], [run.iteration for run in self.ranks])

    @property
    def predicted_speedup(self) -> float:
        """With a core per cell."""
        return self.single.median / self.predicted


@dataclass(frozen=True)
class CellsResult:
    """All grids, in the order of their size."""

    workload: Workload
    cores: int
    grids: tuple[GridSpeed, ...]
    interrupted: bool


def is_measured(grid: Grid, cores: int) -> bool:
    """Returns whether ranks of the grid are started here, and not predicted only."""
    return grid.cells <= max(_MEASURED_CELLS, cores)


def measure_cells(
    grids: Sequence[Grid], workload: Workload, *, rounds: int, progress: Progress
) -> CellsResult:
    """Runs `cloudgan evolve` for each grid and engine in turns.

    Args:
        grids: At least one that `is_measured` on this machine.
        workload: Of each cell.
        rounds: Runs of each.
        progress: Shows the runs.

    Raises:
        CloudganError: A run failed, or not one round was finished.
    """
    cores = this_machine().cores
    ordered = sorted(set(grids), key=lambda grid: (grid.cells, grid.rows))
    with tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as name:
        turns = {}
        for grid in ordered:
            engines: list[Engine] = ["one", "ranks"] if is_measured(grid, cores) else ["one"]
            for engine in engines:
                turns[_turn_name(grid, engine)] = partial(_run, grid, engine, workload, Path(name))
        measured = Rounds(turns)
        measured.run(rounds, progress)
    taken = measured.results
    found = {grid: taken.get(_turn_name(grid, "one"), []) for grid in ordered}
    ranks = {grid: taken.get(_turn_name(grid, "ranks"), []) for grid in ordered}
    speeds = tuple(
        GridSpeed(grid, found[grid], ranks[grid], predict(grid, found[grid], ranks))
        for grid in ordered
        if found[grid]
    )
    return CellsResult(workload, cores, speeds, measured.interrupted)


def predict(grid: Grid, one: Sequence[EngineRun], ranks: dict[Grid, list[EngineRun]]) -> float:
    """Predicts the seconds of an iteration with a core per cell.

    A synchronous grid waits for its slowest cell, whose seconds are measured on one core; to that comes
    the exchange of the smallest measured grid, in proportion to the neighbours.

    Args:
        grid: Predicted.
        one: Its runs on one core.
        ranks: Runs of ranks by grid.
    """
    slowest = statistics.median(run.slowest for run in one)
    for known, runs in ranks.items():
        if runs:
            exchange = statistics.median(run.exchange for run in runs)
            return slowest + exchange * _neighbours(grid) / max(1, _neighbours(known))
    return slowest


def _neighbours(grid: Grid) -> int:
    return len(grid.neighbours(0, "von_neumann"))


def _turn_name(grid: Grid, engine: Engine) -> str:
    return f"{grid.rows}x{grid.columns} {engine}"


def _run(grid: Grid, engine: Engine, workload: Workload, folder: Path) -> EngineRun:
    """Runs `cloudgan evolve` once and reads its records."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place)
        words = (
            *("evolve", f"--run={path / 'run'}", f"--grid={grid.rows}x{grid.columns}"),
            *("--task=ring", f"--engine={engine}", "--threads=1", "--json"),
            "--neighbourhood=von_neumann",
            *(f"--iterations={workload.iterations}", f"--batches={workload.batches}"),
            f"--batch={workload.batch}",
        )
        if engine == "one":
            with pinned(core_shares(this_machine().cores)[0]):
                run_program(words, path / "log")
        else:
            run_program(words, path / "log")
        files = GridFolder(path / "run", grid)
        return summarize(engine, [files.cell(number).lines() for number in range(grid.cells)])


def summarize(engine: Engine, records: Sequence[Sequence[CellLine]]) -> EngineRun:
    """Returns the seconds of a run from the records of its cells.

    Raises:
        CloudganError: A cell has fewer than two iterations.
    """
    steady = [record[1:] for record in records]
    if not all(steady):
        raise CloudganError("the first iteration was the only one; give --iterations=2 or more")
    rows = list(zip(*steady, strict=True))
    iterations, slowest, exchange = [], [], []
    routines: dict[str, list[float]] = {name: [] for name in (*ROUTINES, WAIT)}
    for row in rows:
        cells = [line.seconds for line in row]
        totals = [sum(seconds.values()) for seconds in cells]
        iterations.append(sum(totals) if engine == "one" else max(totals))
        apart = [s["gather"] + s.get(WAIT, 0.0) for s in cells]
        slowest.append(max(t - other for t, other in zip(totals, apart, strict=True)))
        exchange.append(min(seconds["gather"] for seconds in cells))
        for name, values in routines.items():
            spent = [seconds.get(name, 0.0) for seconds in cells]
            values.append(sum(spent) if engine == "one" else statistics.fmean(spent))
    return EngineRun(
        statistics.median(iterations),
        statistics.median(slowest),
        statistics.median(exchange),
        {name: statistics.median(values) for name, values in routines.items()},
    )


def speed_json(speed: GridSpeed) -> dict[str, Any]:
    """Returns the figures of one grid."""
    distributed, speedup = speed.distributed, speed.speedup
    return {
        "grid": speed.name,
        "cells": speed.grid.cells,
        "single_core_seconds": speed.single.as_json(),
        "distributed_seconds": distributed.as_json() if distributed else None,
        "speedup": speedup.as_json() if speedup else None,
        "predicted": {
            "cores": speed.grid.cells,
            "seconds": speed.predicted,
            "speedup": speed.predicted_speedup,
        },
        "routines": {
            "single_core": mean_routines(speed.one),
            "distributed": mean_routines(speed.ranks) if speed.ranks else None,
        },
    }


def mean_routines(runs: Sequence[EngineRun]) -> dict[str, float]:
    """Returns the mean over runs by routine, of the wait, and overall."""
    names = (*ROUTINES, WAIT)
    means = {name: statistics.fmean(run.routines[name] for run in runs) for name in names}
    return means | {"overall": sum(means.values())}
