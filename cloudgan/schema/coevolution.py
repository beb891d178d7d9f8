"""`CoevolutionConfig`, the schema of coevolution.json: a grid of cells that train GANs against each other.

The parameters and their names follow Perez, Nesmachnow, Toutouh, Hemberg and O'Reilly 2020
(arXiv:2004.04633, table I) and Lipizzaner (Schmiedlechner et al. 2018, arXiv:1811.12843).
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from cloudgan.core.errors import ConfigError, nearest, show
from cloudgan.core.ranges import MAX_BATCH, MAX_EPOCHS, MAX_SEED, MAX_STEP

TaskName = Literal["showers", "ring"]
Neighbourhood = Literal["von_neumann", "moore", "ring", "all", "none"]
AdversarialLoss = Literal["bce", "least_squares", "heuristic"]
Aggregate = Literal["worst", "mean", "best"]
Engine = Literal["one", "ranks"]

ADVERSARIAL_LOSSES: tuple[AdversarialLoss, ...] = ("bce", "least_squares", "heuristic")
"""In the order of the numbers that the traced updates take."""
MAX_CELLS = 1024
FILE_NAME: Final = "coevolution.json"

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


class CoevolutionConfig(BaseModel):
    """A grid of cells, what they train, and how they evolve."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: Literal[1] = 1
    rows: int = Field(2, ge=1, le=MAX_CELLS)
    columns: int = Field(2, ge=1, le=MAX_CELLS)
    task: TaskName = "showers"
    data: str | None = Field(None, description="of the task showers: file or folder")
    engine: Engine = Field(
        "one",
        description="one: all cells in one process; ranks: one MPI rank per cell and a master",
    )
    asynchronous: bool = Field(
        False,
        description="of ranks: a cell takes the newest that its neighbours sent, and never waits",
    )
    neighbourhood: Neighbourhood = "von_neumann"
    schedule: tuple[Change, ...] = Field((), description="changes of the neighbourhood, in order")
    iterations: int = Field(20, ge=1, le=MAX_EPOCHS)
    batches: int = Field(50, ge=1, le=MAX_STEP, description="of a cell per iteration")
    batch_size: int = Field(100, ge=1, le=MAX_BATCH)
    population: int = Field(
        1, ge=1, le=100, description="generators, and discriminators, of a cell"
    )
    tournament: int = Field(
        2, ge=1, le=10_000, description="individuals that compete to be trained"
    )
    replacements: int = Field(1, ge=1, le=100, description="of a population per iteration, at most")
    fitness: Aggregate = Field("worst", description="over the adversaries of the neighbourhood")
    fitness_samples: int = Field(200, ge=1, le=MAX_BATCH)
    discriminator_every: int = Field(
        2, ge=1, le=MAX_STEP, description="batches between two updates of the discriminator"
    )
    losses: tuple[AdversarialLoss, ...] = Field(
        ("bce",), min_length=1, description="from which the generator's loss is drawn"
    )
    learning_rate: float = Field(2e-4, gt=0, le=1e6, description="at the start, of both networks")
    rate_sigma: float = Field(
        1e-4, ge=0, le=1e6, description="standard deviation of a mutation of the learning rate"
    )
    rate_probability: float = Field(0.5, ge=0, le=1, description="of a mutation, per iteration")
    mixture_sigma: float = Field(
        0.01, ge=0, le=1, description="standard deviation of a mutation of the mixture weights"
    )
    score_samples: int = Field(1000, ge=1, le=MAX_BATCH, description="of the mixture's quality")
    data_share: float = Field(1.0, gt=0, le=1, description="of the training data that a cell sees")
    save_every: int = Field(
        5, ge=1, le=MAX_EPOCHS, description="iterations between two saved states"
    )
    silence_seconds: float = Field(
        30.0, ge=1, le=1e6, description="of ranks: without a sign of life a rank counts as lost"
    )
    threads: int | None = Field(None, ge=1, le=10_000, description="of TensorFlow, per process")
    seed: int = Field(1, ge=0, le=MAX_SEED)

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
        return f"{self.iterations} iterations of {self.rows}x{self.columns} cells"

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


def parse_grid(text: str) -> tuple[int, int]:
    """Returns rows and columns of text such as ``2x3``.

    Raises:
        ConfigError: It is none.
    """
    rows, mark, columns = text.lower().partition("x")
    if not (mark and rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
        raise ConfigError(f"--grid={text}: expected ROWSxCOLUMNS, such as --grid=2x3")
    return int(rows), int(columns)


def parse_schedule(text: str) -> tuple[Change, ...]:
    """Returns the changes of text such as ``5:moore,12:all``.

    Raises:
        ConfigError: It is none; names the valid neighbourhoods.
    """
    valid = Neighbourhood.__args__  # type: ignore[attr-defined]
    changes = []
    for part in text.split(","):
        iteration, _, name = part.strip().partition(":")
        if not iteration.isdecimal() or name not in valid:
            raise ConfigError(
                f"--neighbourhood-schedule={text}: expected ITERATION:NEIGHBOURHOOD, such as 5:moore;"
                f" the neighbourhoods are {', '.join(valid)}.{nearest(name, valid)}"
            )
        changes.append(Change(int(iteration), name))  # type: ignore[arg-type]
    return tuple(changes)
