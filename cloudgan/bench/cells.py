"""`bench cells`: speed-up of grids of cells, one core against a rank per cell, measured here or predicted.

The engine `one` runs pinned to one core, the engine `ranks` with a rank per cell and a master, each as a process of
`cloudgan evolve`, in turns. Times are those of the records: of an iteration, without the first, which traces the
networks, and without start-up. The figures of Perez et al. 2020, arXiv:2004.04633, stand beside ours.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from cloudgan.bench.harness import Measured, Measurement, Row, in_turns
from cloudgan.bench.processes import core_shares, program, run_programs
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import Grid
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.reports.table import Cell, Number, Table
from cloudgan.schema.coevolution import ROUTINES, WAIT, CellLine, Engine
from cloudgan.schema.options.bench import BenchCellsOptions

_MEASURED_CELLS = 4
"""Grids of more cells than this, and than there are cores, are predicted."""
_TOLERANCE = 1.1
"""A speed-up above the number of cores by more than this factor is none of this program."""


class Published(NamedTuple):
    """Published times on one core and distributed, and their ratio."""

    single: float
    distributed: float
    speedup: float


PUBLISHED = {
    "2x2": Published(339.6, 39.81, 8.53),
    "3x3": Published(999.5, 73.24, 13.65),
    "4x4": Published(1920.0, 126.68, 15.17),
}
"""Minutes by grid."""
PUBLISHED_ROUTINES: dict[str, Published | None] = {
    "gather": Published(19.4, 19.4, 1.0),
    "train": Published(264.9, 43.8, 6.05),
    "update_genomes": Published(199.8, 16.8, 11.89),
    "mutate": Published(25.6, 17.9, 1.43),
    "wait": None,
    "overall": Published(509.6, 97.9, 5.21),
}
"""The profile of the routines, which has no waiting of its own."""


def _named(grid: Grid) -> str:
    return f"{grid.rows}x{grid.columns}"


def measure(options: BenchCellsOptions, progress: Progress) -> Measurement:
    """Runs `cloudgan evolve` for each grid and engine in turns."""
    cores = this_machine().cores
    grids = sorted({Grid(*each) for each in options.grids}, key=lambda one: (one.cells, one.rows))
    small = [grid for grid in grids if grid.cells <= max(_MEASURED_CELLS, cores)]
    if not small:
        given = ",".join(f"{rows}x{columns}" for rows, columns in options.grids)
        raise ConfigError(
            f"--grids={given}: the exchange is measured with the ranks of a small grid; add 2x2"
        )
    if find_spec("tensorflow") is None:
        raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")
    engines: dict[str, tuple[Grid, Engine]] = {}
    for grid in grids:
        engines[f"{_named(grid)} one"] = grid, "one"
        if grid in small:
            engines[f"{_named(grid)} ranks"] = grid, "ranks"
    turns = {key: partial(_run, *one, options) for key, one in engines.items()}
    measured, interrupted = in_turns(turns, options.rounds, progress)
    runs = {engines[one.name]: one for one in measured}
    return cells_measurement(options, runs, cores, interrupted)


def _run(grid: Grid, engine: Engine, options: BenchCellsOptions) -> Row:
    """Runs `cloudgan evolve` once and reads its records."""
    with tempfile.TemporaryDirectory(prefix="cloudgan-bench-") as folder:
        run = Path(folder, "run")
        words = (
            *("evolve", f"--run={run}", f"--grid={_named(grid)}", "--task=ring"),
            *(f"--engine={engine}", "--threads=1", "--json", "--neighbourhood=von_neumann"),
            *(f"--iterations={options.iterations}", f"--batches={options.batches}"),
            f"--batch={options.batch}",
        )
        cores = core_shares(this_machine().cores)[0] if engine == "one" else frozenset()
        run_programs(program(*words, cores=cores))
        files = GridFolder(run, grid)
        return summarize(engine, [files.cell(number).lines() for number in range(grid.cells)])


def summarize(engine: Engine, records: Sequence[Sequence[CellLine]]) -> Row:
    """Returns the seconds of a run from the records of its cells: medians over its iterations.

    `iteration_seconds` of the whole grid; `slowest_seconds` of its slowest cell, without gather and wait;
    `exchange_seconds`, the least gather of a cell; and by routine, and `wait` for the slowest cell: of all cells
    for `one`, of a cell (mean) for `ranks`.
    """
    steady = [record[1:] for record in records]
    if not all(steady):
        raise CloudganError("the first iteration was the only one; give --iterations=2 or more")
    rows = []
    for lines in zip(*steady, strict=True):
        cells = [line.seconds for line in lines]
        totals = [sum(seconds.values()) for seconds in cells]
        busy = [sum(s.values()) - s["gather"] - s.get(WAIT, 0.0) for s in cells]
        row = {
            "iteration_seconds": sum(totals) if engine == "one" else max(totals),
            "slowest_seconds": max(busy),
            "exchange_seconds": min(seconds["gather"] for seconds in cells),
        }
        for name in (*ROUTINES, WAIT):
            spent = [seconds.get(name, 0.0) for seconds in cells]
            row[name] = sum(spent) if engine == "one" else statistics.fmean(spent)
        rows.append(row)
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


Runs = Mapping[tuple[Grid, Engine], Measured]
"""Rows of `summarize` by grid and engine."""


def predict(grid: Grid, runs: Runs) -> float:
    """Predicts the seconds of an iteration with a core per cell.

    A synchronous grid waits for its slowest cell, whose seconds are measured on one core; to that comes
    the exchange of the smallest grid that ranks ran, in proportion to the neighbours.
    """

    def neighbours(of: Grid) -> int:
        return len(of.neighbours(0, "von_neumann"))

    slowest = runs[grid, "one"].spread("slowest_seconds").median
    known = next((each for each, engine in runs if engine == "ranks"), None)
    if known is None:
        return slowest
    exchange = runs[known, "ranks"].spread("exchange_seconds").median
    return slowest + exchange * neighbours(grid) / max(1, neighbours(known))


def cells_measurement(
    options: BenchCellsOptions, runs: Runs, cores: int, interrupted: bool = False
) -> Measurement:
    """Returns the two tables of the source with our figures: speed-up of grids, and seconds by routine."""

    def mean(measured: Measured) -> Cell:
        values = measured.values("iteration_seconds")
        middle = statistics.fmean(values)
        error = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else ""
        return Number(middle, f"{middle:.3g}{error}")

    grids, routines, crowded, impossible = [], [], [], []
    rows: list[tuple[Cell, ...]] = []
    speedup = 0.0
    for grid, one in ((each, one) for (each, engine), one in runs.items() if engine == "one"):
        name, ranks, both = _named(grid), runs.get((grid, "ranks")), None
        seconds, predicted = one.spread("iteration_seconds"), predict(grid, runs)
        speedup = seconds.median / predicted
        theirs = f"{PUBLISHED[name].speedup:.2f}" if name in PUBLISHED else "-"
        single, distributed = _by_routine(one), None
        if ranks:
            both = one.ratio("iteration_seconds", ranks)
            used, distributed = min(cores, grid.cells), _by_routine(ranks)
            rows.append((name, "measured", used, mean(one), mean(ranks), both.describe(), theirs))
            routines.append(_routine_table(name, single, distributed))
            crowded += [name] if grid.cells > cores else []
            impossible += [name] if both.median > _TOLERANCE * cores else []
        of_median = tuple(f"{number:.3g}" for number in (seconds.median, predicted, speedup))
        rows.append((name, "predicted", grid.cells, *of_median, theirs))
        found = ranks.spread("iteration_seconds") if ranks else None
        grids.append(
            {
                "grid": name,
                "cells": grid.cells,
                "single_core_seconds": seconds,
                "distributed_seconds": found,
                "speedup": both,
                "predicted": {"cores": grid.cells, "seconds": predicted, "speedup": speedup},
                "routines": {"single_core": single, "distributed": distributed},
            }
        )
    rounds = min(len(one.rows) for (_, engine), one in runs.items() if engine == "one")
    turns = f"mean ± standard deviation of {rounds} rounds in turns" if rounds > 1 else "one round"
    caption = (
        f"Seconds per iteration: ring, {options.batches} batches of {options.batch} per cell; {turns},"
        f" {this_machine().describe()}. Predicted: medians, with a core per cell: from the slowest cell"
        " on one core and the measured exchange; not measured."
    )
    heads = (
        *("grid", "kind", "cores of ranks", "single core s", "distributed s"),
        *("speed-up", "published speed-up"),
    )
    why = _explanation(crowded, impossible, cores)
    last = f"{grids[-1]['grid']}: {speedup:.3g} times as fast with a core per cell, predicted"
    return Measurement(
        title="What does a grid of cells gain from a core per cell?",
        task="ring",
        iterations=options.iterations,
        batches=options.batches,
        batch=options.batch,
        cores=cores,
        grids=grids,
        published={
            "grids": {name: one._asdict() for name, one in PUBLISHED.items()},
            "routines": {name: one._asdict() for name, one in PUBLISHED_ROUTINES.items() if one},
            "source": "arXiv:2004.04633",
        },
        explanation=why,
        interrupted=interrupted,
        lines=(last, why),
        tables=(Table(heads, tuple(rows), caption, "llrrrrr"), *routines),
    )


def _by_routine(measured: Measured) -> dict[str, float]:
    """Returns the mean over runs by routine, of the wait, and overall."""
    means = {name: statistics.fmean(measured.values(name)) for name in (*ROUTINES, WAIT)}
    return means | {"overall": sum(means.values())}


def _routine_table(
    grid: str, single: Mapping[str, float], distributed: Mapping[str, float]
) -> Table:
    """Returns the seconds by routine of a grid that was measured, beside the published minutes."""
    rows: list[dict[str, Cell]] = []
    for name, theirs in PUBLISHED_ROUTINES.items():
        a, b = single[name], distributed[name]
        rows.append(
            {
                "routine": name,
                "single core s": f"{a:.4g}",
                "distributed s": f"{b:.4g}",
                "speed-up": f"{a / b:.3g}" if a and b else "-",
                "published single": f"{theirs.single:g}" if theirs else "-",
                "published distributed": f"{theirs.distributed:g}" if theirs else "-",
                "published speed-up": f"{theirs.speedup:.2f}" if theirs else "-",
            }
        )
    caption = (
        f"{grid}: seconds per iteration, of all cells on one core and of a cell (mean) among"
        " ranks, which wait for the slowest cell. Published in the source's unit."
    )
    return Table.of(rows, caption, align="lrrrrrr")


def _explanation(crowded: Sequence[str], impossible: Sequence[str], cores: int) -> str:
    """Returns why the published speed-ups are not to be expected, and what disturbed the measurement."""
    text = (
        "A speed-up above the number of cells, as published, needs a single-core program that does more work"
        " per cell than a rank does. Here both engines run the same code at full speed, so the number of"
        " cores bounds the speed-up."
    )
    if crowded:
        text += (
            f" {', '.join(crowded)} was measured with more ranks than the {cores} cores, which"
            " bound its speed-up."
        )
    if impossible:
        text += (
            f" The measured speed-up of {', '.join(impossible)} exceeds the {cores} cores: other"
            " programs used them, and several ranks get a larger share of a busy machine than one"
            " process. Measure again when it is idle."
        )
    return text
