"""The order of a plan's steps, also after interruptions and errors."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.schema.run_state import RunState
from launch.lifecycle.place_double import PlaceDouble

STEPS = 5


@pytest.fixture
def begin(plan_of, ledger_of):
    """Starts a plan on a backend, with its own launch log."""

    def run(place, plan=None, said=None):
        plan = plan or plan_of()
        return apply(plan, place, ledger_of(plan), (said if said is not None else []).append)

    return run


def operations(ledger):
    return [one.operation for attempt in ledger.read().attempts for one in attempt.requests]


def test_the_steps_are_done_in_their_order_and_noted(plan_of, begin, ledger_of):
    place, said, plan = PlaceDouble(), [], plan_of()
    assert begin(place, plan, said)
    assert place.made == list(plan.steps)
    assert len(plan.steps) == STEPS
    assert said == [f"created {step.ensure}" for step in plan.steps]
    assert place.calls == [("mark", "gan", "started")]
    assert operations(ledger_of(plan)) == [step.operation for step in plan.steps]


def test_a_run_that_runs_is_left_alone(begin, plan_of, ledger_of):
    place = PlaceDouble()
    begin(place)
    place.calls.clear()
    assert not begin(place)
    assert (len(place.made), place.calls) == (STEPS, [])
    assert len(ledger_of(plan_of()).read().attempts) == 1


@pytest.mark.parametrize("phase", ["finished", "failed", "stopped"])
def test_what_is_over_is_stopped_first_and_only_the_job_is_created_again(
    begin, plan_of, ledger_of, phase
):
    place = PlaceDouble()
    begin(place)
    place.over, place.calls = phase, []
    said = []
    assert begin(place, said=said)
    assert place.calls == [("stop", "gan"), ("mark", "gan", "started")]
    assert said == ["created Job gan"]
    assert [len(one.requests) for one in ledger_of(plan_of()).read().attempts] == [STEPS, 1]


def test_where_nothing_is_nothing_is_ended(begin):
    place = PlaceDouble()
    begin(place)
    assert ("stop", "gan") not in place.calls


def test_another_run_of_this_name_is_refused_and_nothing_done(plan_of, begin):
    place, other = PlaceDouble(), plan_of(training={"epochs": 9})
    place.meant = other
    with pytest.raises(ConfigError, match=rf"cloudgan-spec {other.spec_hash}.*cloudgan down gan$"):
        begin(place)
    assert (place.made, place.calls) == ([], [])


def test_times_of_an_attempt_are_noted_before_it_is_ended(plan_of, begin, ledger_of):
    """Stopping a Job deletes it, with its conditions."""
    place = PlaceDouble()
    begin(place)
    ends = {"started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T13:00:00Z"}
    place.states = [RunState("failed", reason="its deadline is over", **ends)]
    begin(place)
    first, second = ledger_of(plan_of()).read().attempts
    assert (first.program_ended_at - first.program_started_at).total_seconds() == 3600
    assert first.end_reason == "failed: its deadline is over"
    assert (second.program_started_at, second.program_ended_at) == (None, None)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("k", range(STEPS))
def test_ctrl_c_at_any_step_is_completed_by_the_same_command(plan_of, begin, ledger_of, when, k):
    place, plan = PlaceDouble(), plan_of()

    def interrupt(now, step):
        if (now, step) == (when, plan.steps[k]):
            raise KeyboardInterrupt

    place.interrupt = interrupt
    with pytest.raises(
        Interrupted, match=r"Rerun the command to resume, or run `cloudgan down gan`"
    ):
        begin(place, plan)
    assert len(place.made) == k + (when == "after")
    place.interrupt = lambda now, step: None
    begin(place, plan)
    assert place.made == list(plan.steps), "every step once, in its order"
    noted = operations(ledger_of(plan))
    assert set(noted) == {step.operation for step in plan.steps}
    assert len(noted) <= STEPS + 1, "only the step that Ctrl-C met may be noted twice"


def test_a_refusal_midway_keeps_what_was_sent(plan_of, begin, ledger_of):
    place, plan = PlaceDouble(), plan_of()

    def refuse(now, step):
        if (now, step) == ("before", plan.steps[2]):
            raise ConfigError("no")

    place.interrupt = refuse
    with pytest.raises(ConfigError, match="no"):
        begin(place, plan)
    assert operations(ledger_of(plan)) == [step.operation for step in plan.steps[:2]]
