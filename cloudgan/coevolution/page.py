"""The page evolution.html of a grid: samples over time, mixture, ancestry, quality, cells and seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from cloudgan.coevolution.files import GridFolder, pictured, read_pictures
from cloudgan.coevolution.record import ancestry, seconds_of
from cloudgan.coevolution.run_result import Evolution, comparison_table
from cloudgan.core.errors import counted
from cloudgan.reports.charts import COLOURS, GREY, INK, Axis, Bar, Figure, Line, Plot, StackedBars
from cloudgan.reports.page import Block, KeyFigures, Page, Paragraph, Section
from cloudgan.reports.table import Table
from cloudgan.reports.words import in_words
from cloudgan.schema.coevolution import WAIT, CellLine

_MOST_CELLS = 16
"""More cells are shown by their best, median and worst; pictures are those of the best ones."""
_MOST_PICTURED = 8
_MOST_FIGURES = 4
_MOST_POINTS = 500
_MOST_STAYS = 50
_GAP, _GAP_GREY = 1, 128
_SCORE = "score"


def evolution_page(found: Evolution) -> Page:
    """Returns the page of a grid."""
    config = found.config
    records = {found.grid.name(number): record for number, record in enumerate(found.lines)}
    times = found.seconds or {}
    compared = comparison_table(found)
    details = _last(found)[0].details
    score = found.lines[found.best_cell or 0][found.iteration - 1].score
    sections = [
        Section("Result", (_figures(found, times), *([compared] if compared else []))),
        Section("Grid", (_grid_figure(found),)),
        Section("Samples of each cell", tuple(_samples(found))),
        Section(
            "Quality",
            (
                _quality_plot(found, _SCORE, "score of the mixture"),
                *(_quality_plot(found, name, in_words(name)) for name in details),
            ),
        ),
        Section("Ancestry of the winner", tuple(_ancestry(found, records))),
        Section("Cells", (_cells(found),)),
        Section("Seconds by routine", tuple(_seconds(times, records, found.config.engine))),
    ]
    return Page(
        f"Evolution of {config.rows}x{config.columns} cells",
        f"Task {config.task}, {counted(found.iteration, 'iteration')} of"
        f" {counted(config.batches, 'batch', 'batches')} of {config.batch_size}, neighbourhood {config.neighbourhood.replace('_', ' ')}, engine"
        f" {config.engine}. The best mixture is that of cell {found.best} and its neighbours, with a score of"
        f" {score:.4g}.",
        tuple(section for section in sections if section.blocks),
        f"Written by cloudgan from {found.path.name}. The page loads nothing from the network.",
    )


def _figures(found: Evolution, times: Mapping[str, Any]) -> KeyFigures:
    line = _last(found)[found.best_cell or 0]
    shown = list(line.details.items())[:_MOST_FIGURES]
    details = ((f"{value:.4g}", in_words(name), "") for name, value in shown)
    return KeyFigures(
        (
            (f"{line.score:.4g}", "score of the best mixture", "lower is better"),
            *details,
            (
                f"{times['mean']['overall']:,.1f} s",
                "per cell",
                f"{times['evolution_share']:.0%} of an iteration is not training",
            ),
        )
    )


_LETTERED = 64
"""Larger grids have no text in their cells."""


def _grid_figure(found: Evolution) -> Figure:
    """Returns the cells in their places, coloured by score, with the best one and its neighbours."""
    grid, best = found.grid, found.best_cell or 0
    scores = [_finite(line.score) for line in _last(found)]
    known = [score for score in scores if score is not None] or [0.0]
    low, span = min(known), (max(known) - min(known)) or 1.0
    near = grid.neighbours(best, found.config.neighbourhood)

    def draw(axes: Any) -> None:
        for number, score in enumerate(scores):
            row, column = grid.place(number)
            share = 1.0 if score is None else (score - low) / span
            axes.add_patch(Rectangle((column, row), 1, 1, facecolor=to_rgba(COLOURS[0], 0.65 - 0.6 * share),
                                     edgecolor=INK, linewidth=0.6))  # fmt: skip
            if grid.cells <= _LETTERED:
                text = "not finite" if score is None else f"{score:.4g}"
                mark = "★ " if number == best else ""
                axes.text(column + 0.5, row + 0.5, f"{mark}{grid.name(number)}\n{text}", ha="center",
                          va="center", fontsize=10)  # fmt: skip
        for number in (*near, best):
            row, column = grid.place(number)
            axes.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, fill=False,
                                     edgecolor=COLOURS[1], linewidth=3 if number == best else 1.5,
                                     linestyle="-" if number == best else "--"))  # fmt: skip
        axes.set(
            xlim=(0, grid.columns),
            ylim=(grid.rows, 0),
            aspect="equal",
            xlabel="column",
            ylabel="row",
        )
        axes.set_xticks([place + 0.5 for place in range(grid.columns)], range(grid.columns))
        axes.set_yticks([place + 0.5 for place in range(grid.rows)], range(grid.rows))
        axes.tick_params(length=0)
        axes.grid(visible=False)

    neighbours = found.config.neighbourhood.replace("_", " ")
    return Figure(
        "Cells of the grid, coloured by the score of their mixture",
        draw,
        "Score of each cell's mixture, the darker the better. Solid frame: the best mixture; dashed: the"
        f" neighbours whose generators are in it ({neighbours}; opposite edges of the grid are joined).",
        min(6.0, 0.7 + 1.1 * grid.rows),
    )


def _samples(found: Evolution) -> Iterator[Figure]:
    """Yields the pictures of the cells with the best score over the iterations, if there are any."""
    files = GridFolder(found.path, found.grid)
    scores = [line.score if math.isfinite(line.score) else math.inf for line in _last(found)]
    cells = sorted(range(found.grid.cells), key=scores.__getitem__)
    shown = sorted(cells[:_MOST_CELLS])
    kept = {number: pictured(files.cell(number)) for number in shown}
    iterations = sorted(set().union(*kept.values()))[-_MOST_PICTURED:]
    if not iterations:
        return
    mosaics = {
        (row, column): _mosaic(read_pictures(files.cell(number), iteration))
        for row, number in enumerate(shown)
        for column, iteration in enumerate(iterations)
        if iteration in kept[number]
    }

    def draw(axes: Any) -> None:
        high, wide = np.max([one.shape for one in mosaics.values()], axis=0)
        for (row, column), image in mosaics.items():
            axes.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="none",
                        extent=(column + 0.02, column + 0.98, row + 0.98, row + 0.02))  # fmt: skip
            axes.add_patch(Rectangle((column + 0.02, row + 0.02), 0.96, 0.96, fill=False,
                                     edgecolor=GREY, linewidth=0.6))  # fmt: skip
        axes.set(
            xlim=(0, len(iterations)), ylim=(len(shown), 0), aspect=high / wide, xlabel="iteration"
        )
        axes.set_xticks([place + 0.5 for place in range(len(iterations))], iterations)
        names = [f"cell {found.grid.name(number)}" for number in shown]
        axes.set_yticks([place + 0.5 for place in range(len(shown))], names)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)

    which = "" if len(shown) == len(cells) else f", the {len(shown)} cells with the best score"
    yield Figure(
        f"Samples of each cell's mixture{which}", draw, height_inches=max(2.5, 1.2 * len(shown))
    )


def _mosaic(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Joins images (N, height, width) to a square with grey lines between them."""
    count, height, width = images.shape
    columns = math.ceil(math.sqrt(count))
    shape = (-(-count // columns) * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP)
    found = np.full(shape, _GAP_GREY, np.uint8)
    for number, image in enumerate(images):
        top, left = (number // columns) * (height + _GAP), (number % columns) * (width + _GAP)
        found[top : top + height, left : left + width] = image
    return found


def _quality_plot(found: Evolution, name: str, label: str) -> Plot:
    """Returns the score or a detail of each cell against the iteration."""
    shown = range(0, found.iteration, -(-found.iteration // _MOST_POINTS))
    series = {
        f"cell {found.grid.name(number)}": tuple(
            _finite(record[at].score if name == _SCORE else record[at].details.get(name))
            for at in shown
        )
        for number, record in enumerate(found.lines)
    }
    if len(series) > _MOST_CELLS:
        columns = [
            sorted(one for one in column if one is not None)
            for column in zip(*series.values(), strict=True)
        ]
        series = {
            "lowest cell": tuple(column[0] if column else None for column in columns),
            "median": tuple(statistics.median(column) if column else None for column in columns),
            "highest cell": tuple(column[-1] if column else None for column in columns),
        }
    x = tuple(float(at + 1) for at in shown)
    lines = tuple(Line(each, x, values) for each, values in series.items())
    return Plot(f"{label} of each cell", Axis("iteration"), Axis(label), lines=lines)


def _ancestry(found: Evolution, records: Mapping[str, Sequence[CellLine]]) -> Iterator[Block]:
    winner = found.best_cell or 0
    name = found.lines[winner][found.iteration - 1].best[0]
    chain = ancestry(name, records)
    if not chain:
        yield Paragraph(f"The best generator of cell {found.grid.name(winner)} was never trained.")
        return
    # Ancestors that one cell trained without interruption.
    stays = [list(stay) for _, stay in groupby(chain, lambda one: one.cell)]
    moves = len(stays) - 1
    yield Paragraph(
        f"{name}, the best generator of cell {found.grid.name(winner)}, was trained"
        f" {len(chain)} times and moved {moves} {'time' if moves == 1 else 'times'} from a cell to its"
        f" neighbour. It descends from {chain[-1].parent}."
    )
    rows = tuple(
        (
            stay[-1].cell,
            f"{stay[-1].iteration} to {stay[0].iteration}"
            if len(stay) > 1
            else f"{stay[0].iteration}",
            len(stay),
            ", ".join(sorted({one.loss for one in stay})),
            stay[0].rate,
        )
        for stay in stays[:_MOST_STAYS]
    )
    heads = ("trained in cell", "iterations", "times", "losses", "last learning rate")
    caption = "From the newest ancestor to the oldest"
    caption += f", the first {len(rows)} of {len(stays)} cells." if len(rows) < len(stays) else "."
    yield Table(heads, rows, caption, "lrrlr")


def _cells(found: Evolution) -> Table:
    late = found.config.asynchronous
    ages = [[age for line in record for age in line.ages.values()] for record in found.lines]
    rows = tuple(
        (
            found.grid.name(number),
            _finite(line.score),
            _finite(line.generator_fitness),
            _finite(line.discriminator_fitness),
            line.rates[0],
            line.losses[0],
            sum(one.entered for one in record),
            sum(one.diverged for one in record),
            *((statistics.fmean(ages[number]) if ages[number] else None,) if late else ()),
            ", ".join(
                f"{found.grid.name(cell)}: {weight:.2f}" for cell, weight in line.members.items()
            ),
        )
        for number, (record, line) in enumerate(zip(found.lines, _last(found), strict=True))
    )
    heads = (
        *("cell", "score", "generator", "discriminator", "learning rate", "loss"),
        *("entered", "diverged", *(("age",) if late else ()), "weights of the mixture"),
    )
    caption = (
        "After the last iteration. Generator and discriminator: fitness of the best one, a loss."
        " Entered: trained individuals that replaced a worse one, of"
        f" {2 * found.config.population * found.iteration:,} trained. Diverged: iterations after which"
        " the cell took its best neighbour's networks."
    )
    if late:
        caption += " Age: iterations by which the neighbours' networks were behind, on average."
    return Table(heads, rows, caption, "lrrrrlrr" + "r" * late + "l", interactive=True)


def _seconds(
    times: Mapping[str, Any], records: Mapping[str, Sequence[CellLine]], engine: str
) -> Iterator[Block]:
    mean, median = times["mean"], times["per_iteration"]
    names = ("gather", "train", "update_genomes", "mutate")
    iteration = sum(median[name] for name in names) or 1.0
    rows: list[tuple[str, float, float | str, str]] = [
        (name.replace("_", " "), mean[name], 1e3 * median[name],
         f"{median[name] / iteration:.1%}")
        for name in names
    ]  # fmt: skip
    if mean[WAIT]:
        rows.append((WAIT, mean[WAIT], "", ""))
    rows.append(("all", mean["overall"], 1e3 * iteration, "100.0%"))
    yield Table(
        ("routine", "seconds of a cell", "ms of an iteration", "share of an iteration"),
        tuple(rows),
        "Routines as in arXiv:2004.04633, table IV. Seconds: mean over the cells, all iterations. An"
        " iteration: the median without the first one, which traces the networks.",
        "lrrr",
    )
    if len(times["cells"]) <= _MOST_CELLS:
        yield StackedBars(
            "Seconds by cell and routine",
            Axis("seconds"),
            (*(name.replace("_", " ") for name in names), WAIT),
            tuple(
                Bar(f"cell {name}", tuple(seconds_of(record, each) for each in (*names, WAIT)))
                for name, record in records.items()
            ),
        )
    idle = ", ".join(f"cell {name} {share:.0%}" for name, share in times["waiting"].items())
    text = f"Idle ranks, by the share of their time in which they wait for the others: {idle}."
    if not idle:
        text = "No rank is idle: none waits for the others for more than a tenth of its time."
    if engine == "one":
        text = "No cell waits: all cells share one process and take turns."
    yield Paragraph(text)


def _last(found: Evolution) -> list[CellLine]:
    return [record[found.iteration - 1] for record in found.lines]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
