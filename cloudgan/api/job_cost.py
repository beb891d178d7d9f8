"""Cost of a run that does not train: a simulation, a grid, a search, or a deployment that trained its trials.

All are one report: what the nodes cost, divided by what they did.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from cloudgan.coevolution.run_result import read_evolution
from cloudgan.coevolution.samples import is_grid
from cloudgan.core.durations import duration_text
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.launch.backends.run_document import read_plan
from cloudgan.launch.operations.run_status import read_status
from cloudgan.money.billing import LaunchCost, launch_cost
from cloudgan.money.shares import WITHOUT_CELL, grid_shares
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table, time_cell, usd_cell, usd_text
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.config import RunConfig
from cloudgan.schema.cost_report import Share
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import FILE_NAME, BlockStatus, search_prefix
from cloudgan.schema.simulation import SHARD_INFO
from cloudgan.search.blocks import BlockWatch
from cloudgan.search.folder import check_extra
from cloudgan.search.objectives import machine_seconds
from cloudgan.storage.store import StoreError, open_store

IDLE, REST = "idle blocks", "start and end of the nodes"
_TRIALS = {
    "complete": "finished trials",
    "pruned": "pruned trials",
    "failed": "failed trials",
    "unfinished": "unfinished trials",
}
_MOST_PARTS = 10
_OF_A_GRID = (
    "node time of the iterations, by the clocks of the cells; start-up and lost iterations are not"
    " recorded, so the cost is a lower bound"
)


class JobCostReport(Result):
    """Cost of a run by what its nodes did; None is unknown. A kind of run has some of the figures."""

    run: str
    search: str = ""
    showers: int | None = None
    node_seconds: float | dict[str, float] = Field(description="of a search, by part")
    trial_seconds: dict[int, float] = Field({})
    best: int | None = Field(None, description="trial")
    usd: float | None
    usd_unknown: tuple[str, ...] = ()
    usd_per_1000_showers: float | None = None
    parts_usd: dict[str, float | None] = Field({}, description="of a search, as node_seconds")
    finished_trial_usd: float | None = None
    best_trial_usd: float | None = None
    saved_by_pruning_usd: float | None = None
    price_row: str | None
    basis: str = ""
    shares: tuple[Share, ...] = Field((), description="of a grid")
    waiting_share_of_idle_cells: dict[str, float] = Field({})
    launched_node_seconds: float | None = Field(None, description="with start-up and lost work")
    launched_usd: float | None = None
    launched_usd_unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = Field((), exclude=True)

    @property
    def parts(self) -> tuple[tuple[str, float, float | None], ...]:
        """What nodes did, their seconds, and the USD; they add up to the whole."""
        if isinstance(self.node_seconds, dict):
            return tuple((part, s, self.parts_usd[part]) for part, s in self.node_seconds.items())
        return tuple((one.name, one.node_seconds or 0.0, one.usd) for one in self.shares)

    def as_json(self) -> dict[str, Any]:
        """Returns the figures of this kind of run."""
        known = self.model_dump(mode="json", exclude_unset=True)
        return {"schema_version": self.schema_version, **known}

    def view(self) -> View:
        """Returns the total, and the largest parts."""
        cost = "unknown: its nodes have no price; give --price-as=OFFER"
        if self.usd is not None:
            offer = (self.price_row or "").removeprefix("node/").removesuffix("/current")
            at_least = bool(self.usd_unknown or self.basis)
            cost = f"{_usd_text(self.usd, at_least)}{f', as {offer}' if offer else ''}"
        return View(
            line=f"{self.run}: {cost}",
            table=self._screen() if self.parts else None,
            notes=self.notes,
            basis=(self.basis, self.table()) if self.basis else (),
        )

    def table(self) -> Table:
        """Returns a row per part."""
        heads = ("part", "node seconds", "USD")
        return Table(heads, self.parts, f"{self.run}: {self.basis}.", "lrr")

    def _screen(self) -> Table:
        """Returns the parts, or the largest ones where -v shows all."""
        parts = sorted(self.parts, key=lambda part: -part[1]) if self.basis else [*self.parts]
        if len(parts) > _MOST_PARTS:
            rest = parts[_MOST_PARTS - 1 :]
            known = [usd for *_, usd in rest if usd is not None]
            seconds = math.fsum(part[1] for part in rest)
            others = (f"{len(rest)} others", seconds, math.fsum(known) if known else None)
            parts = [*parts[: _MOST_PARTS - 1], others]
        rows = tuple((name, time_cell(s), usd_cell(usd)) for name, s, usd in parts)
        return Table(("part", "node time", "USD"), rows, align="lrr")


def _usd_text(usd: float, at_least: bool) -> str:
    return f"{'at least ' if at_least else ''}{usd_text(usd)} USD"


def job_pricing(folder: RunFolder) -> Callable[..., JobCostReport] | None:
    """Returns the function that prices a run of this kind; None: it trains, and has a cost.json."""
    config = folder.read_config()
    if (folder.path / FILE_NAME).exists():
        return search_cost
    if config is not None and config.task == "simulate":
        return simulation_cost
    if config is not None and config.task == "join":
        return joined_cost
    return grid_cost if is_grid(folder) else None


def simulation_cost(folder: RunFolder, row: PriceRow | None = None) -> JobCostReport:
    """Prices a run that simulated, in total and per 1,000 showers; see `launch_cost`."""
    config = folder.read_config()
    if config is None:
        raise DataError(f"{folder.path} has no run.yaml; run `cloudgan adopt {folder.path.name}`")
    found = launch_cost(folder, row)
    showers = _showers(folder, config)
    each = 1000 * found.usd / showers if found.usd is not None and showers else None
    made = "an unknown number of" if showers is None else f"{showers:,}"
    notes = [f"{made} showers in {duration_text(found.node_seconds)} of nodes"]
    notes += [] if each is None else [f"{usd_text(each)} USD per 1,000 showers"]
    return JobCostReport(
        run=folder.path.resolve().name,
        showers=showers,
        node_seconds=found.node_seconds,
        usd=found.usd,
        usd_unknown=found.unknown,
        usd_per_1000_showers=each,
        price_row=found.price_row,
        notes=(*notes, *_unknown(found)),
    )


def _unknown(found: LaunchCost) -> Sequence[str]:
    is_part = found.usd is not None and found.unknown
    return [f"unknown: {', '.join(found.unknown)}"] if is_part else ()


def _showers(folder: RunFolder, config: RunConfig) -> int | None:
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


def grid_cost(folder: RunFolder, row: PriceRow | None = None) -> JobCostReport:
    """Prices the iterations of a grid by cell and routine, from the records of its cells."""
    found = read_evolution(folder.path)
    times = found.seconds
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
    launched, notes = None, []
    if folder.launch_file.exists():
        launched = launch_cost(folder, row)
        row, usd = launched.row, "an unknown price"
        if launched.usd is not None:
            usd = _usd_text(launched.usd, bool(launched.unknown))
        time = duration_text(launched.node_seconds)
        notes = [f"all attempts with start-up and lost iterations: {time} of nodes, {usd}"]
        notes += _unknown(launched)
    lines = {found.grid.name(number): lines for number, lines in enumerate(found.lines)}
    shares = grid_shares(lines, row, ranks=ranks, machines=machines)
    seconds = {one.name: one.node_seconds or 0.0 for one in shares}
    idle = times["waiting"]
    notes += [
        f"idle: cell {c} waited for the others for {s:.0%} of its time" for c, s in idle.items()
    ]
    if without := seconds.get(WITHOUT_CELL):
        notes.append(f"idle: {WITHOUT_CELL}, {duration_text(without)} of nodes")
    return JobCostReport(
        run=folder.path.resolve().name,
        node_seconds=math.fsum(seconds.values()),
        usd=math.fsum(one.usd or 0.0 for one in shares) if row else None,
        price_row=row.row_id if row else None,
        basis=_OF_A_GRID,
        shares=shares,
        waiting_share_of_idle_cells=idle,
        launched_node_seconds=launched.node_seconds if launched else None,
        launched_usd=launched.usd if launched else None,
        launched_usd_unknown=launched.unknown if launched else (),
        notes=tuple(notes),
    )


def joined_cost(folder: RunFolder, row: PriceRow | None = None) -> JobCostReport:
    """Prices a deployment that joined a search, by launch.json and the documents of its blocks."""
    name = folder.path.resolve().name
    file = folder.path / plans.FILE_NAME
    if not file.exists():
        raise DataError(f"{folder.path} has no plan.json; run `cloudgan adopt {name}`")
    plan = read_plan(file, name)
    found = launch_cost(folder, row)
    check_extra()
    from cloudgan.search.shared import open_published

    store = open_store(f"{plan.store.rstrip('/')}/{search_prefix(plan.config.join)}")
    blocks = [one for one in BlockWatch(store).statuses() if one.deployment == name]
    there = open_published(store, plan.config.join)
    # The workers of this machine share it.
    per_node = plan.workers.nodes if plan.target.provider == launch.LOCAL else 1
    time = node_time(blocks, found.node_seconds * per_node)
    cost = trials_cost(
        name,
        plan.config.join,
        {what: 1 / per_node * seconds for what, seconds in time.items()},
        there[1].states() if there else ({}, None),
        usd=found.usd,
        price_row=found.price_row,
        unknown=found.unknown,
    )
    return cost.model_copy(update={"notes": (*cost.notes, *_unknown(found))})


def search_cost(folder: RunFolder, row: PriceRow | None = None) -> JobCostReport:
    """Prices a search on this machine, by the time of its processes and the records of its trials.

    Without a row the machine has the price that the search was given.

    Raises:
        ConfigError: Deployments trained the trials.
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
    of_trials = machine_seconds(found, config, len(study.trials()))
    # A process that was killed noted no time of the machine.
    whole = max(study.machine_seconds, math.fsum(of_trials.values()))
    time = _filled(of_trials, whole, IDLE)
    spent = math.fsum(time.values())
    usd = row.cost_usd(spent) if row else config.usd(spent)
    price_row = row.row_id if row else config.priced_as or None
    run, states = str(folder.path), study.states()
    return trials_cost(run, name, time, states, usd=usd, price_row=price_row)


def node_time(blocks: Iterable[BlockStatus], whole_seconds: float) -> dict[int | str, float]:
    """Divides the time of nodes by trial, idle blocks, and start and end; the parts add up to it.

    Args:
        blocks: Last statuses of all incarnations of the blocks.
        whole_seconds: Time of all nodes.
    """
    found: dict[int | str, float] = {IDLE: 0.0}
    for block in blocks:
        spells = [(one.trial, one.seconds) for one in block.spells]
        if block.trial is not None:
            spells.append((block.trial, max(0.0, block.seconds - block.trial_since)))
        for trial, seconds in spells:
            found[trial] = found.get(trial, 0.0) + seconds
        found[IDLE] += max(0.0, block.seconds - math.fsum(seconds for _, seconds in spells))
    return _filled(found, whole_seconds, REST)


def _filled(found: Mapping[int | str, float], whole: float, rest: str) -> dict[int | str, float]:
    """Returns times with the rest of the whole; they shrink where clocks give more than it."""
    total = math.fsum(found.values())
    shrink = min(1.0, whole / total) if total else 1.0
    times = {what: shrink * seconds for what, seconds in found.items()}
    return times | {rest: max(0.0, whole - math.fsum(times.values()))}


def trials_cost(
    run: str,
    search: str,
    time: Mapping[int | str, float],
    states: tuple[Mapping[int, str], int | None],
    *,
    usd: float | None,
    price_row: str | None,
    unknown: tuple[str, ...] = (),
) -> JobCostReport:
    """Divides a cost by what nodes did for a search.

    Args:
        run: Deployment, or folder of a search on this machine.
        search: Its name.
        time: Node seconds of each trial with all its folds, of idle blocks, and of start and end.
        states: Of the trials, and the best one; None: none is complete.
        usd: Of the whole time; None: unknown.
        price_row: Price of a node.
        unknown: What the cost lacks.
    """
    whole, (state_of, best) = math.fsum(time.values()), states
    trials = {trial: seconds for trial, seconds in time.items() if isinstance(trial, int)}
    by_state: dict[str, list[float]] = {state: [] for state in _TRIALS}
    for trial, spent in trials.items():
        by_state[state_of.get(trial, "unfinished")].append(spent)
    seconds = {part: math.fsum(by_state[state]) for state, part in _TRIALS.items()}
    seconds |= {part: time.get(part, 0.0) for part in (IDLE, REST)}

    # A share of a sum, not of a ledger: a search on this machine keeps a price per hour and no price row.
    def usd_of(spent: float | None) -> float | None:
        return None if usd is None or spent is None or not whole else usd * spent / whole

    parts = {part: usd_of(spent) for part, spent in seconds.items()}
    finished, pruned, notes = by_state["complete"], by_state["pruned"], []
    each = usd / len(finished) if usd is not None and finished else None
    of_best = None if best is None else usd_of(trials.get(best))
    saved = None
    if finished and pruned:
        mean = statistics.fmean(finished)
        saved = usd_of(math.fsum(max(0.0, mean - spent) for spent in pruned))
    if each is not None:
        count = len(finished)
        notes = [f"{usd_text(each)} USD per finished trial, the whole cost over {count}"]
    if of_best is not None:
        notes.append(f"best trial, {best}: {usd_text(of_best)} USD")
    if saved is not None:
        text = f"about {usd_text(saved)} USD, if pruned trials took the mean time"
        notes.append(f"saved by pruning: {text}")
    return JobCostReport(
        run=run,
        search=search,
        node_seconds=seconds,
        trial_seconds=trials,
        best=best,
        usd=usd,
        usd_unknown=unknown,
        parts_usd=parts,
        finished_trial_usd=each,
        best_trial_usd=of_best,
        saved_by_pruning_usd=saved,
        price_row=price_row,
        notes=tuple(notes),
    )
