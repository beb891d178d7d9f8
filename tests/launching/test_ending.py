"""What the end of a run means, in a sentence and an exit code."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import BudgetError, CloudganError
from cloudgan.core.heartbeat import Heartbeat
from cloudgan.core.run_state import RunState
from cloudgan.launching.ending import raise_for

AGAIN = "`cloudgan deploy --name=gan` with the same flags"
BEAT = Heartbeat(
    time="2026-11-21T12:00:00Z",
    configuration="0" * 16,
    phase="ended",
    world=1,
    missing=(),
    generation=1,
    restarts=0,
    epochs=2,
    sentence="the loss is no number",
)


def ends(state, plan, beat=None):
    with pytest.raises(CloudganError) as ended:
        raise_for(state, plan, beat)
    return ended.value


def test_a_finished_run_is_no_error(plan_of):
    raise_for(RunState("finished"), plan_of(), BEAT)


def test_a_budget_that_is_used_up_has_an_exit_code_of_its_own(plan_of):
    limits = plan_of().limits.model_copy(
        update={"budget_usd": 5.0, "deadline_why": "--budget_usd=5"}
    )
    plan = plan_of().model_copy(update={"limits": limits})
    why = "its deadline of 880 s is over"
    error = ends(RunState("failed", why=why, cause="deadline"), plan)
    assert isinstance(error, BudgetError)
    assert error.exit_code == 6
    assert str(error).startswith(f"the budget of 5.00 USD is used up: {why}; what was trained is")
    assert str(error).endswith(f"A larger --budget_usd with {AGAIN} goes on from there")


def test_hours_that_are_over_are_no_matter_of_money(plan_of):
    error = ends(RunState("failed", why="it is over", cause="deadline"), plan_of())
    assert error.exit_code == 1
    assert "it is over (--max_hours=24)" in str(error)
    assert "A larger --max_hours" in str(error)


@pytest.mark.parametrize(("why", "told"), [("", "stopped; "), ("by you", r"stopped \(by you\); ")])
def test_a_run_that_was_stopped_can_go_on(plan_of, why, told):
    error = ends(RunState("stopped", why=why), plan_of())
    assert error.exit_code == 1
    assert str(error) == (
        f"run gan was {told.replace(chr(92), '')}{AGAIN} goes on from its last checkpoint"
    )


def test_a_run_that_somebody_removed_is_told_so(plan_of):
    error = ends(RunState("absent"), plan_of())
    assert "run gan is gone: somebody removed it" in str(error)
    assert AGAIN in str(error)


def test_a_run_that_failed_says_why_and_what_its_worker_said(plan_of):
    error = ends(RunState("failed", why="worker 0: exit code 1", cause="program"), plan_of(), BEAT)
    assert error.exit_code == 1
    assert str(error).startswith(
        "run gan failed: worker 0: exit code 1; it said: the loss is no number."
        " See `cloudgan logs gan`"
    )
    assert AGAIN in str(error)


def test_a_failure_that_nobody_explains_says_so(plan_of):
    assert "failed: nobody says why. See" in str(ends(RunState("failed"), plan_of()))
    silent = BEAT.model_copy(update={"sentence": ""})
    assert "it said" not in str(ends(RunState("failed"), plan_of(), silent))
