"""`status` and `logs` of all runs; `cancel`, `down` and `adopt` of launched ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from pydantic import Field

from cloudgan.core.children import tail_lines
from cloudgan.core.clock import utc_moment
from cloudgan.core.command import command
from cloudgan.core.durations import parse_since
from cloudgan.core.errors import CloudganError, ConfigError, UnknownNameError, counted
from cloudgan.core.file_lock import holder
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.run_document import read_plan
from cloudgan.launch.lifecycle.apply import record_deprovision
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.log_merging import LogSource, merge_logs
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.launch.operations.launched_run import launched_status
from cloudgan.launch.operations.run_status import (
    SIGNS,
    RunList,
    RunStatus,
    State,
    local_status,
)
from cloudgan.launch.operations.targets import (
    THIS_FOLDER,
    check_not_trained,
    find_run,
    local_config,
    open_backend,
    runs_elsewhere,
    runs_of,
)
from cloudgan.reports.result import Result, View
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.cost_report import least
from cloudgan.schema.launch import THIS_MACHINE
from cloudgan.schema.options.runs import (
    AdoptOptions,
    CancelOptions,
    DownOptions,
    LogsOptions,
    RunOptions,
)
from cloudgan.schema.options.shared import RunLocator
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_folder import RunFolder, find_run_folder, known_runs
from cloudgan.schema.run_state import LogLine
from cloudgan.search.blocks import LOG as BLOCK_LOG


class CancelResult(Result):
    """Result of `cancel`."""

    run: str
    state: State
    was_over: bool = Field(description="the run had ended before, and nothing was stopped")
    had_started: bool = Field(True, description="a worker had, so that it may have a checkpoint")
    fetched: tuple[str, ...] = Field((), description="files that came from the store")

    def view(self) -> View:
        """Returns what was done, and the command that goes on."""
        if self.was_over:
            return View(
                f"{self.run} is {self.state} already: nothing was stopped",
                commands=((f"cloudgan status {self.run}", "shows it"),),
            )
        how = (
            "stopped after a checkpoint" if self.had_started else "stopped before a worker started"
        )
        return View(
            f"{self.run} is {how}; the same `cloudgan deploy` continues it",
            notes=(f"fetched: {', '.join(self.fetched)}",) if self.fetched else (),
            commands=((f"cloudgan down {self.run}", "deletes its resources"),),
            done=True,
        )


class DownResult(Result):
    """Result of `down`; the cost is None if no price is known."""

    run: str
    removed: tuple[str, ...] = Field(description="deleted resources")
    purged_files: int = Field(description="deleted from the store")
    store: str
    usd: float | None = Field(description="known cost of the run")
    usd_unknown: tuple[str, ...] = Field((), description="what usd lacks")

    def view(self) -> View:
        """Returns what was deleted, and the cost."""
        count = len(self.removed)
        notes = (
            [f"{counted(self.purged_files, 'file')} deleted from {self.store}"]
            if self.purged_files
            else []
        )
        commands = []
        if self.usd is not None:
            notes.append(f"cost {least(self.usd_unknown) or 'about '}{self.usd:.2f} USD")
            commands.append((f"cloudgan cost {self.run}", "shows what it is made of"))
        what = f"{count} deleted" if count else "nothing to delete"
        return View(f"{self.run}: {what}", notes=tuple(notes), commands=tuple(commands), done=True)


class SweepResults(Result):
    """What `cancel` or `down` did with each run of a sweep of seeds."""

    sweep: str
    runs: tuple[CancelResult | DownResult, ...]

    def view(self) -> View:
        """Returns a line per run."""
        notes = tuple(line for one in self.runs for line in (one.view().line, *one.view().notes))
        return View(f"{self.sweep}: {counted(len(self.runs), 'run')}", notes=notes, done=True)


class AdoptResult(Result):
    """Result of `adopt`."""

    run: str
    state: State
    folder: str
    attempts: int
    fetched: tuple[str, ...] = ()

    def view(self) -> View:
        """Returns where the run is now."""
        notes = (f"fetched: {', '.join(self.fetched)}",) if self.fetched else ()
        line = f"{self.run} is in {self.folder}: {SIGNS[self.state]} {self.state}, attempts: {self.attempts}"
        return View(
            line, notes=notes, commands=((f"cloudgan status {self.run}", "shows it"),), done=True
        )


@command
def status(options: RunOptions, *, progress: Progress | None = None) -> RunStatus | RunList:
    """Returns the state of a run and its cost so far; without a name, of all runs.

    Args:
        options: A run, and where it is.
        progress: Receives a line when a cluster is unavailable.

    Raises:
        ConfigError: There is no such run; names the nearest one.
    """
    run, locator = options.run, options.locator
    say = (progress or Silent()).say
    if run is None:
        if locator != THIS_FOLDER:
            raise ConfigError(
                "the flags of a cluster or a cloud find one run: give its name too; without them all runs of this"
                " folder and of its clouds are listed"
            )
        return _all_runs(say)
    names = runs_of(run, locator)
    if len(names) > 1:
        return RunList(runs=tuple(launched_status(*find_run(one, locator, say)) for one in names))
    if locator == THIS_FOLDER and (folder := _trained_here(run)):
        return local_status(folder)
    return launched_status(*find_run(run, locator, say))


def _trained_here(run: str) -> RunFolder | None:
    """Returns the folder of a run that was not launched, or that `train` continues at the moment."""
    try:
        folder = find_run_folder(run)
    except UnknownNameError:
        return None  # perhaps one of a cluster
    is_launched = (folder.path / plans.FILE_NAME).exists()
    return None if is_launched and not holder(folder.lock_file) else folder


def _all_runs(say: Callable[[str], None]) -> RunList:
    """Returns the runs of this folder, newest first; one that cannot be read or asked is unknown."""
    found, known, warnings = [], [], list[str]()
    for path in known_runs():
        try:
            folder = _trained_here(str(path))
            if folder is None:
                plan = read_plan(path / plans.FILE_NAME, path.name)
                known.append(plan)
                found.append(
                    launched_status(plan, open_backend(plan.target, say, store=plan.store))
                )
            else:
                found.append(local_status(folder))
        except CloudganError as error:
            where = "-" if folder is None else THIS_MACHINE
            reason = str(error)
            found.append(
                RunStatus(
                    run=path.name, folder=str(path), state="unknown", where=where, reason=reason
                )
            )
            warnings.append(f"{path.name}: {reason}")
    for plan, backend in runs_elsewhere(known, warnings.append):
        try:
            found.append(launched_status(plan, backend, is_ours=False))
        except CloudganError as error:
            warnings.append(f"{plan.run}: {error}")
    found.sort(key=lambda one: one.age_seconds if one.age_seconds is not None else math.inf)
    return RunList(runs=tuple(found), warnings=tuple(warnings))


@command
def logs(options: LogsOptions, *, progress: Progress | None = None) -> Iterator[LogLine]:
    """Yields what the workers of a run printed, merged by time; from its store if its job is gone.

    Args:
        options: A run, and which of its lines.
        progress: Receives a line when a cluster is unavailable.

    Raises:
        ConfigError: The run does not exist there, or has printed nothing that is kept.
    """
    name, locator, since, lines = options.run, options.locator, options.since, options.lines
    moment = parse_since(since, "--since", utc_moment()) if since else None
    merged = partial(merge_logs, follow=options.follow, since=moment, last=lines)
    if locator == THIS_FOLDER and (folder := _trained_here(name)):
        yield from merged(_local_sources(folder), lambda: not holder(folder.lock_file))
        return
    plan, backend = find_run(name, locator, (progress or Silent()).say)
    is_over = lambda: backend.state(plan.run).is_over
    is_empty = True
    for line in merged(partial(backend.log_sources, plan.run), is_over):
        is_empty = False
        yield line
    if not is_empty or ((since or lines is not None) and backend.log_sources(plan.run)):
        return
    results = RunResults.from_plan(plan)
    stored = {"store": lambda _: results.log_lines()} if results else {}
    for line in merge_logs(lambda: stored, is_over, follow=False, since=moment, last=lines):
        is_empty = False
        yield line
    if is_empty and not since and lines != 0:
        raise ConfigError(
            f"run {plan.run} has printed nothing yet; see `cloudgan status {plan.run}`"
        )


def _local_sources(folder: RunFolder) -> Callable[[], dict[str, LogSource]]:
    """Returns the log files of a run of this machine: of its workers, or of the block that trains a trial."""

    def source(index: int, path: Path) -> LogSource:
        over = lambda: holder(folder.lock_file) is None
        return lambda follow: (
            LogLine(index, "", text) for text in tail_lines(path, over if follow else None)
        )

    files = [*sorted(folder.logs.glob("worker-*.log")), *folder.path.glob(BLOCK_LOG)]
    if not files:
        raise ConfigError(
            f"{folder.path} was made in a terminal, which has what it printed; no file keeps it. `cloudgan status"
            f" {folder.path}` shows its progress, and record.jsonl in the folder has a line per epoch"
        )
    return lambda: {path.stem: source(number, path) for number, path in enumerate(files)}


@command
def cancel(
    options: CancelOptions, *, progress: Progress | None = None
) -> CancelResult | SweepResults:
    """Stops the job of a run, after its workers saved a checkpoint; `deploy` resumes it.

    Args:
        options: A run, and where it is.
        progress: Receives each task.

    Raises:
        ConfigError: The run does not exist there, or was not launched.
    """
    name, locator = options.run, options.locator
    names = runs_of(name, locator)
    found = tuple(_cancel(one, locator, progress or Silent()) for one in names)
    return found[0] if len(found) == 1 else SweepResults(sweep=name, runs=found)


def _cancel(name: str, locator: RunLocator, progress: Progress) -> CancelResult:
    plan, backend = find_run(name, locator, progress.say)
    before = launched_status(plan, backend)
    was_over = before.state not in ("running", "waiting", "unknown")
    ended_as = "finished" if before.state == "done" else "stopped"
    if was_over and plan.node_pool is None:
        tuple(backend.deprovision(plan.run, ended_as))  # a job that never started left its secrets
        return CancelResult(run=plan.run, state=before.state, was_over=True)
    launch_log = LaunchLog.of(plan)

    def stop() -> Iterable[str]:
        if was_over:  # its nodes may have been left, as by a `deploy` that was killed
            return backend.deprovision(plan.run, ended_as)
        backend.stop(plan.run)
        return ()

    _end(backend, launch_log, stop, task=f"stopping {plan.run}", progress=progress)
    fetched = launch_log.fetch(progress.say)
    state: State = before.state if was_over else "stopped"
    return CancelResult(
        run=plan.run,
        state=state,
        was_over=was_over,
        had_started=before.state == "running" or before.heartbeat is not None,
        fetched=fetched,
    )


@command
def down(
    options: DownOptions,
    *,
    confirm: Callable[[str], None] = lambda _: None,
    progress: Progress | None = None,
) -> DownResult | SweepResults:
    """Stops a run and deletes its resources; a second call finds nothing.

    Args:
        options: A run, and where it is.
        confirm: Called with a question before a store is purged; raises ConfirmationError to stop.
        progress: Receives each task.

    Raises:
        ConfigError: The run does not exist there.
        ForeignDocumentError: A document names another run, owner, store or account.
    """
    name, locator, purge = options.run, options.locator, options.purge

    def approve_purge(plan: Plan) -> None:
        confirm(f"Delete all checkpoints and logs of {plan.run} in {plan.store}?")

    names = runs_of(name, locator)
    found = tuple(
        _down(one, locator, approve_purge if purge else None, progress or Silent()) for one in names
    )
    return found[0] if len(found) == 1 else SweepResults(sweep=name, runs=found)


def _down(
    name: str,
    locator: RunLocator,
    approve_purge: Callable[[Plan], None] | None,
    progress: Progress,
) -> DownResult:
    plan, backend = find_run(name, locator, progress.say)
    launch_log = LaunchLog.of(plan)
    results = launch_log.results
    if approve_purge and results:
        results.check_purge()
        approve_purge(plan)
    removed = _end(
        backend,
        launch_log,
        lambda: backend.destroy(plan.run),
        task=f"deleting the resources of {plan.run}",
        progress=progress,
    )
    if not approve_purge:
        launch_log.fetch(progress.say)
    purged = results.purge() if results and approve_purge else 0
    spent = launch_log.spent()
    return DownResult(
        run=plan.run,
        removed=removed,
        purged_files=purged,
        store=plan.store,
        usd=spent.known_usd if spent else None,
        usd_unknown=spent.unknown if spent else (),
    )


def _end(
    backend: JobBackend,
    launch_log: LaunchLog,
    action: Callable[[], Iterable[str]],
    *,
    task: str,
    progress: Progress,
) -> tuple[str, ...]:
    """Runs `action`, records the state before and after it; returns what was deleted."""
    run = launch_log.plan.run
    launch_log.record_state(backend.state(run))
    progress.start(task)
    removed = []
    for deleted in record_deprovision(backend, launch_log, action):
        progress.say(f"deleted: {deleted}")
        removed.append(deleted)
    launch_log.record_state(backend.state(run))
    return tuple(removed)


@command
def adopt(options: AdoptOptions, *, progress: Progress | None = None) -> AdoptResult:
    """Imports a run that another machine started: writes plan, times and record into runs/NAME.

    Args:
        options: A run, and where it is.
        progress: Receives each task.

    Raises:
        ConfigError: The run does not exist there, or runs/NAME has another run.
    """
    name, locator = options.run, options.locator
    progress = progress or Silent()
    plan, backend = find_run(name, locator, progress.say)
    check_not_trained(plan)
    launch_log = LaunchLog.of(plan)
    folder = launch_log.folder
    plan_file = folder.path / plans.FILE_NAME
    if plan_file.exists() and read_plan(plan_file, plan.run).spec_hash != plan.spec_hash:
        raise ConfigError(
            f"{plan_file.parent} has another run with this name; move it away, or adopt in another"
            " folder"
        )
    state = backend.state(plan.run)
    known = launch_log.read()  # a damaged one is refused before anything is written
    folder.write_config(local_config(plan))
    plans.write(plan_file, plan)
    launch.write(folder.launch_file, known)
    launch_log.record_state(state)
    if plan.node_pool and not state.is_over:
        launch_log.record_nodes(backend.nodes(plan.run))
    fetched = launch_log.fetch(progress.say)
    return AdoptResult(
        run=plan.run,
        state=launched_status(plan, backend).state,
        folder=str(folder.path),
        attempts=len(launch_log.read().attempts),
        fetched=fetched,
    )
