"""The run of a grid as it is shown: its cells, their records, and the quality of the mixture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, computed_field

from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import Grid
from cloudgan.coevolution.record import routine_times
from cloudgan.core.errors import DataError, counted
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Mark, Table
from cloudgan.reports.words import in_words
from cloudgan.schema.coevolution import CellLine, CoevolutionConfig, MixtureQuality
from cloudgan.schema.run_folder import find_run_folder

_MOST_ROWS = 12
"""Of a screen; a larger grid is shown by its best cells."""


class Evolution(Result):
    """A grid of cells, what each has recorded, and the quality of its mixture."""

    path: Path = Field(description="folder of the run; cells/ROW-COLUMN in it has a cell's record")
    config: CoevolutionConfig = Field(description="grid, task and rules")
    lines: tuple[tuple[CellLine, ...], ...] = Field(exclude=True)
    """Of each cell, by iteration."""
    quality: MixtureQuality | None = Field(
        None,
        description="of the best mixture, and of what it is compared with, at the end of the run",
    )

    @property
    def grid(self) -> Grid:
        """The grid."""
        return Grid(self.config.rows, self.config.columns)

    @computed_field(description="newest that all cells have recorded")  # type: ignore[prop-decorator]
    @property
    def iteration(self) -> int:
        """The newest iteration that all cells have recorded."""
        return min(map(len, self.lines), default=0)

    @property
    def best_cell(self) -> int | None:
        """Number of the cell with the best mixture in that iteration; None before it."""
        if not self.iteration:
            return None
        scores = [lines[self.iteration - 1].score for lines in self.lines]
        return scores.index(min(scores))

    @computed_field(description="cell with the best mixture")  # type: ignore[prop-decorator]
    @property
    def best(self) -> str | None:
        """Name of the cell with the best mixture."""
        return None if self.best_cell is None else self.grid.name(self.best_cell)

    @computed_field(description="newest line of each cell's record")  # type: ignore[prop-decorator]
    @property
    def cells(self) -> dict[str, CellLine | None]:
        """The newest line of each cell's record, by its name."""
        return {
            self.grid.name(number): lines[-1] if lines else None
            for number, lines in enumerate(self.lines)
        }

    @computed_field(description="by cell and routine")  # type: ignore[prop-decorator]
    @property
    def seconds(self) -> dict[str, Any] | None:
        """Seconds by cell and routine; None before the first iteration."""
        return routine_times({self.grid.name(n): lines for n, lines in enumerate(self.lines)})

    def view(self) -> View:
        """Returns a row per cell, and the quality of the best mixture."""
        size, path, said = (
            f"{self.config.rows}x{self.config.columns}",
            self.path,
            "no iteration yet",
        )
        cells = {name: line for name, line in self.cells.items() if line}
        best, shown, notes = self.best_cell, cells, list[str]()
        if best is not None:
            score = self.lines[best][self.iteration - 1].score
            said = f"best mixture: cell {self.best}, score {score:.4g}"
            notes.append("score of a cell's mixture; fitness is a loss; lower is better in both")
        if parts := _parts(cells.values()):
            notes.append(f"-v shows the parts of a score: {', '.join(parts).replace('_', ' ')}")
        if len(cells) > _MOST_ROWS:
            shown = dict(sorted(cells.items(), key=lambda one: one[1].score)[:_MOST_ROWS])
            notes.append(f"the best {len(shown)} of {len(cells)} cells; -v shows all")
        compared = comparison_table(self)
        if compared and self.quality:
            notes.append(f"{self.quality.samples:,} new samples each, of the last generators:")
            notes += [f"{name}: score {score:.4g}" for name, score, *_ in compared.rows]
        longer = f"cloudgan evolve --run={path} --iterations={2 * self.config.iterations}"
        output = "out.h5" if self.config.task == "showers" else "out.npz"
        commands = (
            (f"cloudgan report {path}", "samples, ancestry, seconds"),
            (f"cloudgan generate {path} {output} --cell=mixture", "samples of the best mixture"),
            (longer, "goes on"),
        )
        return View(
            f"{path}: {size} cells, {counted(self.iteration, 'iteration')}; {said}",
            self._table(shown, in_full=False) if shown else None,
            notes=tuple(notes),
            commands=commands if self.best else (),
            basis=(self._table(cells, in_full=True), *([compared] if compared else []))
            if cells
            else (),
            done=self.best is not None,
        )

    def _table(self, cells: Mapping[str, CellLine], *, in_full: bool) -> Table:
        """Returns a row per cell; in full with the parts of its score, which no screen is wide enough for."""
        names = _parts(cells.values()) if in_full else []
        rows = tuple(
            (
                Mark(True, name) if name == self.best else name,
                line.score,
                *(line.details.get(detail) for detail in names),
                line.generator_fitness,
                line.discriminator_fitness,
                line.rates[0],
                ", ".join(line.losses),
                line.iteration,
            )
            for name, line in cells.items()
        )
        head = ("cell", "score", *(name.replace("_", " ") for name in names))
        heads = (*head, "generator", "discriminator", "rate", "loss", "iteration")
        return Table(heads, rows, priority=f"00{'4' * len(names)}12332")


def _parts(lines: Iterable[CellLine]) -> list[str]:
    """Returns the names of the parts of a score."""
    return list(dict.fromkeys(name for line in lines for name in line.details))


def read_evolution(path: Path | str) -> Evolution:
    """Reads the run of a grid; nothing is started."""
    folder = GridFolder(find_run_folder(path).path)
    config = folder.read_config()
    if config is None:
        raise DataError(
            f"{path}: no coevolution.json; start a run with `cloudgan evolve --run={path}`"
        )
    grid = Grid(config.rows, config.columns)
    folder = GridFolder(folder.path, grid)
    lines = tuple(folder.cell(number).lines() for number in range(grid.cells))
    return Evolution(path=folder.path, config=config, lines=lines, quality=folder.read_quality())


def comparison_table(found: Evolution) -> Table | None:
    """Returns the mixture beside its best member, equal weights and the ensemble; None: not measured."""
    quality = found.quality
    if quality is None:
        return None
    named = {
        "mixture, evolved weights": quality.mixture,
        f"best single generator (cell {found.grid.name(quality.best_generator_cell)})": (
            quality.best_generator
        ),
        "uniform mixture": quality.uniform,
    }
    chosen = quality.ensemble
    if chosen:
        cells = ", ".join(found.grid.name(cell) for cell in chosen.cells)
        named[f"{chosen.method} ensemble ({cells})"] = chosen.quality
    details = list(dict.fromkeys(name for one in named.values() for name in one.details))
    rows = tuple(
        (what, one.score, *(one.details.get(name) for name in details))
        for what, one in named.items()
    )
    note = (
        f"Neighbourhood of cell {found.grid.name(quality.cell)}, generators of iteration"
        f" {quality.iteration}, {quality.samples:,} new samples each (the record has the score with the"
        " neighbours of the iteration before). One run does not show that one of them is better."
    )
    if chosen:
        note += f" The ensemble has the best score of {chosen.scored} on these samples: its score is too good."
    heads = ("samples of", "score", *map(in_words, details))
    return Table(heads, rows, note, "l" + "r" * (len(details) + 1))
