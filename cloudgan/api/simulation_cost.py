"""Cost of a run that simulated: in total and per 1,000 showers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.api.launch_cost import launch_cost
from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cloudgan.schema.run_folder import RunFolder


@dataclass(frozen=True)
class SimulationCost:
    """Cost of a simulation; None is unknown.

    Attributes:
        run: Name of the run.
        showers: Showers that it simulates in all.
        node_seconds: Sum over nodes of the time of all attempts.
        usd: At the price of the nodes.
        usd_per_1000_showers: The same by showers.
        price_row: Price of a node.
    """

    run: str
    showers: int
    node_seconds: float
    usd: float | None
    usd_per_1000_showers: float | None
    price_row: str | None

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yields the figures in words."""
        yield f"{self.run}: {self.showers:,} showers in {self.node_seconds:.4g} s of nodes"
        if self.usd is None or self.usd_per_1000_showers is None:
            yield "cost of this run: unknown: its nodes have no price; give --price-as=OFFER"
            return
        yield f"cost of this run: {self.usd:.4g} USD, as {self.price_row}"
        yield f"{self.usd_per_1000_showers:.4g} USD per 1,000 showers"


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
