"""The order of a plan's steps, also after interruptions and errors."""

import pytest

from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.schema.run_state import RunState
from launch.lifecycle.place_double import PlaceDouble

STEPS = 5
STARTED = ("mark", "gan", "started")


class Started:
    """A plan on a backend that keeps what was done, with its own launch log."""

    def __init__(self, plan, log):
        self.plan, self.log, self.place, self.said = plan, log, PlaceDouble(), []
        assert len(plan.steps) == STEPS

    def begin(self, **more):
        return apply(self.plan, self.place, self.log, self.said.append, **more)

    def fail_at(self, when, number, error):
        """Raises an error before or after a step."""

        def interrupt(now, step):
            if (now, step) == (when, self.plan.steps[number]):
                raise error

        self.place.interrupt = interrupt

    def noted(self):
        return [[one.operation for one in attempt.requests] for attempt in self.log.read().attempts]


@pytest.fixture
def run(plan_of, ledger_of):
    return Started(plan_of(), ledger_of(plan_of()))


def test_the_steps_are_done_in_their_order_and_noted_and_a_run_that_runs_is_left_alone(run):
    assert run.begin()
    assert run.place.made == list(run.plan.steps)
    assert run.said == [f"created {step.ensure}" for step in run.plan.steps]
    assert run.place.calls == [STARTED], "nothing was there, so that nothing is stopped"
    assert run.noted() == [[step.operation for step in run.plan.steps]]
    assert not run.begin()
    assert (len(run.place.made), run.place.calls) == (STEPS, [STARTED])
    assert len(run.noted()) == 1


@pytest.mark.parametrize("phase", ["finished", "failed", "stopped"])
def test_what_is_over_is_stopped_first_and_only_the_job_is_created_again(run, phase):
    run.begin()
    run.place.over, run.place.calls, run.said = phase, [], []
    assert run.begin()
    assert run.place.calls == [("stop", "gan"), STARTED]
    assert run.said == ["created Job gan"]
    assert [len(requests) for requests in run.noted()] == [STEPS, 1]


@pytest.mark.parametrize("phase", ["finished", "failed"])
def test_a_run_that_ends_between_two_looks_is_not_started_again(run, phase):
    run.begin()
    run.place.over, run.place.calls = phase, []
    assert not run.begin(may_start=False)
    assert run.place.calls == []
    assert len(run.noted()) == 1


def test_times_of_an_attempt_are_noted_before_it_is_stopped_which_deletes_them(run):
    run.begin()
    ends = {"started_at": "2026-11-21T12:00:00Z", "ended_at": "2026-11-21T13:00:00Z"}
    run.place.states = [RunState("failed", reason="its deadline is over", **ends)]
    run.begin()
    first, second = run.log.read().attempts
    assert (first.program_ended_at - first.program_started_at).total_seconds() == 3600
    assert first.end_reason == "failed: its deadline is over"
    assert (second.program_started_at, second.program_ended_at) == (None, None)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("k", range(STEPS))
def test_ctrl_c_at_any_step_is_completed_by_the_same_command(run, when, k):
    run.fail_at(when, k, KeyboardInterrupt)
    with pytest.raises(
        Interrupted, match=r"Rerun the command to resume, or run `cloudgan down gan`"
    ):
        run.begin()
    assert len(run.place.made) == k + (when == "after")
    run.place.interrupt = lambda now, step: None
    run.begin()
    assert run.place.made == list(run.plan.steps), "every step once, in its order"
    noted = [operation for attempt in run.noted() for operation in attempt]
    assert set(noted) == {step.operation for step in run.plan.steps}
    assert len(noted) <= STEPS + 1, "only the step that Ctrl-C met may be noted twice"


def test_a_refusal_midway_keeps_what_was_sent(run):
    run.fail_at("before", 2, ConfigError("no"))
    with pytest.raises(ConfigError, match="no"):
        run.begin()
    assert run.noted() == [[step.operation for step in run.plan.steps[:2]]]
