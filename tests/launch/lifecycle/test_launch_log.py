"""launch.json: attempts, their requests, the times of program, nodes and cluster, and what they cost."""

import datetime as dt
import subprocess
import sys
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloudgan.core.errors import LaunchError
from cloudgan.core.progress import Silent
from cloudgan.launch.lifecycle import apply, launch_log, ownership
from cloudgan.launch.lifecycle.apply import deprovision, record_deprovision
from cloudgan.launch.lifecycle.launch_log import (
    LaunchLog,
    has_running_nodes,
    observe_nodes,
    terminate_nodes,
)
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.launch.operations.launched_run import RunWatch
from cloudgan.launch.plan.build import deadline
from cloudgan.launch.plan.launch_job import usd_of_earlier_attempts
from cloudgan.money.billing import launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import Fees
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Attempt, Cluster, Launch, Node
from cloudgan.schema.plan import NodePool, ReusedNodes
from cloudgan.schema.price_row import CONTROL_PLANE, FeeRow
from cloudgan.schema.record import PreemptionNotice
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import RunState
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreError
from launch.lifecycle.place_double import PlaceDouble

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
HOUR = ROW.usd_per_hour
NODES = (Node(name="a", started_at=NOON), Node(name="b", started_at=NOON))
POOL = NodePool(node_type=ROW.node_type, market="spot", name="gan-pool")
FEE = {
    "kind": "control_plane", "provider": "gcp", "name": "GKE standard", "region": "any",
    "usd": 0.1, "unit": "hour", "source": "a test", "confidence": "A", "date": "2026-11-01",
}  # fmt: skip
NAMES = {f"node-{number}" for number in range(40)}


def after(minutes):
    return NOON + dt.timedelta(minutes=minutes)


def at_second(number):
    return NOON + dt.timedelta(seconds=number)


def text(minutes):
    return after(minutes).strftime("%Y-%m-%dT%H:%M:%SZ")


def state(phase, started=None, ended=None, **more):
    return RunState(
        phase,
        started_at=None if started is None else text(started),
        ended_at=None if ended is None else text(ended),
        **more,
    )


def usd(log, until=None, item=None):
    """The known cost, of all items or of one, until a minute."""
    ledger = launch_ledger(log.read())
    ledger = ledger if until is None else ledger.until(after(until))
    return (ledger.of(item) if item else ledger).known_usd


@pytest.fixture
def clock(monkeypatch):
    """The launcher's clock."""
    moment = [NOON]
    for module in (launch_log, apply):
        monkeypatch.setattr(module, "utc_moment", lambda: moment[0])
    return moment


@pytest.fixture
def priced(plan_of):
    """A plan for two nodes that exist."""
    workers = {"nodes": 2, "accelerator": "V100", "accelerators_per_node": 1}
    return plan_of(price=ROW, workers=workers)


@pytest.fixture
def provisioned(plan_of, tmp_path):
    """A plan for two nodes of a cloud."""
    made = plan_of(
        price=ROW,
        target={"provider": "gcp", "region": "us-central1", "cluster": "c", "context": None},
        showers={"gib": 3.0, "upload_to": "gs://x/data"},
        workers={"nodes": 2, "accelerator": "V100", "accelerators_per_node": 1},
        store=str(tmp_path / "store"),
    )
    return made.model_copy(update={"node_pool": POOL})


def begun(log, plan, minutes=0):
    log.record_attempt([(text(minutes), plan.steps[-1])])
    return log


@pytest.fixture
def log(provisioned, tmp_path):
    """Of a run on provisioned nodes that was started at noon."""
    folder = RunFolder(tmp_path / "runs" / "gan")
    return begun(LaunchLog(folder, provisioned, RunResults.from_plan(provisioned)), provisioned)


def test_what_two_processes_record_at_once_is_all_kept(log):
    """Such as `deploy`, which adds an attempt while `status` records the nodes that it sees."""

    def see():
        for number in range(40):
            node = Node(name=f"node-{number}", started_at=after(number))
            LaunchLog(log.folder, log.plan).record_state(state("running", 0, nodes=(node,)))

    before = len(log.read().attempts)
    other = threading.Thread(target=see)
    other.start()
    for number in range(40):
        log.record_rejected(f"no machine {number}")
    other.join()
    found = log.read().attempts
    assert len(found) == before + 40
    assert len({node.name for one in found for node in one.nodes} & NAMES) == 40


@pytest.mark.parametrize(
    ("seen", "times", "reason", "hours"),
    [
        ([], (None, None), None, 0),
        ([(0, state("waiting"))], (None, None), None, 0),
        ([(0, state("stopped"))], (None, None), "stopped", 0),
        ([(0, state("running", 5)), (0, state("finished", 5, 65))], (5, 65), "finished", 2),
        (
            [
                (0, state("failed", 0, 30, reason="worker 0: exit code 1")),
                (0, state("stopped", 0)),
            ],
            (0, 30),
            "failed: worker 0: exit code 1",
            1,
        ),
        (  # `cancel` deletes the Job, and with it the time of its end
            [(0, state("running", 0)), (30, state("stopped")), (4000, state("absent"))],
            (0, 30),
            "stopped",
            1,
        ),
        ([(0, state("running", 0)), (40_000, state("absent"))], (0, 1440), "absent", 48),
        # This machine's clock is five minutes late; a node bills a minute at least.
        ([(0, state("running", 5)), (0, state("stopped"))], (5, 5), "stopped", 2 / 60),
        (
            [
                (0, state("running", 0)),
                (50, state("finished", 0, 50)),
                (60, state("finished", ended=58)),
            ],
            (0, 50),
            "finished",
            100 / 60,
        ),
    ],
    ids=[
        "nothing seen", "waiting", "never began", "finished", "first reason stays", "deleted job",
        "never looked at, so until its deadline", "clocks disagree", "end of the job, not of a stop",
    ],
)  # fmt: skip
def test_the_times_of_a_program_are_the_providers_and_price_its_nodes(  # noqa: PLR0917
    ledger_of, priced, clock, seen, times, reason, hours
):
    log = begun(ledger_of(priced), priced)
    for minutes, one in seen:
        clock[0] = after(minutes)
        log.record_state(one)
    (attempt,) = log.read().attempts
    expected = tuple(None if at is None else after(at) for at in times)
    assert (attempt.program_started_at, attempt.program_ended_at) == expected
    assert attempt.end_reason == reason
    assert usd(log, 99_999) == pytest.approx(hours * HOUR), "later time adds no cost"
    assert len(attempt.nodes) == (0 if expected[0] is None else 2)


def test_an_attempt_that_runs_costs_what_it_ran_until_now(ledger_of, priced):
    log = begun(ledger_of(priced), priced)
    log.record_state(state("running", 0))
    assert usd(log, 20) == pytest.approx(2 / 3 * HOUR)
    assert usd(log) == 0, "without a now it is not known"
    assert log.read().attempts[0].billed_seconds() is None, "the nodes still exist"


def test_a_node_that_aws_takes_in_its_first_hour_is_free_wherever_the_cost_is_said(
    ledger_of, plan_of
):
    """`status`, `down`, the watch of `deploy` and the next budget say one sum."""
    row = next(one for one in load_catalog().find(provider="aws") if one.market == "spot")
    plan = plan_of(price=row, workers={"accelerator": "T4", "accelerators_per_node": 1})
    log = begun(ledger_of(plan), plan)
    log.record_state(state("failed", 0, 58))
    assert log.spent().known_usd == pytest.approx(row.cost_usd(58 * 60))
    notice = PreemptionNotice(time=text(58), step=1, worker=0, cloud="aws", seconds=120)
    log.folder.record_file.write_text(notice.model_dump_json() + "\n")
    assert log.spent().known_usd == RunWatch(log, Silent()).spent().known_usd == 0
    assert usd_of_earlier_attempts(log.folder) == 0


def test_attempts_add_up_and_the_next_deadline_is_what_is_left(ledger_of, priced):
    log = begun(ledger_of(priced), priced)
    log.record_state(state("failed", 0, 60))
    begun(log, priced, 90)
    log.record_state(state("running", 90))
    assert len(log.read().attempts) == 2
    spent = usd(log, 100)
    assert spent == pytest.approx((2 + 1 / 3) * HOUR)
    left = deadline(
        max_hours=24,
        budget_usd=spent + 2 * HOUR,
        usd_per_second=priced.usd_per_hour / 3600,
        spent_usd=spent,
    )
    assert left.seconds == pytest.approx(3600 - 120, abs=1)


@pytest.mark.parametrize("begins", [True, False], ids=["here", "on another machine"])
def test_an_attempt_has_its_requests_target_and_price(ledger_of, priced, begins):
    log = ledger_of(priced)
    assert (log.read().run, log.read().attempts) == ("gan", ())
    assert log.read().config_hash == priced.config.config_hash()
    log.record_state(state("absent"))
    assert log.read().attempts == (), "a run that never began is no attempt"
    if begins:
        begun(log, priced)
    else:
        log.record_state(state("running", 0))
    (attempt,) = log.read().attempts
    assert (attempt.provider, attempt.region, attempt.market) == ("gcp", "us-central1", "spot")
    assert (attempt.node_type, attempt.node_count) == (ROW.node_type, 2)
    assert attempt.price_rows == (ROW,)
    assert attempt.account == "kubernetes (context lab, namespace cloudgan)"
    sent = [(one.operation, one.sent_at, one.body) for one in attempt.requests]
    last = priced.steps[-1]
    assert sent == ([(last.operation, NOON, last.body)] if begins else [])
    log.record_state(state("failed", 0, 60))
    log.record_state(state("running", 70))
    assert len(log.read().attempts) == 2, "it is another one, started by somebody else"


@pytest.mark.parametrize(
    ("workers", "kind"),
    [
        ({}, "1 x (4 cores, 8 GiB)"),
        ({"nodes": 3, "cpus": 0.5}, "3 x (0.5 cores, 8 GiB)"),
        ({"accelerator": "V100", "accelerators_per_node": 8}, "1 x (8 x V100, 4 cores, 8 GiB)"),
        ({"accelerators_per_node": 1}, "1 x (1 x GPU, 4 cores, 8 GiB)"),
    ],
)
def test_nodes_without_a_price_are_described_and_not_billed(ledger_of, plan_of, workers, kind):
    plan = plan_of(workers=workers)
    log = begun(ledger_of(plan), plan)
    log.record_state(state("finished", 1, 31))
    (attempt,) = log.read().attempts
    assert (attempt.provider, attempt.node_type, attempt.nodes) == ("kubernetes", kind, ())
    assert not attempt.is_billed


def test_what_did_not_change_is_not_written_again(ledger_of, priced, tmp_path):
    log = begun(ledger_of(priced), priced)
    log.record_state(state("running", 0))
    (file,) = tmp_path.rglob("launch.json")
    before = file.stat().st_ino
    log.record_state(state("running", 0))
    assert file.stat().st_ino == before


def test_another_machine_reads_the_attempts_from_the_store(provisioned, tmp_path):
    results = RunResults.from_plan(provisioned)
    results.write_plan(provisioned)
    here, there = (
        LaunchLog(RunFolder(tmp_path / name / "gan"), provisioned, results) for name in "ab"
    )
    begun(here, provisioned).record_state(state("failed", 0, 60))
    assert there.read() == here.read()
    begun(there, provisioned, 90)
    assert len(there.read().attempts) == len(results.read_launch().attempts) == 2


class UnsteadyStore(FolderStore):
    """A store that takes nothing while it is away."""

    is_away = False

    def put(self, name, content, **condition):
        if self.is_away:
            raise StoreError("503")
        super().put(name, content, **condition)


@pytest.fixture
def machines(provisioned, tmp_path):
    """The launch logs of one run on three machines."""
    results = RunResults(UnsteadyStore(tmp_path / "store"), provisioned)
    results.write_plan(provisioned)
    return {
        name: LaunchLog(RunFolder(tmp_path / name / "gan"), provisioned, results) for name in "abc"
    }


def reasons(found):
    return [attempt.end_reason for attempt in found.attempts]


@pytest.mark.parametrize("order", ["aab", "abab", "abba", "abcacbb"])
def test_what_several_machines_record_is_all_kept(machines, order):
    for number, name in enumerate(order):
        machines[name].record_rejected(f"no machine {number}")
    for log in machines.values():
        log.refresh()
        assert reasons(log.read()) == [f"no machine {number}" for number in range(len(order))]
        assert log.read() == log.results.read_launch()


@pytest.mark.parametrize("meets", [1, 3])
def test_what_another_machine_records_between_read_and_write_is_kept(machines, meets, monkeypatch):
    here, there = machines["a"], machines["b"]
    here.record_rejected("no quota")
    write, left = here.results.store.put, [meets]

    def put(name, content, **condition):
        if "launch.json" in name and left[0]:
            left[0] -= 1
            number, left[0] = left[0], 0
            there.record_rejected(f"no machine {number}")
            left[0] = number
        write(name, content, **condition)

    monkeypatch.setattr(here.results.store, "put", put)
    here.record_rejected("ended")
    found = ["no quota", *(f"no machine {number}" for number in reversed(range(meets))), "ended"]
    assert reasons(here.read()) == reasons(here.results.read_launch()) == found


PROGRAM = """
import sys
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.schema import plan
from cloudgan.schema.run_folder import RunFolder
from pathlib import Path

folder, name = Path(sys.argv[1]), sys.argv[2]
plan = plan.read(folder / "plan.json")
log = LaunchLog(RunFolder(folder / name / "gan"), plan, RunResults.from_plan(plan))
for number in range(20):
    log.record_rejected(f"{name}{number}")
"""


def test_two_machines_at_the_same_time_lose_nothing(provisioned, tmp_path):
    RunResults.from_plan(provisioned).write_plan(provisioned)
    plans.write(tmp_path / "plan.json", provisioned)
    commands = [(sys.executable, "-c", PROGRAM, str(tmp_path), name) for name in "ab"]
    running = [subprocess.Popen(command) for command in commands]
    assert [process.wait(120) for process in running] == [0, 0]
    found = reasons(RunResults.from_plan(provisioned).read_launch())
    assert sorted(found) == sorted(f"{name}{number}" for name in "ab" for number in range(20))


def test_an_end_that_another_machine_saw_is_not_that_of_the_next_look(machines, provisioned, clock):
    here, there = machines["a"], machines["b"]
    begun(here, provisioned).record_state(state("running", 0, nodes=NODES))
    clock[0] = after(30)
    there.record_nodes_terminated()
    begun(there, provisioned, 60).record_end("finished")
    clock[0] = after(1500)
    here.record_state(state("finished", ended=1400, nodes=()))
    first, second = here.read().attempts
    assert [node.terminated_at for node in first.nodes] == [after(30), after(30)]
    assert second.end_reason == "finished"


def test_what_a_store_did_not_take_is_there_after_the_next_look(machines):
    log = machines["a"]
    log.record_rejected("no machine")
    log.results.store.is_away = True
    log.record_rejected("no quota")
    assert reasons(log.read()) == ["no machine", "no quota"]
    assert reasons(log.results.read_launch()) == ["no machine"]
    log.results.store.is_away = False
    log.refresh()
    assert log.results.read_launch() == log.read()


def test_a_change_is_on_this_machine_when_its_user_does_not_wait_for_the_store(
    machines, monkeypatch
):
    log = machines["a"]
    log.record_rejected("no machine")

    def hang(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(log.results.store, "put", hang)
    with pytest.raises(KeyboardInterrupt):
        log.record_rejected("no quota")
    assert reasons(log.read()) == ["no machine", "no quota"]


def test_the_launch_log_of_a_namesake_is_not_taken_over(machines, provisioned):
    log = machines["a"]
    log.record_rejected("no machine")
    theirs = provisioned.model_copy(update={"owner": "someone-else"})
    log.results.write_plan(theirs)
    others = RunResults(log.results.store, theirs)
    others.write_launch(
        Launch(run="gan", config_hash="0", changes=9), others.store.version("runs/gan/launch.json")
    )
    log.record_rejected("no quota")
    assert reasons(log.read()) == ["no machine", "no quota"]
    assert others.read_launch().changes == 9


def test_nothing_secret_is_in_launch_json(ledger_of, plan_of, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "planted-key")
    plan = plan_of(workers={"secrets": ("s3-login",)})
    log = ledger_of(plan)
    log.record_attempt([(text(0), step) for step in plan.steps])
    (file,) = tmp_path.rglob("launch.json")
    assert "s3-login" in file.read_text()
    assert "planted" not in file.read_text() + repr(log) + repr(log.read())


def test_an_attempt_that_was_refused_before_anything_was_asked_for_is_noted(ledger_of, priced):
    log, whys = ledger_of(priced), ["0 of 8 V100 in the quota", "no zone has V100"]
    for why in whys:
        log.record_rejected(why)
    assert [(one.end_reason, one.is_refused) for one in log.read().attempts] == [
        (why, True) for why in whys
    ]
    assert usd(log) == 0


# Nodes of a cloud: from the first time they were seen to the first time they were gone.


def attempt_of(**more):
    known = {"provider": ROW.provider, "region": ROW.region, "node_type": ROW.node_type}
    known |= {"market": ROW.market, "node_count": 2, "price_rows": (ROW,)}
    return Attempt(**known | more)


def seconds(attempt):
    """The start and the end of each node, in seconds after noon."""
    return {
        one.name: tuple(
            at and int((at - NOON).total_seconds()) for at in (one.started_at, one.terminated_at)
        )
        for one in attempt.nodes
    }


@pytest.mark.parametrize(
    ("looks", "ended", "expected"),
    [
        (
            [({"a": 0, "b": 10}, 20), ({"a": 0, "c": 300}, 310)],
            600,
            {"a": (0, 600), "b": (10, 310), "c": (300, 600)},
        ),
        (
            [({"a": 0}, 20), ({"a": 200}, 210), ({"a": 400}, 410)],
            500,
            {"a": (0, 210), "a #2": (200, 410), "a #3": (400, 500)},
        ),
        ([({"a": 100}, 50)], 60, {"a": (100, 100)}),
    ],
    ids=["one came and went", "a name that is given again", "a clock that is behind"],
)
def test_each_node_has_its_times(looks, ended, expected):
    attempts = (attempt_of(),)
    for there, now in looks:
        nodes = [Node(name=name, started_at=at_second(up)) for name, up in there.items()]
        attempts = observe_nodes(attempts, nodes, at_second(now))
    (attempt,) = terminate_nodes(attempts, at_second(ended))
    assert seconds(attempt) == expected
    assert Attempt.model_validate(attempt.model_dump()) == attempt


def test_a_node_belongs_to_the_attempt_in_which_it_came_up():
    a, b = (Node(name=name, started_at=at_second(up)) for name, up in (("a", 0), ("b", 100)))
    both = (*observe_nodes((attempt_of(),), [a], at_second(20)), attempt_of())
    both = observe_nodes(both, [a, b], at_second(110))
    assert [seconds(one) for one in both] == [{"a": (0, None)}, {"b": (100, None)}]
    assert has_running_nodes(both)
    ended = terminate_nodes(both, at_second(200))
    assert not has_running_nodes(ended)
    assert seconds(ended[0]) == {"a": (0, 200)}


def test_observations_are_noted_about_once_a_minute_and_the_unobserved_time_is_known():
    there = [Node(name="a", started_at=NOON)]
    first = observe_nodes((attempt_of(),), there, at_second(10))
    assert observe_nodes(first, there, at_second(30)) == first, "nothing to write"
    later = observe_nodes(first, there, at_second(80))
    assert later[0].nodes[0].last_seen_at == at_second(80)
    (attempt,) = terminate_nodes(later, at_second(3680))
    assert attempt.nodes[0].unseen_seconds() == 3600


EVENTS = st.lists(
    st.tuples(
        st.integers(1, 900), st.sampled_from(["come", "go", "begin", "end", "again", "look"])
    ),
    max_size=25,
)


def told(attempts, until):
    """The known cost until a moment, as launch.json is at that time."""
    return launch_ledger(Launch(run="r", config_hash="h", attempts=attempts)).until(until).known_usd


@settings(max_examples=100, deadline=None)
@given(events=EVENTS, behind=st.integers(-120, 120), before=st.floats(0, 1))
@example(  # an attempt begins on the node that the one before left up, and its own is seen later
    events=[(9, "come"), (9, "begin"), (9, "end"), (9, "again"), (9, "begin"), (9, "come")],
    behind=0,
    before=1,
)
@example(events=[(1, "begin"), (1, "end")], behind=2, before=0)
def test_what_is_known_to_be_spent_never_goes_down_while_a_run_goes_on(events, behind, before):
    """For any starts and ends of nodes and programs, any offset of the clock, and any moment before.

    A launcher's clock that is ahead counts a program until its own time, and then learns the earlier end.
    """
    now, there, number, looks = 1000, {}, 0, []
    ahead = ROW.cost_usd(max(0, behind), 2)
    attempts = (attempt_of(fees=(CONTROL_PLANE,)),)
    for passed, event in events:
        now += passed
        last, change = attempts[-1], {}
        if event == "come" and len(there) < 3:
            number += 1
            there[f"n{number % 4}"] = Node(name=f"n{number % 4}", started_at=at_second(now))
        elif event == "go" and there:
            there.pop(next(iter(there)))
        elif event == "begin" and not last.program_started_at:
            change = {"program_started_at": at_second(now)}
        elif event == "end" and last.program_started_at and not last.program_ended_at:
            change = {"program_ended_at": at_second(now)}
        elif event == "again" and (last.program_ended_at or not last.program_started_at):
            attempts = (*attempts, attempt_of(fees=(CONTROL_PLANE,)))
        if change:
            attempts = (*attempts[:-1], last.model_copy(update=change))
        seen_at = at_second(now + behind)
        attempts = observe_nodes(attempts, there.values(), seen_at)
        looks.append((seen_at, told(attempts, seen_at)))
        until, spent = looks[round(before * (len(looks) - 1))]
        assert spent - ahead - 1e-12 <= told(attempts, until) <= looks[-1][1] + 1e-12


def test_a_launcher_that_was_killed_is_completed_by_the_next_look(log, clock):
    """It was killed during the deletion: the desired state is finished, the nodes still exist."""
    clock[0] = after(10)
    log.record_state(state("running", 0, nodes=NODES))
    clock[0] = after(70)
    log.record_state(state("finished", ended=12, nodes=NODES[:1]))
    (attempt,) = log.read().attempts
    assert attempt.program_ended_at == after(12)
    assert [node.terminated_at for node in attempt.nodes] == [None, after(70)]
    assert attempt.nodes[1].unseen_seconds() == 60 * 60, "it ended earlier, at an unknown time"
    assert usd(log, 80, Item.NODES) == pytest.approx((80 + 70) / 60 * HOUR)
    clock[0] = after(90)
    log.record_state(state("absent", ended=85, nodes=()))
    assert log.read().attempts[0].nodes[0].terminated_at == after(85), "when the removal was done"


def test_nodes_of_a_launcher_that_died_before_it_noted_anything_are_found(
    provisioned, tmp_path, clock
):
    log = LaunchLog(RunFolder(tmp_path / "other"), provisioned)
    log.record_state(RunState("stopped", nodes=NODES))
    (attempt,) = log.read().attempts
    assert [node.name for node in attempt.nodes] == ["a", "b"]
    assert usd(log, 30, Item.NODES) == pytest.approx(HOUR)


class SlowCloud(PlaceDouble):
    """Has two nodes, a cluster, and an object with the name of the cluster; their removal takes minutes."""

    def __init__(self, clock, went, error=None):
        super().__init__()
        self.clock, self.went, self.error, self.gone = clock, went, error, {}

    def nodes(self, run):
        return NODES

    def cluster(self, run):
        return Cluster(name="c", created_at=NOON, deleted_at=self.clock[0], run_seconds=0)

    def deprovision(self, run, state):
        for what, minutes in self.went:
            self.clock[0] = after(minutes)
            if what in {"gan-pool", "c"}:
                self.gone[what] = after(minutes)
            yield what
        if self.error:
            raise self.error

    def deleted(self, run):
        return self.gone


WENT = (("Job c", 16), ("gan-pool", 20), ("c", 27), ("b/c", 40))


def test_nodes_are_gone_with_their_pool_and_the_cluster_with_itself(provisioned, log, clock):
    clock[0] = after(15)
    store = RunResults.from_plan(provisioned).store
    store.put("runs/gan/checkpoints/step-1.npz", b"x" * 10 * 2**20)
    cloud = SlowCloud(clock, WENT)
    deprovision(cloud, log, "failed", lambda line: None, why="no capacity")
    (attempt,) = log.read().attempts
    assert [node.terminated_at for node in attempt.nodes] == [after(20)] * 2
    assert attempt.cluster.deleted_at == after(27)
    assert attempt.end_reason == "failed: no capacity"
    assert attempt.uploaded_gib == 3
    months = 10 * 2**-10 * 40 / (365.25 / 12 * 1440)
    assert attempt.stored_gib_months == pytest.approx(months, rel=0.01)
    before, clock[0] = log.read(), after(9999)
    again = SlowCloud(clock, ())
    again.cluster = lambda run: Cluster(name="c")
    removed = record_deprovision(again, log, lambda: again.deprovision("gan", ""))
    assert list(removed) == []
    assert log.read() == before, "a second removal makes nothing worse"


def test_a_removal_that_fails_leaves_the_nodes_up(provisioned, log, clock):
    cloud = SlowCloud(clock, (), LaunchError("pool does not go"))
    with pytest.raises(LaunchError, match="does not go"):
        deprovision(cloud, log, "finished", lambda line: None)
    assert all(node.terminated_at is None for node in log.read().attempts[0].nodes)


# Nodes and a cluster that wait for the next run, until that run uses them.


@pytest.fixture
def first(provisioned, tmp_path, monkeypatch, clock):
    """A run of this machine that ended after an hour, and whose nodes wait."""
    for module in (ownership, launch_log):
        monkeypatch.setattr(module, "RUNS", tmp_path)
    plan = provisioned.model_copy(
        update={"node_pool": POOL.model_copy(update={"keep_seconds": 1800})}
    )
    folder = RunFolder(tmp_path / plan.run)
    log = begun(LaunchLog(folder, plan), plan)
    log.record_nodes(NODES)
    clock[0] = after(60)
    log.record_kept()
    log.record_nodes_terminated()
    plans.write(folder.path / plans.FILE_NAME, plan)
    return plan, log


def second(plan, since, previous):
    reused = ReusedNodes(run=previous, previous=previous, since=since)
    pool = plan.node_pool.model_copy(update={"reused": reused})
    return plan.model_copy(update={"run": "two", "node_pool": pool})


def test_waiting_nodes_are_paid_by_the_run_that_kept_them_until_another_uses_them(first):
    plan, log = first
    kept = log.read().attempts[-1].kept
    assert (kept.nodes, kept.since, kept.seconds()) == (2, after(60), 1800)
    assert usd(log) == pytest.approx(1.5 * (2 * HOUR + 0.1 + 0.033506)), (
        "an hour and the waiting, of the nodes and their cluster"
    )
    ownership.end_waiting(second(plan, after(70), plan.run), print)
    assert log.read().attempts[-1].kept.seconds() == 600
    log.record_kept_end(after(75))
    assert log.read().attempts[-1].kept.seconds() == 600, "the first end counts"


def test_the_idle_hours_of_a_kept_cluster_are_paid_by_the_run_that_kept_it(first):
    """1 h of use and 10 h idle at 0.10 USD/h: unknown until another run takes it, then 1.10 USD."""
    plan, log = first
    cluster = Cluster(
        name="c",
        control_plane="GKE standard",
        system_nodes=0,
        created_at=NOON,
        deleted_at=after(60),
        run_seconds=3600,
        idle_since=after(60),
    )
    attempt = log.read().attempts[0]
    attempt = attempt.model_copy(update={"cluster": cluster, "kept": None, "fees": None})
    whole = log.read().model_copy(update={"attempts": (attempt,)})
    launch.write(ownership.RUNS / plan.run / "launch.json", whole)
    plane = Fees((FeeRow(**FEE),))

    def paid():
        return launch_ledger(log.read(), plane).of(Item.CLUSTER)

    assert "cluster (unknown share)" in paid().total().unknown
    assert paid().until(after(180)).known_usd == pytest.approx(0.3)
    asked = attempt.requests[0].model_copy(update={"sent_at": after(660)})
    later = attempt.model_copy(update={"requests": (asked,), "cluster": None})
    launch.write(
        ownership.RUNS / "two" / "launch.json",
        whole.model_copy(update={"run": "two", "attempts": (later,)}),
    )
    ownership.end_waiting(plan.model_copy(update={"run": "two"}), print)
    assert paid().known_usd == pytest.approx(1.1)
    assert paid().total().unknown == ()


def test_only_the_record_of_the_run_that_kept_them_changes_and_damage_is_said(
    first, plan_of, tmp_path
):
    plan, log = first
    ownership.end_waiting(plan_of(), print)
    ownership.end_waiting(second(plan, after(70), "elsewhere"), print)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / plan.run / plans.FILE_NAME).write_text("{")
    said = []
    ownership.end_waiting(second(plan, after(70), plan.run), said.append)
    assert "could not be recorded" in said[0]
    assert log.read().attempts[-1].kept.ended_at is None
