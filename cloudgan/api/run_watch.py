"""What `deploy` shows while it follows a run, and the warnings of its budget."""

from __future__ import annotations

from typing import NamedTuple

from cloudgan.core.clock import utc_moment
from cloudgan.core.durations import format_duration
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Progress
from cloudgan.launch.provisioning.launch_log import LaunchLog, spent_usd
from cloudgan.launch.provisioning.run_results import RunResults
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_state import RunState

_BUDGET_SHARES = (0.8, 0.5)


class RunWatch:
    """Receives each state of a run: records times, reports progress, warns of the budget."""

    def __init__(
        self, plan: Plan, launch_log: LaunchLog, results: RunResults | None, progress: Progress
    ) -> None:
        self._plan, self._launch_log, self._results = plan, launch_log, results
        self._progress = progress
        self._done = -1
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
            return usd_so_far(self._launch_log)
        except DataError:
            return None

    def _advance(self, heartbeat: Heartbeat) -> None:
        done = heartbeat.epoch or 0 if heartbeat.showers is None else heartbeat.showers
        if self._done < 0:
            config, run = self._plan.config, self._plan.run
            if config.task == "simulate":
                self._progress.start(f"simulating {run}", config.simulation.showers, "showers")
            elif config.task == "join":
                self._progress.start(f"training trials of {config.join} in {run}")
            elif config.grid:
                self._progress.start(f"evolving {run}", heartbeat.epochs, "iterations")
            else:
                self._progress.start(f"training {run}", heartbeat.epochs, "epochs")
            self._done = 0
        note = progress_note(self._plan, heartbeat, self.usd_so_far())
        self._progress.advance(max(0, done - self._done), note)
        self._done = max(done, self._done)


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


def usd_so_far(launch_log: LaunchLog) -> float:
    """Returns the cost until now by launch.json."""
    return spent_usd(launch_log.read(), utc_moment().timestamp())
