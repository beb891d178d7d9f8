"""What is noted while machines are given back, and what a later look completes."""

from __future__ import annotations

import datetime as dt

import pytest

from auditing.cloud_double import CloudDouble
from cloudgan.core.errors import LaunchError
from cloudgan.core.launch import Cluster, Node
from cloudgan.core.plan import Rental
from cloudgan.core.run_state import RunState
from cloudgan.cost.catalog import load_catalog
from cloudgan.launching import ledger as ledgers
from cloudgan.launching import releasing
from cloudgan.launching.intents import Intents
from cloudgan.launching.ledger import Ledger, spent_usd
from cloudgan.launching.releasing import given_back, release
from cloudgan.launching.rented import RentedProvider
from cloudgan.launching.results import Results
from cloudgan.run_folder import RunFolder
from cloudgan.stores.folder import FolderStore
from launching.place_double import PlaceDouble

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
NODES = (Node(name="a", up=NOON), Node(name="b", up=NOON))


def after(minutes):
    return NOON + dt.timedelta(minutes=minutes)


@pytest.fixture
def clock(monkeypatch):
    """The launcher's clock."""
    moment = [NOON]
    monkeypatch.setattr(ledgers, "utc_moment", lambda: moment[0])
    monkeypatch.setattr(releasing, "utc_moment", lambda: moment[0])
    return moment


@pytest.fixture
def plan(plan_of, tmp_path):
    rental = Rental(node_type=ROW.node_type, market="spot", pool="gan-pool")
    place = {"provider": "gcp", "region": "us-central1", "cluster": "cloudgan", "context": None}
    showers = {"gib": 3.0, "upload_to": "gs://x/data"}
    workers = {"nodes": 2, "accelerator": "V100", "accelerators_per_node": 1}
    store = str(tmp_path / "store")
    made = plan_of(price=ROW, place=place, showers=showers, workers=workers, store=store)
    return made.model_copy(update={"rental": rental})


@pytest.fixture
def ledger(plan, tmp_path):
    found = Ledger(RunFolder(tmp_path / "runs" / "gan"), plan, Results.of(plan))
    found.begin([("2026-11-21T12:00:00Z", plan.steps[-1])])
    return found


class Cloud(PlaceDouble):
    """Has two machines and a cluster; their removal takes minutes."""

    def __init__(self, clock, went=(("pool p/gan-pool", 20), ("GKE cluster p/cloudgan", 27))):
        super().__init__()
        self.clock, self.went = clock, went

    def nodes(self, run):
        return NODES

    def cluster(self, run):
        return Cluster(
            name="cloudgan", up=NOON, down=self.clock[0], own_run_seconds=1, all_runs_seconds=2
        )

    def release(self, run, state):
        for what, minutes in self.went:
            self.clock[0] = after(minutes)
            yield what


def test_machines_are_gone_with_their_pool_and_the_cluster_with_itself(plan, ledger, clock):
    clock[0] = after(15)
    Results.of(plan).store.put("runs/gan/checkpoints/step-1.npz", b"x" * 10 * 2**20)
    release(Cloud(clock), plan, ledger, "failed", lambda line: None, why="no capacity")
    (attempt,) = ledger.read().attempts
    assert [node.down for node in attempt.nodes] == [after(20)] * 2
    assert attempt.cluster.down == after(27)
    assert attempt.ended == "failed: no capacity"
    assert attempt.uploaded_gib == 3
    assert attempt.stored_gib_months == pytest.approx(
        10 * 2**-10 * 27 / (365.25 / 12 * 1440), rel=0.01
    )


def test_what_is_known_is_not_made_worse_by_a_second_removal(plan, ledger, clock):
    release(Cloud(clock), plan, ledger, "finished", lambda line: None)
    before = ledger.read()
    clock[0] = after(9999)
    cloud = Cloud(clock, went=())
    cloud.cluster = lambda run: Cluster(name="cloudgan")
    assert list(given_back(cloud, plan, ledger, lambda: cloud.release("gan", ""))) == []
    assert ledger.read() == before


def test_a_launcher_that_was_killed_is_completed_by_the_next_look(plan, ledger, clock):
    """Killed while it gave back: its intent says finished, its machines are there still."""
    clock[0] = after(10)
    ledger.see(RunState("running", began=NOON.isoformat(), nodes=NODES))
    clock[0] = after(70)
    ledger.see(RunState("finished", ended=after(12).isoformat(), nodes=NODES[:1]))
    (attempt,) = ledger.read().attempts
    assert attempt.program_down == after(12)
    assert [node.down for node in attempt.nodes] == [None, after(70)]
    assert attempt.nodes[1].unseen_seconds() == 60 * 60, "it was gone earlier, nobody knows when"
    now = after(80).timestamp()
    assert spent_usd(ledger.read(), now) == pytest.approx((80 + 70) / 60 * ROW.usd_per_hour)
    clock[0] = after(90)
    ledger.see(RunState("absent", ended=after(85).isoformat(), nodes=()))
    assert ledger.read().attempts[0].nodes[0].down == after(85), "when the removal was done"


def test_machines_of_a_launcher_that_died_before_it_noted_anything_are_found(plan, tmp_path, clock):
    ledger = Ledger(RunFolder(tmp_path / "other"), plan)
    ledger.see(RunState("stopped", nodes=NODES))
    (attempt,) = ledger.read().attempts
    assert [node.name for node in attempt.nodes] == ["a", "b"]
    assert spent_usd(ledger.read(), after(30).timestamp()) == pytest.approx(ROW.usd_per_hour)


def test_an_end_is_told_by_the_job_and_not_by_what_was_meant_later(plan, ledger, clock):
    ledger.see(RunState("running", began=NOON.isoformat()))
    ledger.see(RunState("finished", began=NOON.isoformat(), ended=after(50).isoformat()))
    ledger.see(RunState("finished", ended=after(58).isoformat()))
    assert ledger.read().attempts[0].program_down == after(50)


def test_a_removal_that_fails_leaves_the_machines_up(plan, ledger, clock):
    class Stuck(Cloud):
        def release(self, run, state):
            yield from ()
            raise LaunchError("pool does not go")

    with pytest.raises(LaunchError, match="does not go"):
        release(Stuck(clock), plan, ledger, "finished", lambda line: None)
    assert all(node.down is None for node in ledger.read().attempts[0].nodes)


def test_a_state_tells_the_machines_that_are_there(plan, tmp_path):
    class Api:
        there = (("a", "2026-11-21T12:00:00Z"),)

        def list(self, path, selector=""):
            assert (path, selector) == ("/api/v1/nodes", "cloudgan-run=gan")
            made = [{"metadata": {"name": n, "creationTimestamp": t}} for n, t in self.there]
            return {"items": made}

    cloud, intents = CloudDouble(), Intents(FolderStore(tmp_path / "bucket"), "me")
    inner = PlaceDouble([RunState("running", began=NOON.isoformat())])
    provider = RentedProvider(cloud, intents, inner=lambda plan: inner, all_steps=lambda plan: ())
    intents.write(plan, "started")
    assert provider.state("gan").nodes == (), "no cluster, no machine"
    cloud.add("cluster", "cloudgan")
    cloud.api = Api()
    assert provider.state("gan").nodes == NODES[:1]

    def away(path, selector=""):
        raise LaunchError("the cluster does not answer")

    cloud.api.list = away
    state = provider.state("gan")
    assert (state.phase, state.nodes) == ("running", None), "nobody can say"
    inner.states = [RunState("absent")]
    assert provider.state("gan").ended is None, "when it began is no end"
    intents.write(plan, "removed")
    assert provider.state("gan").nodes == ()
