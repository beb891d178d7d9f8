"""Launched runs: `status`, `list_runs`, `log_lines`, `cancel`, `down` and `adopt`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.api.grid_status import GridView
from cloudgan.api.targets import (
    THIS_FOLDER,
    check_not_trained,
    find_run,
    known_plans,
    local_config,
    open_backend,
    run_folder,
)
from cloudgan.core.clock import utc_moment
from cloudgan.core.durations import format_duration
from cloudgan.core.errors import CloudganError, ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.launch.provisioning.apply import record_deprovision
from cloudgan.launch.provisioning.launch_log import LaunchLog, spent_usd
from cloudgan.launch.provisioning.log_merging import merge_logs
from cloudgan.launch.provisioning.run_results import RunResults
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.epoch_row import epoch_row
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.record import parse
from cloudgan.schema.run_document import read_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cloudgan.core.progress import Progress
    from cloudgan.launch.backends.job_backend import JobBackend
    from cloudgan.schema.heartbeat import Heartbeat
    from cloudgan.schema.plan import Plan
    from cloudgan.schema.run_state import LogLine, RunState

_BUDGET_SHARES = (0.8, 0.5)
_HEADS = ("run", "state", "target", "progress", "USD so far")


@dataclass(frozen=True)
class RunStatus:
    """State of a launched run.

    Attributes:
        plan: Its plan.
        state: State of its job and workers.
        phase: Phase of the run; finished if its job is deleted and its store has the results.
        heartbeat: The newest report of its workers.
        usd_so_far: Cost until now; None: no price is known.
        cells: Those of a grid, as its master wrote last; None: it wrote nothing, or the run has none.
    """

    plan: Plan
    state: RunState
    phase: str
    heartbeat: Heartbeat | None
    usd_so_far: float | None
    cells: GridView | None = None

    @property
    def progress(self) -> str | None:
        """Step, throughput, cost and remaining time in one line."""
        return progress_note(self.plan, self.heartbeat, self.usd_so_far) if self.heartbeat else None

    @property
    def budget(self) -> str | None:
        """Warning if a large share of the budget is spent."""
        warning = budget_warning(self.plan, self.usd_so_far)
        return warning.line if warning else None

    def as_json(self) -> dict[str, Any]:
        """Returns the status as a JSON object."""
        nodes = self.state.nodes
        return {
            "run": self.plan.run,
            "where": self.plan.target.describe(),
            **asdict(replace(self.state, nodes=None)),
            "nodes": None if nodes is None else [node.model_dump(mode="json") for node in nodes],
            "phase": self.phase,
            "heartbeat": self.heartbeat.model_dump(mode="json") if self.heartbeat else None,
            "progress": self.progress,
            "usd_so_far": self.usd_so_far,
            "budget": self.budget,
            "deadline_seconds": self.plan.limits.deadline_seconds,
            **({"grid": self.cells.as_json()} if self.cells else {}),
        }

    def _repr_html_(self) -> str:
        from cloudgan.reports.table import Table

        row = (
            self.plan.run,
            self.phase,
            self.plan.target.describe(),
            self.progress or self.state.reason,
            self.usd_so_far,
        )
        return _html(Table(_HEADS, (row,)))


class CancelResult(NamedTuple):
    """Result of `cancel`: the run, and the files that were fetched."""

    run: str
    fetched: tuple[str, ...]


class DownResult(NamedTuple):
    """Result of `down`.

    Attributes:
        run: Name of the run.
        removed: Deleted resources.
        purged_files: Number of files deleted from the store.
        usd: Cost of the run; None: no price is known.
    """

    run: str
    removed: tuple[str, ...]
    purged_files: int
    usd: float | None


class AdoptResult(NamedTuple):
    """Result of `adopt`: plan and phase of the run, its number of attempts, and fetched files."""

    plan: Plan
    phase: str
    attempts: int
    fetched: tuple[str, ...]


def status(
    name: str, *, locator: RunLocator = THIS_FOLDER, progress: Progress | None = None
) -> RunStatus:
    """Returns the state of a launched run and its cost so far.

    Args:
        name: Name of the run.
        locator: Where the run is, if another folder or machine started it.
        progress: Receives a line when a cluster is unavailable.

    Raises:
        ConfigError: The run does not exist there.
    """
    plan, backend = find_run(name, locator, (progress or Silent()).say)
    return _status(plan, backend)


def list_runs(progress: Progress | None = None) -> tuple[RunStatus, ...]:
    """Returns the state of all runs that this folder launched.

    Args:
        progress: Receives a line when a cluster is unavailable.

    Raises:
        CloudganError: A backend cannot be queried.
    """
    say = (progress or Silent()).say
    return tuple(
        _status(plan, open_backend(plan.target, say, store=plan.store)) for plan in known_plans()
    )


def _status(plan: Plan, backend: JobBackend) -> RunStatus:
    state = backend.state(plan.run)
    results = RunResults.from_plan(plan)
    launch_log = LaunchLog(run_folder(plan), plan, results)
    launch_log.record_state(state)
    heartbeat = results.heartbeat() if results else None
    cells = results.grid_status() if results and plan.config.grid else None
    is_finished = (
        heartbeat is not None
        and heartbeat.exit_code == 0
        and state.is_over
        and state.phase in ("absent", "stopped")
    )
    return RunStatus(
        plan=plan,
        state=state,
        phase="finished" if is_finished else state.phase,
        heartbeat=heartbeat,
        usd_so_far=_usd_so_far(launch_log) if plan.price else None,
        cells=GridView.of(plan.run, cells) if cells else None,
    )


def log_lines(
    name: str,
    *,
    locator: RunLocator = THIS_FOLDER,
    follow: bool = False,
    progress: Progress | None = None,
) -> Iterator[LogLine]:
    """Yields what the workers of a run printed, merged by time; from its store if its job is gone.

    Args:
        name: Name of the run.
        locator: Where the run is, if another folder or machine started it.
        follow: Wait for new lines until the run ends.
        progress: Receives a line when a cluster is unavailable.

    Raises:
        ConfigError: The run does not exist there, or has printed nothing.
    """
    plan, backend = find_run(name, locator, (progress or Silent()).say)
    is_empty = True
    for line in merge_logs(backend, plan.run, follow=follow):
        is_empty = False
        yield line
    results = RunResults.from_plan(plan) if is_empty else None
    for line in results.log_lines() if results else ():
        is_empty = False
        yield line
    if is_empty:
        raise ConfigError(
            f"run {plan.run} has printed nothing yet; see `cloudgan status {plan.run}`"
        )


def cancel(
    name: str, *, locator: RunLocator = THIS_FOLDER, progress: Progress | None = None
) -> CancelResult:
    """Stops the job of a run, after its workers saved a checkpoint; `deploy` resumes it.

    Args:
        name: Name of the run.
        locator: Where the run is, if another folder or machine started it.
        progress: Receives each task.

    Raises:
        ConfigError: The run does not exist there.
    """
    progress = progress or Silent()
    plan, backend = find_run(name, locator, progress.say)
    results = RunResults.from_plan(plan)
    launch_log = LaunchLog(run_folder(plan), plan, results)

    def stop() -> tuple[str, ...]:
        backend.stop(plan.run)
        return ()

    _end(backend, plan, launch_log, stop, task=f"stopping {plan.run}", progress=progress)
    fetched = results.fetch_if_reachable(run_folder(plan), progress.say) if results else []
    return CancelResult(plan.run, tuple(fetched))


def down(
    name: str,
    *,
    locator: RunLocator = THIS_FOLDER,
    purge: bool = False,
    approve_purge: Callable[[Plan], None] = lambda _: None,
    progress: Progress | None = None,
) -> DownResult:
    """Stops a run and deletes its resources; a second call finds nothing.

    Record and checkpoints stay in the store unless `purge` is set, and in runs/NAME.

    Args:
        name: Name of the run.
        locator: Where the run is, if another folder or machine started it.
        purge: Delete the run's folder in the store, too.
        approve_purge: Called before anything is deleted; raises ConfirmationError to stop.
        progress: Receives each task.

    Raises:
        ConfigError: The run does not exist there.
        ForeignDocumentError: A document names another run, owner, store or account.
    """
    progress = progress or Silent()
    plan, backend = find_run(name, locator, progress.say)
    results = RunResults.from_plan(plan)
    launch_log = LaunchLog(run_folder(plan), plan, results)
    if purge and results:
        results.check_purge()
        approve_purge(plan)
    removed = _end(
        backend,
        plan,
        launch_log,
        lambda: backend.destroy(plan.run),
        task=f"deleting the resources of {plan.run}",
        progress=progress,
    )
    if results and not purge:
        results.fetch_if_reachable(run_folder(plan), progress.say)
    purged = results.purge() if results and purge else 0
    usd = _usd_so_far(launch_log) if plan.price else None
    return DownResult(plan.run, removed, purged, usd)


def _end(
    backend: JobBackend,
    plan: Plan,
    launch_log: LaunchLog,
    action: Callable[[], Iterable[str]],
    *,
    task: str,
    progress: Progress,
) -> tuple[str, ...]:
    """Runs `action`, records the state before and after it; returns what was deleted."""
    launch_log.record_state(backend.state(plan.run))
    progress.start(task)
    removed = []
    for deleted in record_deprovision(backend, plan, launch_log, action):
        progress.say(f"deleted: {deleted}")
        removed.append(deleted)
    launch_log.record_state(backend.state(plan.run))
    return tuple(removed)


def adopt(
    name: str, *, locator: RunLocator = THIS_FOLDER, progress: Progress | None = None
) -> AdoptResult:
    """Imports a run that another machine started: writes plan, times and record into runs/NAME.

    Args:
        name: Name of the run.
        locator: Where the run is.
        progress: Receives each task.

    Raises:
        ConfigError: The run does not exist there, or runs/NAME has another run.
    """
    progress = progress or Silent()
    plan, backend = find_run(name, locator, progress.say)
    check_not_trained(plan)
    folder = run_folder(plan)
    plan_file = folder.path / plans.FILE_NAME
    if plan_file.exists() and read_plan(plan_file, plan.run).spec_hash != plan.spec_hash:
        raise ConfigError(
            f"{plan_file.parent} has another run with this name; move it away, or adopt in another"
            " folder"
        )
    state = backend.state(plan.run)
    results = RunResults.from_plan(plan)
    launch_log = LaunchLog(folder, plan, results)
    known = launch_log.read()  # a damaged one is refused before anything is written
    folder.write_config(local_config(plan))
    plans.write(plan_file, plan)
    launch.write(folder.launch_file, known)
    launch_log.record_state(state)
    if plan.node_pool and not state.is_over:
        launch_log.record_nodes(backend.nodes(plan.run))
    fetched = results.fetch_if_reachable(folder, progress.say) if results else []
    return AdoptResult(plan, state.phase, len(launch_log.read().attempts), tuple(fetched))


class RunWatch:
    """Receives each state of a run: records times, reports progress, warns of the budget."""

    def __init__(
        self, plan: Plan, launch_log: LaunchLog, results: RunResults | None, progress: Progress
    ) -> None:
        self._plan, self._launch_log, self._results = plan, launch_log, results
        self._progress = progress
        self._done, self._rows = -1, 0
        self._warned_share = 0.0

    def see(self, state: RunState) -> None:
        """Processes the newest state."""
        self._launch_log.record_state(state)
        heartbeat = self._results.heartbeat() if self._results else None
        if heartbeat is not None:
            self._advance(heartbeat)
        warning = budget_warning(self._plan, self.usd_so_far())
        if warning is not None and warning.share > self._warned_share:
            self._warned_share = warning.share
            self._progress.say(warning.line)

    def usd_so_far(self) -> float | None:
        """Returns the cost until now; None: no price is known."""
        if self._plan.price is None:
            return None
        try:
            return _usd_so_far(self._launch_log)
        except DataError:
            return None

    def _advance(self, heartbeat: Heartbeat) -> None:
        done = heartbeat.epoch or 0 if heartbeat.showers is None else heartbeat.showers
        config, run = self._plan.config, self._plan.run
        if self._done < 0:
            task: tuple[str, float | None, str]
            if config.task == "simulate":
                task = f"simulating {run}", config.simulation.showers, "showers"
            elif config.task == "join":
                task = f"training trials of {config.join} in {run}", None, ""
            elif config.grid:
                task = f"evolving {run}", heartbeat.epochs, "iterations"
            else:
                task = f"training {run}", heartbeat.epochs, "epochs"
            self._progress.start(*task, done=done)
            self._done = done
        if done > self._rows and config.task == "train" and not config.grid:
            self._say_epochs(done)
        self._progress.advance(max(0, done - self._done), self._note(heartbeat))
        self._done = max(done, self._done)

    def _say_epochs(self, done: int) -> None:
        """Says the epochs until `done` that were not said yet, from the record in the store."""
        try:
            content = self._results.read_record() if self._results else None
            found = parse(content or b"", "record.jsonl")
        except CloudganError:  # the store is away: with the next heartbeat
            return
        validated = {line.step: line for line in found.validations()}
        for line in found.epochs():
            if self._rows <= line.epoch < done:
                self._progress.say(epoch_row(line, validated.get(line.step)))
        self._rows = done

    def _note(self, heartbeat: Heartbeat) -> str:
        """Quality, cost and restarts, with two spaces between them."""
        parts: list[str] = [heartbeat.phase] if heartbeat.phase != "training" else []
        if heartbeat.quality and heartbeat.quality.value is not None:
            parts.append(f"{heartbeat.quality.name} {heartbeat.quality.value:.4g}")
        if (usd := self.usd_so_far()) is not None:
            parts.append(f"{usd:.2f} USD")
        if heartbeat.restarts:
            parts.append(f"{heartbeat.restarts} restarts without a newer checkpoint")
        return "  ".join(parts)


class BudgetWarning(NamedTuple):
    """Warning that a share of the budget is spent."""

    share: float
    line: str


def budget_warning(plan: Plan, usd: float | None) -> BudgetWarning | None:
    """Returns the warning for the largest exceeded share of the budget; None: no warning."""
    budget = plan.limits.budget_usd
    if budget is None or usd is None:
        return None
    share = max((share for share in _BUDGET_SHARES if usd >= share * budget), default=None)
    if share is None:
        return None
    return BudgetWarning(
        share, f"{usd:.2f} USD of a budget of {budget:.2f} USD are spent: more than {share:.0%}"
    )


def progress_note(plan: Plan, heartbeat: Heartbeat, usd: float | None) -> str:
    """Returns step, throughput, cost and remaining time in one line."""
    parts = [heartbeat.phase if heartbeat.step is None else f"step {heartbeat.step}"]
    if heartbeat.showers is not None:
        parts = [f"{heartbeat.showers:,} of {plan.work} in finished shards"]
    if heartbeat.quality:
        parts.append(str(heartbeat.quality))
    seconds = heartbeat.seconds_per_epoch
    remaining = (heartbeat.epochs - (heartbeat.epoch or 0)) * (seconds or 0)
    if seconds:
        parts.append(f"{format_duration(seconds)} per epoch")
        if remaining > 0:
            parts.append(f"{format_duration(remaining)} left")
    if usd is not None:
        parts.append(f"{usd:.2f} USD so far")
        if seconds and plan.usd_per_second:
            parts.append(f"{usd + remaining * plan.usd_per_second:.2f} USD at the end")
    if heartbeat.restarts:
        parts.append(f"restarted {heartbeat.restarts} times without a newer checkpoint")
    return ", ".join(parts)


def _usd_so_far(launch_log: LaunchLog) -> float:
    return spent_usd(launch_log.read(), utc_moment().timestamp())


def _html(table: Any) -> str:
    from cloudgan.reports.table import table_html

    return table_html(table)
