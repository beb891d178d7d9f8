"""`CoevolutionConfig`, the schema of coevolution.json: a grid of cells that train GANs against each other.

The parameters and their names follow Perez, Nesmachnow, Toutouh, Hemberg and O'Reilly 2020
(arXiv:2004.04633, table I) and Lipizzaner (Schmiedlechner et al. 2018, arXiv:1811.12843).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, cast, get_args

from pydantic import ConfigDict, Field, field_validator, model_validator

from cloudgan.core.document import Document
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


class CoevolutionConfig(Document):
    """A grid of cells, what they train, and how they evolve."""

    model_config = ConfigDict(allow_inf_nan=False)

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
