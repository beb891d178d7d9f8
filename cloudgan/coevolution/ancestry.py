"""Ancestry of a generator through the cells, from their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cloudgan.schema.cell_line import CellLine
from cloudgan.schema.coevolution import AdversarialLoss


class Ancestor(NamedTuple):
    """A generator that was trained in an iteration of a cell.

    Attributes:
        name: ``CELL/ITERATION/NUMBER``.
        cell: Name of the cell that trained it.
        iteration: Counted from 1.
        loss: Adversarial loss it was trained with.
        rate: Learning rate it was trained with.
        parent: Name of the generator that it was trained from.
    """

    name: str
    cell: str
    iteration: int
    loss: AdversarialLoss
    rate: float
    parent: str


def ancestry(name: str, records: Mapping[str, Sequence[CellLine]]) -> tuple[Ancestor, ...]:
    """Returns a generator and those it descends from, the newest first.

    It ends at a generator with initial weights, or where a record lacks the iteration.

    Args:
        name: Of the generator.
        records: By name of the cell.
    """
    lines = {cell: {line.iteration: line for line in record} for cell, record in records.items()}
    found = []
    while (ancestor := _read(name, lines)) is not None:
        found.append(ancestor)
        name = ancestor.parent
    return tuple(found)


def _read(name: str, lines: Mapping[str, Mapping[int, CellLine]]) -> Ancestor | None:
    cell, _, rest = name.partition("/")
    iteration, _, individual = rest.partition("/")
    number = individual.removeprefix("g")
    if not (iteration.isdecimal() and number.isdecimal()):
        return None
    line = lines.get(cell, {}).get(int(iteration))
    if line is None or int(number) >= len(line.losses):
        return None
    place = int(number)
    return Ancestor(
        *(name, cell, int(iteration)),
        *(line.losses[place], line.rates[place], line.selected[place]),
    )
