"""What is told of a budget while a run goes on."""

from __future__ import annotations

import json

import pytest

from cloudgan.cli.run_watch import RunWatch, budget_note, state_json
from cloudgan.core.launch import Node
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
