"""The launch log while machines are deleted, and its completion by a later status check."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.errors import LaunchError
from cloudgan.launch.lifecycle import apply, launch_log
from cloudgan.launch.lifecycle.apply import deprovision, record_deprovision
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.money.billing import launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.schema.item import Item
from cloudgan.schema.launch import Cluster, Node
from cloudgan.schema.plan import NodePool
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import RunState
from cloudgan.storage.folder import FolderStore
from launch.lifecycle.place_double import PlaceDouble
from launch.operations.cloud_double import CloudDouble

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
NODES = (Node(name="a", started_at=NOON), Node(name="b", started_at=NOON))


def after(minutes):
    return NOON + dt.timedelta(minutes=minutes)


def spent_usd(log, until):
    """The price of the nodes alone; the cluster has its own."""
    return launch_ledger(log.read()).until(until).of(Item.NODES).known_usd


@pytest.fixture
def clock(monkeypatch):
    """The launcher's clock."""
    moment = [NOON]
    monkeypatch.setattr(launch_log, "utc_moment", lambda: moment[0])
    monkeypatch.setattr(apply, "utc_moment", lambda: moment[0])
    return moment


@pytest.fixture
def plan(plan_of, tmp_path):
    node_pool = NodePool(node_type=ROW.node_type, market="spot", name="gan-pool")
    place = {"provider": "gcp", "region": "us-central1", "cluster": "cloudgan", "context": None}
    showers = {"gib": 3.0, "upload_to": "gs://x/data"}
    workers = {"nodes": 2, "accelerator": "V100", "accelerators_per_node": 1}
    store = str(tmp_path / "store")
    made = plan_of(price=ROW, target=place, showers=showers, workers=workers, store=store)
    return made.model_copy(update={"node_pool": node_pool})


@pytest.fixture
def ledger(plan, tmp_path):
    found = LaunchLog(RunFolder(tmp_path / "runs" / "gan"), plan, RunResults.from_plan(plan))
    found.record_attempt([("2026-11-21T12:00:00Z", plan.steps[-1])])
    return found


class SlowCloud(PlaceDouble):
    """Has two machines, a cluster, and an object with the name of the cluster; their removal takes minutes."""

    def __init__(
        self,
        clock,
        went=(("Job cloudgan", 16), ("gan-pool", 20), ("cloudgan", 27), ("b/cloudgan", 40)),
    ):
        super().__init__()
        self.clock, self.went, self.gone = clock, went, {}

    def nodes(self, run):
        return NODES

    def cluster(self, run):
        return Cluster(
            name="cloudgan",
            created_at=NOON,
            deleted_at=self.clock[0],
            run_seconds=0,
        )

    def deprovision(self, run, state):
        for what, minutes in self.went:
            self.clock[0] = after(minutes)
            if what in {"gan-pool", "cloudgan"}:
                self.gone[what] = after(minutes)
            yield what

    def deleted(self, run):
        return self.gone


def test_machines_are_gone_with_their_pool_and_the_cluster_with_itself(plan, ledger, clock):
    clock[0] = after(15)
    RunResults.from_plan(plan).store.put("runs/gan/checkpoints/step-1.npz", b"x" * 10 * 2**20)
    deprovision(SlowCloud(clock), plan, ledger, "failed", lambda line: None, why="no capacity")
    (attempt,) = ledger.read().attempts
    assert [node.terminated_at for node in attempt.nodes] == [after(20)] * 2
    assert attempt.cluster.deleted_at == after(27)
    assert attempt.end_reason == "failed: no capacity"
    assert attempt.uploaded_gib == 3
    assert attempt.stored_gib_months == pytest.approx(
        10 * 2**-10 * 40 / (365.25 / 12 * 1440), rel=0.01
    )


def test_what_is_known_is_not_made_worse_by_a_second_removal(plan, ledger, clock):
    deprovision(SlowCloud(clock), plan, ledger, "finished", lambda line: None)
    before = ledger.read()
    clock[0] = after(9999)
    cloud = SlowCloud(clock, went=())
    cloud.cluster = lambda run: Cluster(name="cloudgan")
    assert list(record_deprovision(cloud, plan, ledger, lambda: cloud.deprovision("gan", ""))) == []
    assert ledger.read() == before


def test_a_launcher_that_was_killed_is_completed_by_the_next_look(plan, ledger, clock):
    """The launcher was killed during the deletion: the desired state is finished, the machines still exist."""
    clock[0] = after(10)
    ledger.record_state(RunState("running", started_at=NOON.isoformat(), nodes=NODES))
    clock[0] = after(70)
    ledger.record_state(RunState("finished", ended_at=after(12).isoformat(), nodes=NODES[:1]))
    (attempt,) = ledger.read().attempts
    assert attempt.program_ended_at == after(12)
    assert [node.terminated_at for node in attempt.nodes] == [None, after(70)]
    assert attempt.nodes[1].unseen_seconds() == 60 * 60, "it ended earlier, at an unknown time"
    assert spent_usd(ledger, after(80)) == pytest.approx((80 + 70) / 60 * ROW.usd_per_hour)
    clock[0] = after(90)
    ledger.record_state(RunState("absent", ended_at=after(85).isoformat(), nodes=()))
    assert ledger.read().attempts[0].nodes[0].terminated_at == after(85), (
        "when the removal was done"
    )


def test_machines_of_a_launcher_that_died_before_it_noted_anything_are_found(plan, tmp_path, clock):
    ledger = LaunchLog(RunFolder(tmp_path / "other"), plan)
    ledger.record_state(RunState("stopped", nodes=NODES))
    (attempt,) = ledger.read().attempts
    assert [node.name for node in attempt.nodes] == ["a", "b"]
    assert spent_usd(ledger, after(30)) == pytest.approx(ROW.usd_per_hour)


def test_the_end_is_that_of_the_job_and_not_of_the_later_stop(plan, ledger, clock):
    ledger.record_state(RunState("running", started_at=NOON.isoformat()))
    ledger.record_state(
        RunState("finished", started_at=NOON.isoformat(), ended_at=after(50).isoformat())
    )
    ledger.record_state(RunState("finished", ended_at=after(58).isoformat()))
    assert ledger.read().attempts[0].program_ended_at == after(50)


def test_a_removal_that_fails_leaves_the_machines_up(plan, ledger, clock):
    class Stuck(SlowCloud):
        def deprovision(self, run, state):
            yield from ()
            raise LaunchError("pool does not go")

    with pytest.raises(LaunchError, match="does not go"):
        deprovision(Stuck(clock), plan, ledger, "finished", lambda line: None)
    assert all(node.terminated_at is None for node in ledger.read().attempts[0].nodes)


def test_a_state_has_the_machines_that_are_there(plan, tmp_path):
    class Api:
        there = (("a", "2026-11-21T12:00:00Z"),)

        def list(self, path, selector=""):
            assert (path, selector) == ("/api/v1/nodes", "cloudgan-run=gan")
            made = [{"metadata": {"name": n, "creationTimestamp": t}} for n, t in self.there]
            return {"items": made}

    cloud, run_registry = CloudDouble(), RunRegistry(FolderStore(tmp_path / "bucket"), "me")
    inner = PlaceDouble([RunState("running", started_at=NOON.isoformat())])
    provider = ProvisionedBackend(
        cloud, run_registry, inner=lambda plan: inner, all_steps=lambda plan: ()
    )
    run_registry.write(plan, "started")
    assert provider.state("gan").nodes == (), "no cluster, no machine"
    cloud.add("cluster", "cloudgan")
    cloud.api = Api()
    assert provider.state("gan").nodes == NODES[:1]

    def away(path, selector=""):
        raise LaunchError("the cluster does not answer")

    cloud.api.list = away
    state = provider.state("gan")
    assert (state.phase, state.nodes) == ("running", None), "the nodes are unknown"
    inner.states = [RunState("absent")]
    assert provider.state("gan").ended_at is None, "when it began is no end"
    run_registry.write(plan, "removed")
    assert provider.state("gan").nodes == ()
