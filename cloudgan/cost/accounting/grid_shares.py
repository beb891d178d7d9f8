"""What the cells of a grid cost: the node time of its iterations by cell and routine, and idle ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cloudgan.schema.cell_line import ROUTINES, WAIT, CellLine
from cloudgan.schema.cost_report import Share
from cloudgan.schema.price_row import PriceRow

MASTER = "master"
OTHER = "other"
WITHOUT_CELL = "ranks without a cell"


class World(NamedTuple):
    """The ranks of a grid.

    Attributes:
        ranks: The master and those without a cell included.
        machines: On which they ran.
    """

    ranks: int
    machines: int


def grid_shares(
    cells: Mapping[str, Sequence[CellLine]], world: World | None, row: PriceRow | None
) -> tuple[Share, ...]:
    """Returns parts that add up to the node time of the iterations.

    Ranks run at the same time, and each has an equal share of the machines: that of a cell is divided by
    its own clock. In one process the cells follow each other.

    Args:
        cells: Records by name.
        world: None: all cells in one process.
        row: Price of a machine; None: unknown.
    """
    seconds = {name: _seconds(lines) for name, lines in cells.items()}
    parts = {
        f"cell {name}: {routine}": value
        for name, found in seconds.items()
        for routine, value in found.items()
    }
    if world:
        elapsed = max((math.fsum(found.values()) for found in seconds.values()), default=0.0)
        for name, found in seconds.items():
            parts[f"cell {name}: {OTHER}"] = elapsed - math.fsum(found.values())
        parts[MASTER] = elapsed
        parts[WITHOUT_CELL] = elapsed * (world.ranks - 1 - len(cells))
        share = world.machines / world.ranks
        parts = {name: value * share for name, value in parts.items()}
    return tuple(
        Share(name=name, node_seconds=value, usd=row.cost_usd(value) if row else None)
        for name, value in parts.items()
        if value > 0
    )


def _seconds(lines: Sequence[CellLine]) -> dict[str, float]:
    """Returns the seconds of a cell by routine."""
    return {
        routine: math.fsum(line.seconds.get(routine, 0.0) for line in lines)
        for routine in (*ROUTINES, WAIT)
    }
