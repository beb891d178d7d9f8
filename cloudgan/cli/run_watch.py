"""Shows a launched run while it runs: one bar with epoch, speed and money, and each change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.cli.durations import shown
from cloudgan.core.clock import utc_moment
from cloudgan.core.errors import DataError
from cloudgan.launching.ledger import spent_usd

if TYPE_CHECKING:
    from cloudgan.core.heartbeat import Heartbeat
    from cloudgan.core.plan import Plan
    from cloudgan.core.progress import Progress
    from cloudgan.core.run_state import RunState
    from cloudgan.launching.ledger import Ledger
    from cloudgan.launching.results import Results

_WARNINGS = (0.8, 0.5)


class RunWatch:
    """Gets every state of a run; notes times, shows progress, warns of the budget."""

    def __init__(
        self, plan: Plan, ledger: Ledger, results: Results | None, progress: Progress
    ) -> None:
        self._plan, self._ledger, self._results = plan, ledger, results
        self._progress = progress
        self._epochs = -1
        self._warned = 0.0

    def see(self, state: RunState) -> None:
        """Takes the newest state."""
        self._ledger.see(state)
        beat = self._results.heartbeat() if self._results else None
        if beat is not None:
            self._show(beat)
        self._warn()

    def _show(self, beat: Heartbeat) -> None:
        done = beat.epoch or 0
        if self._epochs < 0:
            self._progress.start(f"training {self._plan.run}", beat.epochs, "epochs")
            self._epochs = 0
        self._progress.advance(max(0, done - self._epochs), note(self._plan, beat, self.usd()))
        self._epochs = max(done, self._epochs)

    def usd(self) -> float | None:
        """Returns the money so far; None where nobody said a price."""
        if self._plan.price is None:
            return None
        try:
            return spent_usd(self._ledger.read(), utc_moment().timestamp())
        except DataError:
            return None

    def _warn(self) -> None:
        told = budget_note(self._plan, self.usd())
        if told is not None and told.share > self._warned:
            self._warned = told.share
            self._progress.say(told.line)


class BudgetNote(NamedTuple):
    """How much of a budget is gone.

    Attributes:
        share: The largest share that a warning is given at and that is passed.
        line: The warning.
    """

    share: float
    line: str


def budget_note(plan: Plan, usd: float | None) -> BudgetNote | None:
    """Returns the warning that is due; None below the first share, or without a budget."""
    budget = plan.limits.budget_usd
    if budget is None or usd is None:
        return None
    passed = [share for share in _WARNINGS if usd >= share * budget]
    if not passed:
        return None
    share = max(passed)
    return BudgetNote(
        share, f"{usd:.2f} USD of a budget of {budget:.2f} are spent: more than {share:.0%}"
    )


def note(plan: Plan, beat: Heartbeat, usd: float | None) -> str:
    """Returns one line: step, speed, money, time left."""
    parts = [beat.phase if beat.step is None else f"step {beat.step}"]
    if beat.quality:
        parts.append(str(beat.quality))
    if beat.seconds_per_epoch:
        parts.append(f"{shown(beat.seconds_per_epoch)} per epoch")
        left = (beat.epochs - (beat.epoch or 0)) * beat.seconds_per_epoch
        if left > 0:
            parts.append(f"{shown(left)} left")
    if usd is not None:
        parts.append(f"{usd:.2f} USD so far")
        if beat.seconds_per_epoch and plan.usd_per_second:
            left = (beat.epochs - (beat.epoch or 0)) * beat.seconds_per_epoch
            parts.append(f"{usd + left * plan.usd_per_second:.2f} USD at the end")
    if beat.restarts:
        parts.append(f"restarted {beat.restarts} times without a newer checkpoint")
    return ", ".join(parts)


def state_json(state: RunState) -> dict[str, Any]:
    """Returns a state as JSON."""
    from dataclasses import asdict, replace

    nodes = state.nodes
    told = None if nodes is None else [node.model_dump(mode="json") for node in nodes]
    return asdict(replace(state, nodes=None)) | {"nodes": told}
