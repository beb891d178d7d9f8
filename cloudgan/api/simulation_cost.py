"""Cost of a run that simulated: in total and per 1,000 showers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from cloudgan.api.launch_cost import cost_text, launch_cost
from cloudgan.core.durations import duration_text
from cloudgan.core.errors import DataError
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import usd_text

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.schema.run_folder import RunFolder


class SimulationCost(Result):
    """Cost of a simulation; None is unknown."""

    run: str
    showers: int
    node_seconds: float = Field(description="sum over nodes of the time of all attempts")
    usd: float | None = Field(description="at the price of the nodes")
    usd_per_1000_showers: float | None
    price_row: str | None

    def view(self) -> View:
        """Returns the figures in words."""
        line = f"{self.run}: {cost_text(self.usd, self.price_row)}"
        notes = [f"{self.showers:,} showers in {duration_text(self.node_seconds)} of nodes"]
        if self.usd_per_1000_showers is not None:
            notes.append(f"{usd_text(self.usd_per_1000_showers)} USD per 1,000 showers")
        return View(line, notes=tuple(notes))


def is_simulation(folder: RunFolder) -> bool:
    """Whether the run of a folder simulates."""
    config = folder.read_config()
    return config is not None and config.task == "simulate"


def simulation_cost(
    folder: RunFolder, *, offer: str | None = None, price_file: Path | None = None
) -> SimulationCost:
    """Prices a run that simulated, by the times of its attempts in launch.json.

    Args:
        folder: Of the run.
        offer: Offer that prices nodes without a price of their own.
        price_file: File with the prices of your own nodes, for `offer`.

    Raises:
        DataError: The run has not ended, or its launch.json is missing or damaged.
        UnknownNameError: No offer has this name.
    """
    config = folder.read_config()
    if config is None:
        raise DataError(f"{folder.path} has no run.yaml; run `cloudgan adopt {folder.path.name}`")
    found = launch_cost(folder, offer=offer, price_file=price_file)
    showers = config.simulation.showers
    return SimulationCost(
        run=folder.path.resolve().name,
        showers=showers,
        node_seconds=found.node_seconds,
        usd=found.usd,
        usd_per_1000_showers=None if found.usd is None else 1000 * found.usd / showers,
        price_row=found.row.row_id if found.row else None,
    )
