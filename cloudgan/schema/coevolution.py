"""A grid of cells that train GANs against each other: its configuration, its saved states, and what it writes.

`CoevolutionConfig` is the schema of coevolution.json, `GridStatus` of status.json, `CellLine` of a line of a cell's
record.jsonl, and `MixtureQuality` of mixture_quality.json.

The parameters and their names follow Perez, Nesmachnow, Toutouh, Hemberg and O'Reilly 2020
(arXiv:2004.04633, table I) and Lipizzaner (Schmiedlechner et al. 2018, arXiv:1811.12843).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, cast, get_args

from pydantic import ConfigDict, Field, field_validator, model_validator

from cloudgan.core.document import Document, FiniteDocument
from cloudgan.core.documents import bounded_lines, parse_json, validated
from cloudgan.core.errors import ConfigError, counted, nearest, shorten, show
from cloudgan.core.flags import Text, argument, flag
from cloudgan.core.ranges import MAX_BATCH, MAX_EPOCHS, MAX_SEED, MAX_STEP

TaskName = Literal["showers", "ring"]
Neighbourhood = Literal["von_neumann", "moore", "ring", "all", "none"]
AdversarialLoss = Literal["bce", "least_squares", "heuristic"]
Aggregate = Literal["worst", "mean", "best"]
Engine = Literal["one", "ranks"]

ADVERSARIAL_LOSSES: tuple[AdversarialLoss, ...] = get_args(AdversarialLoss)
"""In the order of the numbers that the traced updates take."""
MAX_CELLS = 1024
FILE_NAME: Final = "coevolution.json"

_GRID = re.compile(r"0*([1-9]\d{0,5})x0*([1-9]\d{0,5})", re.ASCII)
_FREE = frozenset({"iterations", "engine", "threads", "save_every", "silence_seconds"})
"""Keys that change no result of the iterations that are done."""


class Change(NamedTuple):
    """A change of the neighbourhood while the run continues.

    Attributes:
        iteration: First iteration with it, counted from 0.
        neighbourhood: From then on.
    """

    iteration: int
    neighbourhood: Neighbourhood


def _changes(shown: str, text: str) -> tuple[Change, ...]:
    """Returns the changes of text such as ``5:moore,12:all``."""
    valid = get_args(Neighbourhood)
    changes = []
    for part in text.split(","):
        iteration, _, name = part.strip().partition(":")
        if not re.fullmatch(r"\d{1,9}", iteration, re.ASCII) or name not in valid:
            raise ConfigError(
                f"{shown}={shorten(text)}: expected ITERATION:NEIGHBOURHOOD, such as 5:moore;"
                f" the neighbourhoods are {', '.join(valid)}.{nearest(name, valid)}"
            )
        changes.append(Change(int(iteration), cast("Neighbourhood", name)))
    return tuple(changes)


class CoevolutionConfig(FiniteDocument):
    """A grid of cells, what they train, and how they evolve."""

    schema_version: Literal[1] = 1
    rows: int = Field(2, ge=1, le=MAX_CELLS)
    columns: int = Field(2, ge=1, le=MAX_CELLS)
    task: TaskName = flag(
        "showers",
        "what is learnt; showers, or ring (eight Gaussians, no data)",
        "Grid",
        screen=True,
    )
    data: str | None = argument(
        "showers, as for `train`; a file, glob or folder; not for --task=ring", None, topic="Data"
    )
    engine: Engine = flag(
        "one",
        "one process for all cells, or a rank for each; with ranks each cell is an MPI rank, and there is a master",
        "Devices",
        screen=True,
        is_local=True,
    )
    asynchronous: bool = flag(
        False,
        "a cell never waits for others; cells are ranks",
        "Grid",
        screen=True,
    )
    neighbourhood: Neighbourhood = flag(
        "von_neumann", "cells that exchange individuals", "Grid", screen=True
    )
    schedule: Annotated[tuple[Change, ...], Text(_changes, "N:NAME,...")] = flag(
        (),
        "changes of the neighbourhood; such as 5:moore,12:all, by iteration",
        "Grid",
        name="neighbourhood-schedule",
    )
    iterations: int = flag(
        20, "iterations of each cell", "Length", screen=True, ge=1, le=MAX_EPOCHS
    )
    batches: int = flag(
        50, "batches of a cell per iteration", "Length", screen=True, ge=1, le=MAX_STEP
    )
    batch_size: int = flag(
        100, "samples per batch", "Length", screen=True, name="batch", ge=1, le=MAX_BATCH
    )
    population: int = flag(1, "generators of a cell; and discriminators", "Select", ge=1, le=100)
    tournament: int = flag(2, "individuals that compete to be trained", "Select", ge=1, le=10_000)
    replacements: int = flag(
        1, "new individuals per iteration; of a kind, at most", "Select", ge=1, le=100
    )
    fitness: Aggregate = flag("worst", "loss over the adversaries; of the neighbourhood", "Select")
    fitness_samples: int = flag(200, "held-out samples of a fitness", "Select", ge=1, le=MAX_BATCH)
    discriminator_every: int = flag(
        2, "batches per update of the discriminator", "Select", ge=1, le=MAX_STEP
    )
    losses: tuple[AdversarialLoss, ...] = flag(
        ("bce",),
        "losses that generators draw from; a comma list of bce, least_squares, heuristic",
        "Networks",
        screen=True,
        placeholder="A,B",
        min_length=1,
    )
    learning_rate: float = flag(2e-4, "of both networks at the start", "Mutate", gt=0, le=1e6)
    rate_sigma: float = flag(
        1e-4, "width of its mutations; a standard deviation", "Mutate", ge=0, le=1e6
    )
    rate_probability: float = flag(0.5, "of such a mutation per iteration", "Mutate", ge=0, le=1)
    mixture_sigma: float = flag(
        0.01, "width of mutations of mixture weights; a standard deviation", "Mutate", ge=0, le=1
    )
    score_samples: int = flag(
        1000, "samples of which a mixture is judged", "Select", ge=1, le=MAX_BATCH
    )
    data_share: float = flag(1.0, "share of the showers that a cell sees", "Data", gt=0, le=1)
    save_every: int = flag(5, "iterations between saved states", "Length", ge=1, le=MAX_EPOCHS)
    silence_seconds: float = flag(
        30.0,
        "a rank that is silent so long is lost",
        "Devices",
        ge=1,
        le=1e6,
    )
    threads: int | None = flag(
        None,
        "threads of TensorFlow per process",
        "Devices",
        words="all cores",
        is_local=True,
        ge=1,
        le=10_000,
    )
    seed: int = flag(1, "of all random numbers", "Length", is_local=True, ge=0, le=MAX_SEED)

    @field_validator("losses", mode="before")
    @classmethod
    def _known_losses(cls, given: Any) -> Any:
        """Accepts a comma list, as on the command line."""
        if isinstance(given, str):
            given = tuple(name.strip() for name in given.split(",") if name.strip())
        for name in given if isinstance(given, tuple | list) else ():
            if name not in ADVERSARIAL_LOSSES:
                raise ValueError(
                    f"{show(str(name))} is none of {', '.join(ADVERSARIAL_LOSSES)}."
                    f"{nearest(str(name), ADVERSARIAL_LOSSES)}"
                )
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.cells > MAX_CELLS:
            raise ValueError(f"a grid of {self.cells} cells; at most {MAX_CELLS}")
        if self.replacements > self.population:
            raise ValueError(
                f"replacements {self.replacements} is above population {self.population}"
            )
        iterations = [change.iteration for change in self.schedule]
        if iterations != sorted(set(iterations)):
            raise ValueError("the iterations of schedule are not in ascending order")
        if self.asynchronous and self.engine != "ranks":
            raise ValueError("asynchronous is an option of engine 'ranks'; give --engine=ranks")
        return self

    @property
    def cells(self) -> int:
        """Cells of the grid."""
        return self.rows * self.columns

    def describe(self) -> str:
        """Returns such as ``20 iterations of 2x3 cells``."""
        return f"{counted(self.iterations, 'iteration')} of {self.rows}x{self.columns} cells"

    def mathematics(self) -> dict[str, Any]:
        """Returns the keys that determine what is computed; the others may change when a run continues."""
        return self.model_dump(mode="json", exclude=set(_FREE))

    @property
    def neighbourhoods(self) -> tuple[Neighbourhood, ...]:
        """Neighbourhoods of all iterations."""
        return (self.neighbourhood, *(change.neighbourhood for change in self.schedule))

    def neighbourhood_at(self, iteration: int) -> Neighbourhood:
        """Returns the neighbourhood of an iteration, counted from 0."""
        current = self.neighbourhood
        for change in self.schedule:
            if change.iteration <= iteration:
                current = change.neighbourhood
        return current


def parse_grid(shown: str, text: str) -> tuple[int, int]:
    """Returns rows and columns of text such as ``2x3``."""
    found = _GRID.fullmatch(text.lower())
    if found is None:
        raise ConfigError(f"{shown}={shorten(text)}: expected ROWSxCOLUMNS, such as --grid=2x3")
    return int(found[1]), int(found[2])


CELLS: Final = "cells"
"""Folder of a run with a folder per cell, also in the store."""
_STATE = re.compile(r"state-(\d{9})\.npz")


def state_name(iteration: int) -> str:
    """Returns the file name of the state of an iteration."""
    return f"state-{iteration:09d}.npz"


def saved_iterations(names: Iterable[str]) -> list[int]:
    """Returns the iterations of the states among file names, in ascending order."""
    found = (_STATE.fullmatch(name) for name in names)
    return sorted(int(name[1]) for name in found if name)


def common_iteration(saved: Iterable[Collection[int]]) -> int:
    """Returns the newest iteration that all cells have saved; 0: there is none."""
    return max(set.intersection(*map(set, saved)), default=0)


def newest_point(saved: Sequence[Collection[int]], *, asynchronous: bool) -> int:
    """Returns the iteration up to which no cell repeats its work after a restart.

    Cells in step continue from the newest one that all have; asynchronous ones each from its own newest.
    """
    if asynchronous:
        return min(max(each, default=0) for each in saved)
    return common_iteration(saved)


def saved_in_store(names: Iterable[str], cells: int) -> list[list[int]]:
    """Returns each cell's iterations by names such as ``cells/0-1/state-000000005.npz``; a cell may have none."""
    by_cell: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        by_cell.setdefault(folder, []).append(file)
    found = [states for states in map(saved_iterations, by_cell.values()) if states]
    return found + [[]] * (cells - len(found))


STATUS_FILE: Final = "status.json"
CellState = Literal["inactive", "processing", "finished"]
GridState = Literal["running", "finished", "interrupted", "terminated", "failed"]


class CellStatus(Document):
    """The last sign of life of a cell.

    Attributes:
        name: ``ROW-COLUMN``.
        rank: Of the MPI world.
        host: Where it runs.
        state: inactive until its first iteration begins, then processing, then finished.
        iteration: Iterations done.
        fitness: Of its best generator; lower is better.
        score: Of its mixture; lower is better.
        memory_bytes: Resident memory of its process.
        silent_seconds: Since its last sign.
    """

    name: str
    rank: int = Field(ge=0)
    host: str
    state: CellState = "inactive"
    iteration: int = Field(0, ge=0)
    fitness: float | None = None
    score: float | None = None
    memory_bytes: int | None = None
    silent_seconds: float = Field(0.0, ge=0)


class NodeStatus(Document):
    """A machine of the world.

    Attributes:
        host: Its name.
        processor: Its model.
        cores: That its processes may use.
        memory_gib: Of the machine.
        gpus: Names of its GPUs.
        ranks: That run on it, the master and those without a cell included.
        cells: Names of its cells.
        threads: Of TensorFlow in each of its cells.
    """

    host: str
    processor: str
    cores: int
    memory_gib: float | None
    gpus: tuple[str, ...] = ()
    ranks: int
    cells: tuple[str, ...] = ()
    threads: int | None = None


class GridStatus(Document):
    """A grid whose cells are MPI ranks.

    Attributes:
        time: When the master wrote it.
        state: Of the run.
        rows: Of the grid.
        columns: Of the grid.
        iterations: That each cell will have done.
        best: Name of the cell whose mixture has the lowest score, after the run.
        nodes: Machines of the world.
        cells: Row by row.
    """

    schema_version: Literal[1] = 1
    time: str
    state: GridState = "running"
    rows: int
    columns: int
    iterations: int
    best: str | None = None
    nodes: tuple[NodeStatus, ...]
    cells: tuple[CellStatus, ...]


ROUTINES = ("gather", "update_genomes", "mutate", "train")
"""Routines of an iteration, named as in arXiv:2004.04633, table IV."""
WAIT = "wait"
"""Key of the seconds in which a rank waits for the slowest cell."""


class CellLine(Document):
    """One iteration of one cell.

    Attributes:
        iteration: Counted from 1.
        generator_fitness: Of the best generator; lower is better.
        discriminator_fitness: Of the best discriminator.
        rates: Learning rates of the trained generators and discriminators.
        losses: Adversarial losses drawn for the generators.
        selected: Names of the individuals that were trained.
        entered: How many of the trained ones entered the population.
        best: Name and parent of the best generator.
        members: Cells of the mixture, and their weights.
        score: Of the mixture, lower is better.
        details: Other figures of its quality.
        diverged: Whether a loss became NaN, so that the cell took its best neighbour's networks.
        taken_from: Cell of those networks.
        ages: Asynchronous runs: iterations by which each neighbour's networks were behind (negative:
            ahead).
        seconds: By routine; of cells that are ranks in step also `wait`, for the slowest of them.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    iteration: int = Field(ge=1)
    generator_fitness: float
    discriminator_fitness: float
    rates: tuple[float, ...]
    losses: tuple[AdversarialLoss, ...]
    selected: tuple[str, ...]
    entered: int = Field(ge=0)
    best: tuple[str, str]
    members: dict[int, float]
    score: float
    details: dict[str, float] = Field(default_factory=dict)
    diverged: bool = False
    taken_from: int | None = None
    ages: dict[int, int] = Field(default_factory=dict)
    seconds: dict[str, float]


def read_lines(path: Path) -> tuple[CellLine, ...]:
    """Reads the record of a cell; empty if there is none. A last line that was cut off is left out."""
    if not path.exists():
        return ()
    found = []
    with path.open(encoding="utf-8", errors="replace") as record:
        for number, line in enumerate(bounded_lines(record, str(path)), 1):
            if line.endswith("\n"):
                where = f"{path}, line {number}"
                found.append(validated(CellLine, parse_json(line, where), where))
    return tuple(found)


EnsembleMethod = Literal["greedy", "genetic"]


class _Quality(Document):
    model_config = ConfigDict(ser_json_inf_nan="strings")


class SampleQuality(_Quality):
    """Quality of samples by the measure of the task; mixture weights minimise the score."""

    score: float
    details: dict[str, float] = Field({}, description="other figures by name")


class ChosenEnsemble(_Quality):
    """Generators of any cells that give equal shares of the samples."""

    method: EnsembleMethod
    cells: tuple[int, ...] = Field(min_length=1, max_length=MAX_CELLS)
    quality: SampleQuality = Field(description="of the samples that the choice was made with")
    scored: int = Field(ge=1, description="ensembles that were measured for the choice")


class MixtureQuality(_Quality):
    """The mixture of the best cell beside its members and beside an ensemble of all cells."""

    schema_version: Literal[1] = 1
    iteration: int = Field(ge=1, description="of the measured states")
    cell: int = Field(ge=0, description="the best one, whose mixture it is")
    samples: int = Field(ge=1, description="of each measurement")
    mixture: SampleQuality = Field(description="with the evolved weights")
    best_generator: SampleQuality = Field(description="the best member alone")
    best_generator_cell: int = Field(ge=0)
    uniform: SampleQuality = Field(description="all members with equal weights")
    ensemble: ChosenEnsemble | None = Field(None, description="null: none was requested")
