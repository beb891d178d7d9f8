"""Progress and budget warnings while a run is followed."""

from __future__ import annotations

import pytest

from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.operations.run_watch import RunWatch, budget_warning
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import RunState


class Lines:
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.mark.parametrize(
    ("usd", "share"), [(0.0, None), (4.99, None), (5.0, 0.5), (7.99, 0.5), (8.0, 0.8), (12, 0.8)]
)
def test_the_budget_warning_is_due_at_50_and_80_percent(plan_of, usd, share):
    plan = plan_of()
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update={"budget_usd": 10})})
    found = budget_warning(plan, usd)
    assert (found.share if found else None) == share
    assert budget_warning(plan_of(), usd) is None, "no budget"
    assert budget_warning(plan, None) is None, "no price"


def test_each_budget_warning_is_given_once(plan_of, tmp_path):
    plan = plan_of()
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update={"budget_usd": 10})})
    progress, spent = Lines(), iter([1.0, 5.1, 5.2, 7.0, 8.1, 9.0, 11.0])

    class Spending(RunWatch):
        def usd_so_far(self):
            return next(spent)

    watch = Spending(LaunchLog(RunFolder(tmp_path), plan), progress)
    for _ in range(7):
        watch.see(RunState("running"))
    assert [line.partition(" of")[0] for line in progress.lines] == ["5.10 USD", "8.10 USD"]
