"""Cost of a search, or of a deployment whose workers trained its trials: by the states of the trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from cloudgan.api.launch_cost import cost_text, launch_cost
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.money.price_file import catalog_with
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table, time_cell, usd_cell, usd_text
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_document import read_plan
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import FILE_NAME
from cloudgan.schema.search_exchange import BlockStatus, search_prefix
from cloudgan.search.block_watch import BlockWatch
from cloudgan.search.folder import check_extra
from cloudgan.search.objectives import seconds_of_runs
from cloudgan.storage.store import open_store

IDLE, REST = "idle blocks", "start and end of the nodes"
_NAMES = {
    "complete": "finished trials",
    "pruned": "pruned trials",
    "failed": "failed trials",
    "running": "unfinished trials",
}


class NodeTime(NamedTuple):
    """What nodes did; all parts add up to their time.

    Attributes:
        by_trial: Node seconds of each trial with all its folds.
        idle: Of blocks that waited.
        rest: Start and end of the nodes.
    """

    by_trial: Mapping[int, float]
    idle: float
    rest: float

    @property
    def whole(self) -> float:
        """Node seconds of all parts."""
        return math.fsum((*self.by_trial.values(), self.idle, self.rest))

    def times(self, factor: float) -> NodeTime:
        """Returns all parts times `factor`."""
        trials = {trial: factor * seconds for trial, seconds in self.by_trial.items()}
        return NodeTime(trials, factor * self.idle, factor * self.rest)

    def at_most(self, whole_seconds: float) -> NodeTime:
        """Returns the parts, shrunk where the clocks of the blocks give more than the whole time."""
        return self.times(min(1.0, whole_seconds / self.whole)) if self.whole else self


class SearchCost(Result):
    """Cost of trials by what the nodes did; None is unknown."""

    run: str = Field(description="deployment, or folder of a search on this machine")
    search: str
    time: NodeTime
    states: dict[int, str] = Field(description="of the trials")
    best: int | None = Field(description="trial with the best objective; None: none is complete")
    usd: float | None = Field(description="of the whole time, at the price of the nodes")
    price_row: str | None = Field(description="price of a node")

    @property
    def node_seconds(self) -> dict[str, float]:
        """Time by part: trials of each state, idle blocks, start and end of the nodes."""
        parts = {
            part: math.fsum(self._seconds_of(state).values()) for state, part in _NAMES.items()
        }
        return parts | {IDLE: self.time.idle, REST: self.time.rest}

    @property
    def parts_usd(self) -> dict[str, float | None]:
        """Price of each part: its share of the node time."""
        return {name: self._usd_of(seconds) for name, seconds in self.node_seconds.items()}

    @property
    def finished_trial_usd(self) -> float | None:
        """The whole price over the number of finished trials; None without any."""
        finished = len(self._seconds_of("complete"))
        return self.usd / finished if self.usd is not None and finished else None

    @property
    def best_trial_usd(self) -> float | None:
        """Price of the time of the best trial; None: these nodes did not train it."""
        return None if self.best is None else self._usd_of(self.time.by_trial.get(self.best))

    @property
    def saved_by_pruning_usd(self) -> float | None:
        """Price of the time that pruned trials lack to the mean finished one; None without both."""
        finished, pruned = self._seconds_of("complete"), self._seconds_of("pruned")
        if not finished or not pruned:
            return None
        mean = statistics.fmean(finished.values())
        return self._usd_of(math.fsum(max(0.0, mean - seconds) for seconds in pruned.values()))

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return {
            "schema_version": self.schema_version,
            "run": self.run,
            "search": self.search,
            "node_seconds": self.node_seconds,
            "trial_seconds": dict(self.time.by_trial),
            "best": self.best,
            "usd": self.usd,
            "parts_usd": self.parts_usd,
            "finished_trial_usd": self.finished_trial_usd,
            "best_trial_usd": self.best_trial_usd,
            "saved_by_pruning_usd": self.saved_by_pruning_usd,
            "price_row": self.price_row,
        }

    def view(self) -> View:
        """Returns the sum, what the nodes did, and what trials cost."""
        usd = self.parts_usd
        rows = tuple(
            (name, time_cell(seconds), usd_cell(usd[name]))
            for name, seconds in self.node_seconds.items()
        )
        return View(
            line=f"{self.run}: {cost_text(self.usd, self.price_row)}",
            table=Table(("part", "node time", "USD"), rows, align="lrr"),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        finished = len(self._seconds_of("complete"))
        if self.finished_trial_usd is not None:
            each = usd_text(self.finished_trial_usd)
            yield f"{each} USD per finished trial, the whole cost over {finished}"
        if self.best_trial_usd is not None:
            yield f"best trial, {self.best}: {usd_text(self.best_trial_usd)} USD"
        if self.saved_by_pruning_usd is not None:
            saved = usd_text(self.saved_by_pruning_usd)
            yield f"saved by pruning: about {saved} USD, if pruned trials took the mean time"

    def _seconds_of(self, state: str) -> dict[int, float]:
        known = self.time.by_trial.items()
        return {trial: s for trial, s in known if self.states.get(trial, "running") == state}

    def _usd_of(self, seconds: float | None) -> float | None:
        whole = self.time.whole
        if self.usd is None or seconds is None or not whole:
            return None
        return self.usd * seconds / whole


def is_joined(folder: RunFolder) -> bool:
    """Whether the workers of a run trained the trials of a search."""
    config = folder.read_config()
    return config is not None and config.task == "join"


def joined_cost(
    folder: RunFolder, *, offer: str | None = None, price_file: Path | None = None
) -> SearchCost:
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
    check_extra()
    from cloudgan.search.shared import open_published

    store = open_store(f"{plan.store.rstrip('/')}/{search_prefix(plan.config.join)}")
    blocks = [one for one in BlockWatch(store).statuses() if one.deployment == name]
    there = open_published(store, plan.config.join)
    states, best = there[1].states() if there else ({}, None)
    # The workers of this machine share it.
    per_node = plan.workers.nodes if plan.target.provider == launch.LOCAL else 1
    time = node_time(blocks, found.node_seconds * per_node)
    return SearchCost(
        run=name,
        search=plan.config.join,
        time=time.times(1 / per_node),
        states=states,
        best=best,
        usd=found.usd,
        price_row=found.row.row_id if found.row else None,
    )


def is_search(folder: RunFolder) -> bool:
    """Whether a folder holds a search."""
    return (folder.path / FILE_NAME).exists()


def search_cost(
    folder: RunFolder, *, offer: str | None = None, price_file: Path | None = None
) -> SearchCost:
    """Prices a search on this machine, by the time of its processes and the records of its trials.

    Args:
        folder: Of the search.
        offer: Offer whose price this machine has; None: that of the search.
        price_file: File with the prices of your own nodes, for `offer`.

    Raises:
        ConfigError: Deployments trained the trials.
        DataError: A document is damaged.
    """
    check_extra()
    from cloudgan.search.study import read_study

    found, config, study = read_study(folder.path)
    name = folder.path.resolve().name
    if config.store:
        raise ConfigError(
            f"{folder.path}: deployments trained the trials; give the folder of one, which `cloudgan deploy"
            f" -- join {name}` printed"
        )
    seconds = {}
    for trial in study.trials():
        runs = [RunFolder(found.run(run)) for run in config.runs_of(trial.number)]
        seconds[trial.number] = seconds_of_runs(read_if_whole(run.record_file) for run in runs)
    shares = {trial: taken / config.blocks for trial, taken in seconds.items() if taken}
    row = catalog_with(price_file).row(offer) if offer else None
    per_hour = row.usd_per_hour if row else config.usd_per_hour
    whole = study.machine_seconds or math.fsum(shares.values())
    time = NodeTime(shares, 0.0, 0.0).at_most(whole)
    time = time._replace(idle=max(0.0, whole - time.whole))
    states, best = study.states()
    return SearchCost(
        run=str(folder.path),
        search=name,
        time=time,
        states=states,
        best=best,
        usd=None if per_hour is None else time.whole / HOUR_SECONDS * per_hour,
        price_row=row.row_id if row else config.priced_as or None,
    )


def node_time(blocks: Iterable[BlockStatus], whole_seconds: float) -> NodeTime:
    """Divides the time of nodes; the parts add up to it.

    Args:
        blocks: Last statuses of all incarnations of the blocks.
        whole_seconds: Time of all nodes.
    """
    trials: dict[int, float] = {}
    idle = 0.0
    for block in blocks:
        spells = [(one.trial, one.seconds) for one in block.spells]
        if block.trial is not None:
            spells.append((block.trial, max(0.0, block.seconds - block.trial_since)))
        for trial, seconds in spells:
            trials[trial] = trials.get(trial, 0.0) + seconds
        idle += max(0.0, block.seconds - math.fsum(seconds for _, seconds in spells))
    time = NodeTime(trials, idle, 0.0).at_most(whole_seconds)
    return time._replace(rest=max(0.0, whole_seconds - time.whole))
