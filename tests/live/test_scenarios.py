"""The order of a live test, its clean-up in all cases, and the failures that each scenario detects."""

from __future__ import annotations

from pathlib import Path

import pytest

from live import scenarios as does
from live.harness import CommandResult, LiveTest, LiveTestError, Scenario
from live.scenarios import deploy_words, most_minutes, scenarios
from records import started

NAME = "drill-1"


class CommandRunnerDouble:
    """Returns the test's answers; `typed` has the commands."""

    def __init__(self):
        self.typed, self.evicted = [], []
        self.answers, self.left, self.nodes = {}, {}, 0

    def run(self, *words):
        self.typed.append(words)
        answer = self.answers.get(words[0], CommandResult(0, {}))
        if words[0] == "down":
            self.left.pop(words[1], None)
        return answer(*words) if callable(answer) else answer

    def evict(self, run, index, grace_seconds):
        self.evicted.append((run, index, grace_seconds))

    def machines(self, run):
        return self.nodes

    def list_resources(self, run):
        return self.left.get(run, ())

    def pause(self, seconds):
        pass


@pytest.fixture
def command_runner():
    return CommandRunnerDouble()


@pytest.fixture
def ground(command_runner, tmp_path):
    folder = tmp_path / "runs" / NAME
    where = ("--provider=gcp", "--region=us-central1")
    return LiveTest(NAME, "gcp", where, "T4:1", folder, 1.6, command_runner)


def drill(ground, *steps):
    kept = []
    ground.scenarios, ground.save = steps, kept.append
    return kept


def step(name, do):
    return Scenario(name, "proves", "expects", 30, do)


def fails(ground):
    raise LiveTestError("no quota")


def test_it_stops_at_the_first_failure_and_removes_what_is_there(ground, command_runner):
    def begins(ground):
        ground.runs.append("drill-1-train")
        command_runner.left["drill-1-train"] = ("pool drill-1-train",)
        return "fine"

    kept = drill(ground, step("a", begins), step("b", fails), step("c", begins))
    ground.run()
    assert [(e["outcome"], e["observed"]) for e in kept[-1]["scenarios"]] == [
        ("passed", "fine"),
        ("failed", "no quota"),
        ("not run", ""),
    ]
    assert command_runner.typed == [("down", "drill-1-train")]
    assert (ground.has_passed, kept[-1]["remaining"]) == (False, [])
    assert kept[0]["scenarios"][1]["outcome"] == "not run", "each report before it was on disk too"


def test_a_resource_that_is_not_deleted_is_reported_and_fails_the_live_test(ground, command_runner):
    def begins(ground):
        ground.runs.append("drill-1-train")
        return "fine"

    command_runner.list_resources = lambda run: ("pool that stays",)
    kept = drill(ground, step("a", begins))
    ground.run()
    assert kept[-1]["remaining"] == ["pool that stays"]
    assert not ground.has_passed
    assert command_runner.typed == [("down", "drill-1-train")]


def test_ctrl_c_removes_what_is_there_and_goes_on_upwards(ground, command_runner):
    def interrupted(ground):
        ground.runs.append("drill-1-train")
        command_runner.left["drill-1-train"] = ("pool",)
        raise KeyboardInterrupt

    kept = drill(ground, step("a", interrupted), step("b", fails))
    with pytest.raises(KeyboardInterrupt):
        ground.run()
    assert command_runner.typed == [("down", "drill-1-train")]
    first = kept[-1]["scenarios"][0]
    assert (first["outcome"], first["observed"]) == ("failed", "interrupted")


def test_each_scenario_has_a_maximum_cost_and_the_limits_of_its_runs_keep_it(ground):
    ground.scenarios = scenarios(ground)
    assert len(ground.scenarios) == 10
    most = ground.most_usd()
    assert most <= 5
    runs = sum(most_minutes(ground).values()) / 60 * 1.6
    assert runs == pytest.approx(most), "no run may spend more than its scenarios count"
    for which, minutes in most_minutes(ground).items():
        words = deploy_words(ground, which)
        assert f"--budget-usd={minutes / 60 * 1.6:.2f}" in words
        assert any(word.startswith("--max-hours=") for word in words)


def test_every_scenario_has_a_line_in_what_is_not_tested(ground):
    page = (Path(__file__).parents[2] / "docs" / "what-is-not-tested.md").read_text()
    for number, one in enumerate(scenarios(ground), start=1):
        assert f"| {number}, {one.name}" in page


def finding(verdict):
    one = {"subject": "quota X", "status": verdict, "message": "ask for 2"}
    return CommandResult(0, {"clouds": {"gcp": {"findings": [one]}}})


def state(*nodes, phase="running", **beat):
    workers = [{"phase": "running", "node": one, "restarts": 0} for one in nodes]
    known = {"phase": "training", "generation": 1, "step": 3, "missing_workers": []} | beat
    said = {"phase": phase, "reason": "no GPU", "job": {"workers": workers}, "heartbeat": known}
    return CommandResult(0, said)


def orphan(run, reason):
    resource = {"is_orphaned": True, "run": run, "shared": None, "kind": "pool", "name": "x"}
    return CommandResult(4, {"resources": [resource | {"reason": reason}]})


def record_of(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.jsonl").write_text(started().model_dump_json() + "\n")
    return CommandResult(0, {"record": str(folder / "record.jsonl")})


@pytest.fixture
def restarts(command_runner):
    """Workers of which each eviction begins another generation."""
    command_runner.answers["status"] = lambda *_: state(
        "a", "b", generation=1 + len(command_runner.evicted)
    )


REFUSED = {"deploy": CommandResult(5, {"error": "no T4 in us-central1"})}


@pytest.mark.parametrize(
    ("scenario", "answers", "said"),
    [
        (does.login, {"check": finding("missing")}, "quota X: ask for 2"),
        (does.come_up, {"status": state("a", "a")}, "both workers are on a"),
        (does.come_up, {"status": state(phase="failed")}, "is failed: no GPU"),
        (does.come_up, REFUSED, "cloudgan deploy: no T4 in us-central1"),
        (does.stay_away, 2, "2 nodes returned"),
        (does.find_left, {"doctor": orphan("gan", "over")}, "lists no resource of this test"),
        (does.remove_all, ("pool x",), "not deleted: pool x"),
        (does.compare_bill, {}, "unknown cost: drill-1-alone"),
    ],
)
def test_a_scenario_that_sees_something_else_fails(ground, command_runner, scenario, answers, said):
    if scenario in (does.find_left, does.remove_all, does.compare_bill):
        ground.runs.append("drill-1-alone")
    if isinstance(answers, dict):
        command_runner.answers |= answers
    elif isinstance(answers, int):
        command_runner.nodes = answers
    else:
        command_runner.list_resources = lambda run: answers
    with pytest.raises(LiveTestError, match=said):
        scenario(ground)
    if scenario == does.come_up:
        assert ground.runs == ["drill-1-train"], "resources that may exist are deleted"


def test_a_scenario_says_what_it_saw(ground, command_runner, restarts):
    command_runner.answers |= {
        "check": finding("unknown"),
        "doctor": orphan("drill-1-alone", "its job is over"),
    }
    ground.runs.append("drill-1-alone")
    assert does.login(ground) == "1 checks; unknown: quota X"
    assert {words[-1] for words in command_runner.typed} == {"--market=on_demand", "--market=spot"}
    assert does.lose_peer(ground).startswith("generation 1 at step 3, then 2")
    assert command_runner.evicted == [("drill-1-spot", 1, 0)], "a peer is killed at once"
    assert does.stay_away(ground) == "no node for 10 min"
    assert does.find_left(ground) == "pool x: its job is over"


def test_a_run_without_a_whole_epoch_did_not_train(ground, command_runner, tmp_path):
    command_runner.answers["deploy"] = record_of(tmp_path / "train")
    with pytest.raises(LiveTestError, match="no complete epoch"):
        does.train(ground)


def test_a_notice_has_the_pods_own_grace_and_the_record_has_to_say_resumed(
    ground, command_runner, restarts
):
    record_of(ground.folder.parent / "drill-1-spot")
    with pytest.raises(LiveTestError, match="no `resumed` line"):
        does.take_notice(ground)
    assert command_runner.evicted == [("drill-1-spot", 1, None)]
    assert command_runner.typed[-1] == ("cancel", "drill-1-spot"), "the spot nodes no longer bill"


def test_a_run_that_cost_more_than_it_may_fails(ground):
    ground.runs += [f"drill-1-{which}" for which in ("train", "spot", "alone")]
    ground.usd = dict.fromkeys(ground.runs, 0.5)
    assert does.compare_bill(ground).startswith("1.50 USD by node times and list prices")
    ground.usd["drill-1-train"] = 0.95
    with pytest.raises(LiveTestError, match=r"drill-1-train cost 0\.95 USD, more than 0\.93"):
        does.compare_bill(ground)
