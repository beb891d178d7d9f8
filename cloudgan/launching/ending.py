"""What the end of a run means: an error with the sentence that tells what to type, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import BudgetError, CloudganError

if TYPE_CHECKING:
    from cloudgan.core.heartbeat import Heartbeat
    from cloudgan.core.plan import Plan
    from cloudgan.core.run_state import RunState


def raise_for(state: RunState, plan: Plan, beat: Heartbeat | None) -> None:
    """Raises unless the run finished.

    Raises:
        BudgetError: Its deadline came from the budget.
        CloudganError: It failed, or was stopped.
    """
    if state.phase == "finished":
        return
    again = f"`cloudgan deploy --name={plan.run}` with the same flags"
    if state.cause == "deadline":
        limits = plan.limits
        kept = "what was trained is kept: its checkpoints are in the store"
        if limits.budget_usd is not None and limits.deadline_why.startswith("--budget_usd"):
            raise BudgetError(
                f"the budget of {limits.budget_usd:.2f} USD is used up: {state.why}; {kept}. A larger"
                f" --budget_usd with {again} goes on from there"
            )
        raise CloudganError(
            f"{state.why} ({limits.deadline_why}); {kept}. A larger --max_hours with {again} goes"
            " on from there"
        )
    if state.phase == "absent":
        raise CloudganError(
            f"run {plan.run} is gone: somebody removed it while it ran; {again} goes on from its"
            " last checkpoint"
        )
    if state.phase == "stopped":
        why = f" ({state.why})" if state.why else ""
        raise CloudganError(
            f"run {plan.run} was stopped{why}; {again} goes on from its last checkpoint"
        )
    said = f"; it said: {beat.sentence}" if beat and beat.sentence else ""
    raise CloudganError(
        f"run {plan.run} failed: {state.why or 'nobody says why'}{said}. See `cloudgan logs"
        f" {plan.run}`; when that is mended, {again} goes on from its last checkpoint"
    )
