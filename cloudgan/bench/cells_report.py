"""The two tables of arXiv:2004.04633 with our figures: speed-up of grids, and seconds by routine."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.bench.cells import mean_routines, speed_json
from cloudgan.core.hardware import this_machine
from cloudgan.reports.page import Page, Paragraph, Section
from cloudgan.reports.table import Table
from cloudgan.schema.provenance import versions

if TYPE_CHECKING:
    from cloudgan.bench.cells import CellsResult, GridSpeed
    from cloudgan.reports.page import Block


class Published(NamedTuple):
    """Times of Perez et al. 2020, arXiv:2004.04633, on one core and distributed, and their ratio."""

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
_WHY = (
    "A speed-up above the number of cells, as published, needs a single-core program that does more work"
    " per cell than a rank does. Here both engines run the same code at full speed, so the number of"
    " cores bounds the speed-up."
)

_TOLERANCE = 1.1
"""A speed-up above the number of cores by more than this factor is none of this program."""


def speed_table(result: CellsResult) -> Table:
    """Returns a row per grid that was measured, and a predicted row per grid."""
    rows: list[tuple[str, ...]] = []
    for speed in result.grids:
        distributed, speedup = speed.distributed, speed.speedup
        theirs = f"{PUBLISHED[speed.name].speedup:.2f}" if speed.name in PUBLISHED else "-"
        single = _mean([run.iteration for run in speed.one])
        if distributed is not None and speedup is not None:
            rows.append(
                (
                    *(speed.name, "measured", str(min(result.cores, speed.grid.cells)), single),
                    _mean([run.iteration for run in speed.ranks]),
                    *(speedup.describe(), theirs),
                )
            )
        rows.append(
            (
                *(speed.name, "predicted", str(speed.grid.cells), single),
                *(f"{speed.predicted:.3g}", f"{speed.predicted_speedup:.3g}", theirs),
            )
        )
    heads = (
        *("grid", "kind", "cores of ranks", "single core s", "distributed s"),
        *("speed-up", "published speed-up"),
    )
    work = result.workload
    caption = (
        f"Seconds per iteration: ring, {work.batches} batches of {work.batch} per cell;"
        f" {_rounds(result)}, {this_machine().describe()}. Predicted: a core per cell, from the slowest cell on one core"
        " and the measured exchange; not measured."
    )
    return Table(heads, tuple(rows), caption, "llrrrrr")


def routine_table(speed: GridSpeed) -> Table:
    """Returns the seconds by routine of a grid that was measured, beside the published minutes."""
    single, distributed = mean_routines(speed.one), mean_routines(speed.ranks)
    rows = []
    for name, theirs in PUBLISHED_ROUTINES.items():
        both = single[name] and distributed[name]
        published = ("-", "-", "-")
        if theirs:
            published = f"{theirs.single:g}", f"{theirs.distributed:g}", f"{theirs.speedup:.2f}"
        rows.append(
            (
                *(name, f"{single[name]:.4g}", f"{distributed[name]:.4g}"),
                f"{single[name] / distributed[name]:.3g}" if both else "-",
                *published,
            )
        )
    heads = (
        *("routine", "single core s", "distributed s", "speed-up"),
        *("published single", "published distributed", "published speed-up"),
    )
    caption = (
        f"{speed.name}: seconds per iteration, of all cells on one core and of a cell (mean) among"
        " ranks, which wait for the slowest cell. Published in the source's unit."
    )
    return Table(heads, tuple(rows), caption, "lrrrrrr")


def explanation(result: CellsResult) -> str:
    """Returns why the published speed-ups are not to be expected, and what disturbed the measurement."""
    measured = [speed for speed in result.grids if speed.ranks]
    crowded = [speed.name for speed in measured if speed.grid.cells > result.cores]
    impossible = [
        speed.name
        for speed in measured
        if speed.speedup and speed.speedup.median > _TOLERANCE * result.cores
    ]
    more = [_WHY]
    if crowded:
        more.append(
            f"{', '.join(crowded)} was measured with more ranks than the {result.cores} cores, which"
            " bound its speed-up."
        )
    if impossible:
        more.append(
            f"The measured speed-up of {', '.join(impossible)} exceeds the {result.cores} cores: other"
            " programs used them, and several ranks get a larger share of a busy machine than one"
            " process. Measure again when it is idle."
        )
    return " ".join(more)


def tables(result: CellsResult) -> list[Table]:
    """Returns the table of grids and, for each measured one, that of its routines."""
    return [speed_table(result), *(routine_table(one) for one in result.grids if one.ranks)]


def cells_json(result: CellsResult) -> dict[str, Any]:
    """Returns all figures by name."""
    work = result.workload
    return {
        "machine": this_machine().describe(),
        "versions": versions(),
        "task": "ring",
        "iterations": work.iterations,
        "batches": work.batches,
        "batch": work.batch,
        "cores": result.cores,
        "interrupted": result.interrupted,
        "grids": [speed_json(speed) for speed in result.grids],
        "published": {
            "grids": {name: one._asdict() for name, one in PUBLISHED.items()},
            "routines": {name: one._asdict() for name, one in PUBLISHED_ROUTINES.items() if one},
            "source": "arXiv:2004.04633",
        },
        "explanation": explanation(result),
    }


def cells_page(result: CellsResult) -> Page:
    """Returns the tables and their explanation."""
    blocks: tuple[Block, ...] = (*tables(result), Paragraph(explanation(result)))
    return Page("Grids of cells", sections=(Section("Speed-up", blocks),))


def _rounds(result: CellsResult) -> str:
    rounds = min(len(speed.one) for speed in result.grids)
    return f"mean ± standard deviation of {rounds} rounds in turns" if rounds > 1 else "one round"


def _mean(values: list[float]) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    mean = f"{statistics.fmean(values):.3g}"
    return mean if deviation is None else f"{mean} ± {deviation:.2g}"
