"""State of a launched run: of its job, from its backend, and of its work, from its store; and what `deploy` shows of it."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import CloudganError, DataError, counted
from cloudgan.core.progress import Progress
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.operations.run_status import (
    RunStatus,
    State,
    record_facts,
    seconds_since,
)
from cloudgan.launch.plan.jobs import KINDS
from cloudgan.schema.cost_report import Totals, least
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.launch import THIS_MACHINE, Launch
from cloudgan.schema.plan import Plan
from cloudgan.schema.quality import epoch_row
from cloudgan.schema.record import parse, read_if_there
from cloudgan.schema.run_state import Phase, RunState
from cloudgan.speed.measured import CORES_PER_CHIP

_STATES: dict[Phase, State] = {
    "absent": "stopped",
    "waiting": "waiting",
    "starting": "waiting",
    "running": "running",
    "stopping": "running",
    "finished": "done",
    "failed": "failed",
    "stopped": "stopped",
}


def launched_status(plan: Plan, backend: JobBackend, *, is_ours: bool = True) -> RunStatus:
    """Returns the state of a launched run; records it in launch.json if the run is this folder's."""
    job = backend.state(plan.run)
    launch_log = LaunchLog.of(plan)
    results, folder = launch_log.results, launch_log.folder
    if is_ours:
        launch_log.record_state(job)
    beat = results.heartbeat() if results else None
    has_finished = beat is not None and beat.exit_code == 0 and job.phase in ("absent", "stopped")
    phase: Phase = "finished" if has_finished else job.phase
    is_here = folder.path.is_dir()
    found: dict[str, Any] = {}
    if is_here and plan.config.trains_one:
        with suppress(CloudganError):  # its store has a newer record
            found = record_facts(read_if_there(folder.record_file), folder.read_config())
    known = launch_log.read()
    found |= _progress(plan, beat, phase)
    found |= _money(launch_log, found["seconds_left"])
    found["usd_per_hour"] = _usd_per_hour(plan, job, phase)
    cells = results.grid_status() if results and plan.config.grid else None
    started = _started(known) or found.pop("started_at", None)
    warning = budget_warning(plan, found.get("usd"))
    has_begun = phase != "absent" or not results or beat or found.get("step")
    never = (
        "" if has_begun else "none of its workers has started; rerun the command that started it"
    )
    facts: dict[str, Any] = {
        "run": plan.run,
        "folder": str(folder.path) if is_here else None,
        "task": plan.config.job,
        "state": _STATES[phase],
        "reason": job.reason or (beat.message if beat and phase == "failed" else never),
        "provider": plan.target.provider,
        "where": where_of(plan),
        "budget": warning.line if warning else None,
        "deadline_seconds": plan.limits.deadline_seconds,
        "started_at": started,
        "age_seconds": seconds_since(started) if started else None,
        "phase": phase,
        "job": job,
        "heartbeat": beat,
        "grid": cells,
        "grid_age_seconds": seconds_since(cells.time) if cells else 0.0,
    }
    return RunStatus(**found | facts)


def _progress(plan: Plan, beat: Heartbeat | None, phase: Phase) -> dict[str, Any]:
    """Returns what the newest report of the workers says; nothing without one."""
    if beat is None:
        return {"seconds_left": None, "showers_per_second": None}
    kind = KINDS[plan.config.job]
    total = kind.total(plan.config, beat)
    done = beat.epoch or 0 if beat.showers is None else beat.showers
    if beat.exit_code == 0 and plan.config.trains_one:
        done = min(beat.epochs, done + 1)  # it counts the epoch that it was in
    is_running = phase == "running" and beat.phase == "training"
    seconds = beat.seconds_per_epoch
    found: dict[str, Any] = {
        "done": None if total is None else done,
        "total": total,
        "unit": kind.unit,
        "step": beat.step,
        "seconds_per_unit": seconds,
        "seconds_left": max(0, total - done) * seconds
        if seconds and is_running and total is not None
        else None,
        "showers_per_second": _showers_per_second(plan, beat) if is_running else None,
    }
    if quality := beat.quality:
        found |= {"metric_name": quality.name, "metric": quality.value, "note": str(quality)}
    return found


def _money(launch_log: LaunchLog, seconds_left: float | None) -> dict[str, Any]:
    """Returns what all attempts cost until now and until their expected end, beside the plan."""
    ledger, now = launch_log.ledger(), utc_moment()
    if ledger is None:
        return {}
    spent = ledger.until(now).total()
    found: dict[str, Any] = {"usd": spent.known_usd, "usd_unknown": spent.unknown}
    if seconds_left:
        end = now + timedelta(seconds=seconds_left)
        found["usd_at_end"] = ledger.until(end).known_usd
        found["usd_planned"] = launch_log.plan.usd
    return found


def _usd_per_hour(plan: Plan, job: RunState, phase: Phase) -> float | None:
    """Returns the price of the nodes that run now; None: unknown."""
    if plan.price is None:
        return None
    if job.nodes is not None:
        return plan.price.hourly_usd(sum(node.terminated_at is None for node in job.nodes))
    if plan.node_pool:  # nodes of a cloud outlive their job: their number is unknown
        return 0.0 if job.phase == "absent" else None
    return 0.0 if job.is_over or phase == "waiting" else plan.usd_per_hour


def _showers_per_second(plan: Plan, beat: Heartbeat) -> float | None:
    """Returns the showers per second of all workers; None before two steps are finished."""
    if not beat.steps_per_second:
        return None
    training, workers = plan.config.training, plan.workers
    accelerator = plan.price.accelerator if plan.price else workers.accelerator
    replicas = workers.accelerators_per_node * CORES_PER_CHIP.get(accelerator or "", 1)
    replicas = (replicas or training.replicas or 1) * workers.nodes
    batch = training.global_batch_size or plan.config.global_batch(replicas)
    return beat.steps_per_second * batch


def _started(known: Launch) -> str | None:
    """Returns the first time in launch.json; None: nothing was sent yet."""
    times = [
        when
        for attempt in known.attempts
        for when in (
            attempt.program_started_at,
            *(one.sent_at for one in attempt.requests),
            *(node.started_at for node in attempt.nodes),
        )
        if when
    ]
    return min(times).isoformat() if times else None


def where_of(plan: Plan) -> str:
    """Returns such as ``gcp 2 x L4 spot``, ``slurm 2 nodes`` or ``this machine, 2 nodes``."""
    workers, pool = plan.workers, plan.node_pool
    number = workers.nodes * max(1, workers.accelerators_per_node)
    name = plan.price.accelerator if plan.price and plan.price.accelerator else workers.accelerator
    if workers.accelerators_per_node and name:
        what = f"{number} x {name}"
    elif pool:
        what = f"{workers.nodes} x {pool.node_type}"
    else:
        what = f"{workers.nodes} nodes" if workers.nodes > 1 else ""
    if plan.target.provider == "local":
        return ", ".join(filter(None, (THIS_MACHINE, what)))
    return " ".join(filter(None, (plan.target.provider, what, pool.market if pool else "")))


_BUDGET_SHARES = (0.8, 0.5)


class RunWatch:
    """Receives each state of a run: records times, reports progress, warns of the budget."""

    def __init__(self, launch_log: LaunchLog, progress: Progress) -> None:
        self._launch_log, self._plan, self._progress = launch_log, launch_log.plan, progress
        self._results = launch_log.results
        self._done, self._rows = -1, 0
        self._warned_share = 0.0

    def see(self, state: RunState) -> None:
        """Processes the newest state."""
        self._launch_log.record_state(state)
        heartbeat = self._results.heartbeat() if self._results else None
        if heartbeat is not None:
            self._advance(heartbeat)
        spent = self.spent()
        warning = budget_warning(self._plan, spent.known_usd if spent else None)
        if warning is not None and warning.share > self._warned_share:
            self._warned_share = warning.share
            self._progress.say(warning.line)

    def spent(self) -> Totals | None:
        """Returns the cost until now; None: no price is known, or launch.json is damaged."""
        try:
            return self._launch_log.spent()
        except DataError:
            return None

    def _advance(self, heartbeat: Heartbeat) -> None:
        done = heartbeat.epoch or 0 if heartbeat.showers is None else heartbeat.showers
        config, run = self._plan.config, self._plan.run
        if self._done < 0:
            kind = KINDS[config.job]
            total = kind.total(config, heartbeat)
            unit = "" if total is None else kind.unit
            self._progress.start(kind.doing(config, run), total, unit, done=done)
            self._done = done
        if done > self._rows and config.trains_one:
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
        if (spent := self.spent()) is not None:
            parts.append(f"{least(spent.unknown)}{spent.known_usd:.2f} USD")
        if heartbeat.restarts:
            parts.append(f"{counted(heartbeat.restarts, 'restart')} without a newer checkpoint")
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
