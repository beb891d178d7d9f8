"""`CellLine`, one line of a cell's record.jsonl: what an iteration did and how long it took."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict, Field

from cloudgan.core.document import Document
from cloudgan.core.documents import bounded_lines, parse_json, validated
from cloudgan.schema.coevolution import AdversarialLoss
from cloudgan.schema.record_line import Loss

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
    generator_fitness: Loss
    discriminator_fitness: Loss
    rates: tuple[float, ...]
    losses: tuple[AdversarialLoss, ...]
    selected: tuple[str, ...]
    entered: int = Field(ge=0)
    best: tuple[str, str]
    members: dict[int, float]
    score: Loss
    details: dict[str, Loss] = Field(default_factory=dict)
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
