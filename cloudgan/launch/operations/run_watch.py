"""What `deploy` shows while it follows a run, and the warnings of its budget."""

from __future__ import annotations

from typing import NamedTuple

from cloudgan.core.errors import CloudganError, DataError, counted
from cloudgan.core.progress import Progress
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.plan.jobs import KINDS
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.plan import Plan
from cloudgan.schema.quality import epoch_row
from cloudgan.schema.record import parse
from cloudgan.schema.run_state import RunState

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
        warning = budget_warning(self._plan, self.usd_so_far())
        if warning is not None and warning.share > self._warned_share:
            self._warned_share = warning.share
            self._progress.say(warning.line)

    def usd_so_far(self) -> float | None:
        """Returns the cost until now; None: no price is known, or launch.json is damaged."""
        try:
            return self._launch_log.usd()
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
        if (usd := self.usd_so_far()) is not None:
            parts.append(f"{usd:.2f} USD")
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
