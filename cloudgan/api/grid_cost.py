"""Cost of a grid of cells by cell and routine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from cloudgan.api.launch_cost import LaunchCost, cost_text, launch_cost
from cloudgan.coevolution.run_result import read_evolution
from cloudgan.core.durations import duration_text
from cloudgan.core.errors import DataError
from cloudgan.launch.operations.run_status import read_status
from cloudgan.money.price_file import catalog_with
from cloudgan.money.shares import WITHOUT_CELL, grid_shares
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table, time_cell, usd_cell, usd_text
from cloudgan.schema.cost_report import Share
from cloudgan.schema.run_folder import RunFolder

_MOST_PARTS = 10
_BASIS = (
    "node time of the iterations, by the clocks of the cells; start-up and lost iterations are not"
    " recorded, so the cost is a lower bound"
)


class GridCost(Result):
    """Cost of the iterations of a grid; None is unknown."""

    run: str
    shares: tuple[Share, ...] = Field(
        description="by cell and routine, of the master, and of ranks without a cell"
    )
    idle: dict[str, float] = Field(
        description="share of waiting in the time of each cell that waited for more than a tenth"
    )
    price_row: str | None = Field(description="price of a machine")
    launched: LaunchCost | None = Field(
        default=None, description="all attempts, with what the shares lack; None: not launched"
    )

    @property
    def node_seconds(self) -> float:
        """Of all parts."""
        return math.fsum(share.node_seconds or 0.0 for share in self.shares)

    @property
    def usd(self) -> float | None:
        """Of all parts; None without a price."""
        if self.price_row is None:
            return None
        return math.fsum(share.usd or 0.0 for share in self.shares)

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return {
            "schema_version": self.schema_version,
            "run": self.run,
            "node_seconds": self.node_seconds,
            "usd": self.usd,
            "price_row": self.price_row,
            "basis": _BASIS,
            "shares": [share.model_dump(mode="json") for share in self.shares],
            "waiting_share_of_idle_cells": dict(self.idle),
            "launched_node_seconds": self.launched.node_seconds if self.launched else None,
            "launched_usd": self.launched.usd if self.launched else None,
        }

    def view(self) -> View:
        """Returns the total, the largest parts, and what was idle."""
        ranked = sorted(self.shares, key=lambda one: -(one.node_seconds or 0.0))
        shown = ranked if len(ranked) <= _MOST_PARTS else ranked[: _MOST_PARTS - 1]
        rows = [(one.name, time_cell(one.node_seconds or 0.0), usd_cell(one.usd)) for one in shown]
        if rest := ranked[len(shown) :]:
            usd = None if self.usd is None else math.fsum(one.usd or 0.0 for one in rest)
            seconds = math.fsum(one.node_seconds or 0.0 for one in rest)
            rows.append((f"{len(rest)} others", time_cell(seconds), usd_cell(usd)))
        return View(
            line=f"{self.run}: {cost_text(self.usd, self.price_row, 'at least ')}",
            table=Table(("part", "node time", "USD"), tuple(rows), align="lrr"),
            notes=tuple(self._notes()),
            basis=(_BASIS, self.table()),
        )

    def table(self) -> Table:
        """Returns a row per part."""
        rows = tuple((share.name, share.node_seconds, share.usd) for share in self.shares)
        return Table(("part", "node seconds", "USD"), rows, f"{self.run}: {_BASIS}.", "lrr")

    def _notes(self) -> Iterator[str]:
        if self.launched:
            usd = self.launched.usd
            price = "an unknown price" if usd is None else f"{usd_text(usd)} USD"
            time = duration_text(self.launched.node_seconds)
            yield f"all attempts with start-up and lost iterations: {time} of nodes, {price}"
        for cell, share in self.idle.items():
            yield f"idle: cell {cell} waited for the others for {share:.0%} of its time"
        without = {share.name: share.node_seconds for share in self.shares}.get(WITHOUT_CELL)
        if without:
            yield f"idle: {WITHOUT_CELL}, {duration_text(without)} of nodes"


def grid_cost(
    folder: RunFolder, *, offer: str | None = None, price_file: Path | None = None
) -> GridCost:
    """Prices the iterations of a grid from the records of its cells."""
    found = read_evolution(folder.path)
    times = found.times
    if times is None:
        raise DataError(
            f"{folder.path}: no cell has recorded an iteration; run `cloudgan evolve"
            f" --run={folder.path}`"
        )
    ranks, machines = None, 1
    if found.config.engine == "ranks":
        status = read_status(folder)
        nodes = status.nodes if status else ()
        ranks = max(sum(node.ranks for node in nodes), found.grid.cells + 1)
        machines = max(1, len(nodes))
    row, launched = catalog_with(price_file).row(offer) if offer else None, None
    if folder.launch_file.exists():
        launched = launch_cost(folder, offer=offer, price_file=price_file)
        row = launched.row
    return GridCost(
        run=folder.path.resolve().name,
        shares=grid_shares(
            {found.grid.name(number): lines for number, lines in enumerate(found.lines)},
            row,
            ranks=ranks,
            machines=machines,
        ),
        idle=times.waiting(),
        price_row=row.row_id if row else None,
        launched=launched,
    )
