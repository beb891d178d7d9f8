"""What is told of a budget while a run goes on."""

from __future__ import annotations

import json

import pytest

from cloudgan.cli.run_watch import RunWatch, budget_note, note, state_json
from cloudgan.core.heartbeat import Heartbeat
from cloudgan.core.launch import Node
from cloudgan.core.quality import Quality
from cloudgan.core.run_state import RunState


class Told:
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.mark.parametrize(
    ("usd", "share"), [(0.0, None), (4.99, None), (5.0, 0.5), (7.99, 0.5), (8.0, 0.8), (12, 0.8)]
)
def test_a_warning_is_due_at_half_and_at_four_fifths(plan_of, usd, share):
    plan = plan_of()
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update={"budget_usd": 10})})
    found = budget_note(plan, usd)
    assert (found.share if found else None) == share
    assert budget_note(plan_of(), usd) is None, "no budget"
    assert budget_note(plan, None) is None, "no price"


def test_each_warning_is_given_once(plan_of):
    plan = plan_of()
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update={"budget_usd": 10})})
    told, spent = Told(), iter([1.0, 5.1, 5.2, 7.0, 8.1, 9.0, 11.0])

    class Spending(RunWatch):
        def usd(self):
            return next(spent)

    class Nothing:
        def see(self, state):
            """Notes nothing."""

    watch = Spending(plan, Nothing(), None, told)
    for _ in range(7):
        watch.see(RunState("running"))
    assert [line.partition(" of")[0] for line in told.lines] == ["5.10 USD", "8.10 USD"]


def test_a_state_with_machines_is_json():
    state = RunState("running", nodes=(Node(name="a", up="2026-11-21T12:00:00Z"),))
    assert json.loads(json.dumps(state_json(state)))["nodes"][0]["name"] == "a"
    assert state_json(RunState("absent"))["nodes"] is None


def test_a_run_that_validates_shows_how_good_its_generator_is(plan_of):
    quality = Quality(name="metric", value=0.3, epoch=4, best_value=0.2, best_epoch=1, best_step=20)
    beat = Heartbeat(
        time="2026-01-01T00:00:00Z",
        configuration="0" * 16,
        phase="training",
        world=1,
        missing=(),
        generation=1,
        restarts=0,
        step=50,
        epoch=5,
        epochs=60,
        quality=quality,
    )
    told = note(plan_of(), Heartbeat.model_validate_json(beat.model_dump_json()), None)
    assert told == "step 50, metric 0.3 after epoch 5, best 0.2 after epoch 2"
