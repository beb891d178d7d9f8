"""Cost of a deployment whose workers trained the trials of a search: by the states of the trials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.api.launch_cost import launch_cost
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import DataError
from cloudgan.reports.table import Table
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.run_document import read_plan
from cloudgan.schema.search_exchange import (
    BLOCKS,
    STATES,
    STATUS,
    BlockStatus,
    TrialStates,
    search_prefix,
)
from cloudgan.storage.store import ObjectMissingError, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.storage.store import Store

IDLE, REST = "idle blocks", "start and end of the nodes"
_NAMES = {
    "complete": "finished trials",
    "pruned": "pruned trials",
    "failed": "failed trials",
    "running": "unfinished trials",
}


@dataclass(frozen=True)
class JoinedCost:
    """Cost of a deployment by what its nodes did; None is unknown.

    Attributes:
        run: Name of the deployment.
        search: Name of the search.
        node_seconds: By part: trials of each state, idle blocks, start and end of the nodes.
        usd: Of all parts, at the price of the nodes.
        price_row: Price of a node.
    """

    run: str
    search: str
    node_seconds: Mapping[str, float]
    usd: float | None
    price_row: str | None

    @property
    def parts_usd(self) -> dict[str, float | None]:
        """Price of each part: its share of the node time."""
        whole, usd = math.fsum(self.node_seconds.values()), self.usd
        if usd is None or not whole:
            return dict.fromkeys(self.node_seconds)
        return {name: usd * seconds / whole for name, seconds in self.node_seconds.items()}

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return vars(self) | {"parts_usd": self.parts_usd}

    def table(self) -> Table:
        """Returns a row per part; all parts add up to the bill of the nodes."""
        usd = self.parts_usd
        rows = tuple((name, seconds, usd[name]) for name, seconds in self.node_seconds.items())
        return Table(("part", "node s", "USD"), rows, f"Nodes of {self.run}, by what they did.")

    def lines(self) -> Iterator[str]:
        """Yields the sum in words."""
        seconds = math.fsum(self.node_seconds.values())
        yield f"{self.run}: trials of the search {self.search} in {seconds:.4g} s of nodes"
        if self.usd is None:
            yield "cost of this run: unknown: its nodes have no price; give --price-as=OFFER"
        else:
            yield f"cost of this run: {self.usd:.4g} USD, as {self.price_row}"


def is_joined(folder: RunFolder) -> bool:
    """Whether the workers of a run trained the trials of a search."""
    config = folder.read_config()
    return config is not None and config.task == "join"


def joined_cost(
    folder: RunFolder, *, offer: str | None = None, price_file: Path | None = None
) -> JoinedCost:
    """Prices a deployment that joined a search, by launch.json and the documents of its blocks.

    Args:
        folder: Of the deployment.
        offer: Offer that prices nodes without a price of their own.
        price_file: File with the prices of your own nodes, for `offer`.

    Raises:
        DataError: The run has not ended, or a document is missing or damaged.
        StoreError: The store of the search failed.
    """
    name = folder.path.resolve().name
    file = folder.path / plans.FILE_NAME
    if not file.exists():
        raise DataError(f"{folder.path} has no plan.json; run `cloudgan adopt {name}`")
    plan = read_plan(file, name)
    found = launch_cost(folder, offer=offer, price_file=price_file)
    store = open_store(f"{plan.store.rstrip('/')}/{search_prefix(plan.config.join)}")
    blocks = [one for one in _blocks(store) if one.deployment == name]
    # The workers of this machine share it.
    per_node = plan.workers.nodes if plan.target.provider == launch.LOCAL else 1
    parts = node_parts(blocks, _states(store), found.node_seconds * per_node)
    return JoinedCost(
        run=name,
        search=plan.config.join,
        node_seconds={name: seconds / per_node for name, seconds in parts.items()},
        usd=found.usd,
        price_row=found.row.row_id if found.row else None,
    )


def node_parts(
    blocks: Sequence[BlockStatus], states: Mapping[int, str], whole_seconds: float
) -> dict[str, float]:
    """Divides the time of nodes; the parts add up to it.

    Args:
        blocks: Last statuses of all incarnations of the blocks.
        states: State by trial; a missing one is running.
        whole_seconds: Time of all nodes. Where the clocks of the blocks give more, their parts shrink.
    """
    parts = dict.fromkeys([*_NAMES.values(), IDLE], 0.0)
    for block in blocks:
        spells = [(one.trial, one.seconds) for one in block.spells]
        if block.trial is not None:
            spells.append((block.trial, max(0.0, block.seconds - block.trial_since)))
        for trial, seconds in spells:
            parts[_NAMES[states.get(trial, "running")]] += seconds
        parts[IDLE] += max(0.0, block.seconds - math.fsum(seconds for _, seconds in spells))
    known = math.fsum(parts.values())
    if known > whole_seconds:
        parts = {name: seconds * whole_seconds / known for name, seconds in parts.items()}
    return parts | {REST: max(0.0, whole_seconds - known)}


def _blocks(store: Store) -> Iterator[BlockStatus]:
    for name in store.list(f"{BLOCKS}/"):
        if name.endswith(f"/{STATUS}"):
            yield parse_model(store.read(name), BlockStatus, name)


def _states(store: Store) -> Mapping[int, str]:
    try:
        return parse_model(store.read(STATES), TrialStates, STATES).states
    except ObjectMissingError:
        return {}
