"""Monitors a run to its end, stops runs that cannot progress, and reports the outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.durations import HOUR_SECONDS, format_duration
from cloudgan.core.errors import (
    BudgetError,
    CapacityError,
    CloudganError,
    LaunchError,
    StockOutError,
    counted,
)
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_state import Cause, RunState, WorkerState
from cloudgan.storage.store import STORE_FAILED

_SETUP_SECONDS: Final = 30.0
"""A container may lack a part of its configuration this long before the run is stopped."""
_IMAGE: Final = "correct --image, or add a pull secret of its registry to the service account"
_HINTS: Final[dict[Cause, str]] = {
    "image": _IMAGE,
    "registry": f"check that the nodes can reach the registry; {_IMAGE}",
    "runtime": "see `kubectl describe pod`, replace that node, and deploy again",
    "configuration": "check that the secrets given by --kubernetes-secrets exist",
    "eviction": "use nodes with more of it; an --image that contains cloudgan needs no space for wheels",
}
"""How to correct what keeps a pod from running."""
_STORE_FAILURES: Final = 3
_STORE_SECONDS: Final = 1800.0
"""A worker that gives up on its store so often, and within such pauses, has no role or no bucket there."""
_LOOK_EVERY_SECONDS: Final = 5.0
_SETTLE_SECONDS: Final = 30.0


@dataclass
class RunMonitor:
    """Polls one run until it is over."""

    provider: JobBackend
    plan: Plan
    say: Callable[[str], None]
    on_state: Callable[[RunState], None]

    def __post_init__(self) -> None:
        self._began = self._queued_at = monotonic_seconds()
        self._stuck_since: float | None = None
        self._failed_at: float | None = None
        self._were_all_up = False
        self._reported: dict[str, str] = {}
        self._replaced: dict[int, int] = {}
        self._store_failures: dict[int, tuple[int, float]] = {}

    def follow(self) -> RunState:
        """Returns the final state of the run.

        Raises:
            LaunchError: The run cannot start (image, memory, configuration) and was stopped.
            CapacityError: Not all workers started in time; the run was stopped.
        """
        while True:
            state = self.provider.state(self.plan.run)
            self._report(state)
            self.on_state(state)
            if state.is_over and not self._is_settling(state):
                return state
            if not state.is_over:
                self._were_all_up |= state.phase == "running"
                self._end_if_hopeless(state)
                self._end_if_late(state)
            self.provider.wait_for_change(self.plan.run, self._pause_seconds())

    def _is_settling(self, state: RunState) -> bool:
        """Whether a failed Job still has pods, so that its end time is not known yet."""
        if state.phase != "failed" or state.ended_at:
            return False
        now = monotonic_seconds()
        self._failed_at = now if self._failed_at is None else self._failed_at
        return now - self._failed_at < self.plan.workers.grace_seconds + _SETTLE_SECONDS

    def _pause_seconds(self) -> float:
        """Seconds until the next poll, at most until the next limit."""
        now, ends = monotonic_seconds(), []
        if not self._were_all_up:
            ends.append(self._began + self.plan.limits.gang_timeout_seconds)
        if self._stuck_since is not None:
            ends.append(self._stuck_since + _SETUP_SECONDS)
        left = [end - now for end in ends if end > now]
        return min([_LOOK_EVERY_SECONDS, *left])

    def _report(self, state: RunState) -> None:
        wanted = self.plan.workers.nodes
        up = state.count("running", "done")
        running = "" if state.is_over else f": {up} of {counted(wanted, 'worker')} running"
        lines = {"phase": f"{state.phase}{running}"}
        if state.reason:
            lines["why"] = state.reason
        for key, line in lines.items():
            if self._reported.get(key) != line:
                self._reported[key] = line
                self.say(line)
        for worker in state.workers:
            if worker.restarts > self._replaced.get(worker.index, 0):
                self._replaced[worker.index] = worker.restarts
                why = f" ({worker.reason})" if worker.reason else ""
                self.say(f"worker {worker.index} was replaced{why}")
                self._end_if_store_stays_away(worker)

    def _end_if_store_stays_away(self, worker: WorkerState) -> None:
        """Ends a run whose pods only wait for their store, while their nodes are billed."""
        if not worker.reason:
            return
        now = monotonic_seconds()
        count, since = self._store_failures.get(worker.index, (0, now))
        failed = STORE_FAILED in worker.reason
        count = count + 1 if failed and now - since < _STORE_SECONDS else int(failed)
        self._store_failures[worker.index] = count, now
        if count == _STORE_FAILURES:
            self._end(
                f"worker {worker.index}: {worker.reason}, {count} times in a row; check the role of the pods"
                " and their store: `cloudgan check` with the same flags"
            )

    def _end_if_hopeless(self, state: RunState) -> None:
        if state.cause == "memory":
            memory = self.plan.workers.memory_gib
            self._end(
                f"{state.reason}; its limit is {memory:g} GiB. Give --memory-gib={2 * memory:g} or a"
                " smaller --batch"
            )
        if state.cause == "capacity":
            why = f"{state.reason}; the job was stopped"
            raise self._stopped(StockOutError, why, "retry later, or change --zone or --region")
        if state.cause == "eviction" or (state.cause == "image" and not self._were_all_up):
            self._end(f"{state.reason}; {_HINTS[state.cause]}")
        if state.cause != "configuration":
            self._stuck_since = None
            return
        if self._stuck_since is None:
            self._stuck_since = monotonic_seconds()
        if monotonic_seconds() - self._stuck_since >= _SETUP_SECONDS:
            self._end(f"{state.reason}; {_HINTS[state.cause]}")

    def _end_if_late(self, state: RunState) -> None:
        if self.plan.target.queue and state.phase == "waiting" and not state.workers:
            self._began = monotonic_seconds()  # a queued run is not billed and may wait a day
        if self._awaits_capacity(state):
            return
        limit = self.plan.limits.gang_timeout_seconds
        late = monotonic_seconds() - self._began >= limit
        if self._were_all_up or not late or state.phase == "running":
            return
        up = state.count("running", "done")
        why = (
            f"only {up} of {counted(self.plan.workers.nodes, 'worker')} started within {limit:.0f} s"
            f" ({state.reason or 'no reason reported'})"
        )
        if hint := _HINTS.get(state.cause):
            self._end(f"{why}; {hint}")
        advice = "retry later, reduce --nodes or change --region"
        raise self._stopped(CapacityError, f"{why}; all were stopped", advice)

    def _awaits_capacity(self, state: RunState) -> bool:
        """Whether no flex-start node exists yet; the gang timeout begins with the first one."""
        limit = self.plan.limits.capacity_wait_seconds
        has_node = state.phase != "waiting" or any(one.node for one in state.workers)
        if limit is None or has_node or self._were_all_up:
            return False
        now = monotonic_seconds()
        if now - self._queued_at < limit:
            self._began = now
            return True
        raise self._stopped(
            CapacityError,
            f"no flex-start node became available within {format_duration(limit)}; the job was stopped",
            "retry later, increase --max-hours, which includes the wait, or change --region",
        )

    def _stopped(self, kind: type[CapacityError], why: str, advice: str) -> CapacityError:
        """Stops the job; returns the error."""
        self.provider.stop(self.plan.run)
        return kind(why, hint=f"{advice}; `cloudgan down {self.plan.run}` deletes the rest")

    def _end(self, why: str) -> NoReturn:
        self.provider.stop(self.plan.run)
        raise LaunchError(
            f"{why}. The job was stopped; `cloudgan down {self.plan.run}` deletes the rest"
        )


def raise_for_outcome(state: RunState, plan: Plan, beat: Heartbeat | None) -> None:
    """Raises unless the run finished.

    Raises:
        BudgetError: The budget set the deadline.
        CloudganError: The run failed or was stopped.
    """
    if state.phase == "finished":
        return
    again = f"`cloudgan deploy --name={plan.run}` with the same flags"
    if state.cause == "deadline":
        limits = plan.limits
        kept = "its checkpoints are in the store"
        if limits.budget_usd is not None and limits.ends_by_budget:
            raise BudgetError(
                f"the budget of {limits.budget_usd:.2f} USD is spent: {state.reason}; {kept}. Increase"
                f" --budget-usd and run {again} to resume"
            )
        raise CloudganError(
            f"{state.reason} ({limits.deadline_reason}); {kept}. Increase --max-hours and run {again} to"
            " resume"
        )
    if state.phase == "absent":
        raise CloudganError(
            f"run {plan.run} was deleted while it ran; run {again} to resume from the last checkpoint"
        )
    if state.phase == "stopped":
        why = f" ({state.reason})" if state.reason else ""
        raise CloudganError(
            f"run {plan.run} was stopped{why}; run {again} to resume from the last checkpoint"
        )
    said = f"; last message: {beat.message}" if beat and beat.message else ""
    raise CloudganError(
        f"run {plan.run} failed: {state.reason or 'no reason reported'}{said}. See `cloudgan logs"
        f" {plan.run}`; after correcting it, run {again} to resume from the last checkpoint"
    )


MIN_LOSSES = 3
"""Fewer preemptions never end a spot run."""


@dataclass
class PreemptionTracker:
    """Counts spot preemptions and ends the run when on demand costs less.

    Attributes:
        max_per_node_hour: Preemptions per node hour at which on demand costs the same.
    """

    max_per_node_hour: float
    nodes: int

    def __post_init__(self) -> None:
        self._first_seconds: float | None = None
        self._known: dict[int, int] = {}
        self._losses = 0

    def observe(self, state: RunState, now_seconds: float) -> None:
        """Updates the count from a state and its time.

        A worker that is replaced for another reason, such as a store that failed, is no preemption.
        Those before the first state are not counted: their time is unknown.

        Raises:
            CapacityError: On demand costs less.
        """
        if state.is_over or not state.workers:
            return
        now = {worker.index: worker.preemptions for worker in state.workers}
        if self._first_seconds is None:
            self._first_seconds, self._known = now_seconds, now
        # A cluster forgets pods that were deleted: their number may fall.
        self._losses += sum(max(0, now[index] - self._known.get(index, 0)) for index in now)
        self._known |= now
        losses = self._losses
        hours = max(now_seconds - self._first_seconds, 1.0) / HOUR_SECONDS
        rate = losses / (self.nodes * hours)
        if losses >= MIN_LOSSES and rate > self.max_per_node_hour:
            raise CapacityError(
                f"spot nodes were preempted {losses} times in {hours:.2g} h: on demand costs less above"
                f" one preemption per node in {1 / self.max_per_node_hour:.2g} h"
                if self.max_per_node_hour > 0
                else f"spot nodes were preempted {losses} times in {hours:.2g} h; on demand costs less"
            )
