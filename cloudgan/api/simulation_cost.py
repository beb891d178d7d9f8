"""Cost of a run that simulated: in total and per 1,000 showers."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from cloudgan.api.launch_cost import cost_text, launch_cost
from cloudgan.core.durations import duration_text
from cloudgan.core.errors import DataError
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import usd_text
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.simulation import SHARD_INFO
from cloudgan.storage.store import StoreError, open_store


class SimulationCost(Result):
    """Cost of a simulation; None is unknown."""

    run: str
    showers: int | None = Field(description="that were made; None: unknown")
    node_seconds: float = Field(description="sum over nodes of the time of all attempts")
    usd: float | None = Field(description="at the price of the nodes")
    usd_per_1000_showers: float | None
    price_row: str | None

    def view(self) -> View:
        """Returns the figures in words."""
        line = f"{self.run}: {cost_text(self.usd, self.price_row)}"
        made = "an unknown number of" if self.showers is None else f"{self.showers:,}"
        notes = [f"{made} showers in {duration_text(self.node_seconds)} of nodes"]
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
    showers = _made(folder, config)
    return SimulationCost(
        run=folder.path.resolve().name,
        showers=showers,
        node_seconds=found.node_seconds,
        usd=found.usd,
        usd_per_1000_showers=1000 * found.usd / showers
        if found.usd is not None and showers
        else None,
        price_row=found.row.row_id if found.row else None,
    )


def _made(folder: RunFolder, config: RunConfig) -> int | None:
    """Returns the showers that a run made: all of them, or those of the shards in its store; None: unknown."""
    ended = launch.read(folder.launch_file).attempts[-1].end_reason or ""
    if ended.startswith("finished"):
        return config.simulation.showers
    file = folder.path / plans.FILE_NAME
    if not file.exists():
        return None
    plan = plans.read(file)
    try:
        return config.simulation.finished(
            len(open_store(plan.store).list(f"runs/{plan.run}/{SHARD_INFO}/"))
        )
    except StoreError:
        return None
