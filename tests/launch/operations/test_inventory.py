"""Which run needs a resource, and what it costs: one that may be in use is never orphaned, unknown is never zero."""

import dataclasses
import datetime as dt

import pytest

from cloudgan.core.labels import EXPIRES, expiry
from cloudgan.launch.lifecycle.run_registry import DesiredState
from cloudgan.launch.operations.doctor import DailyCostModel, total
from cloudgan.launch.operations.inventory import OrphanDetector, RunView, cluster_target
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.schema.plan import NodePool
from launch.lifecycle.cloud_double import CloudDouble, RulesDouble

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
LONG_AGO, JUST_NOW = NOW - dt.timedelta(hours=5), NOW - dt.timedelta(minutes=5)


@pytest.fixture
def intent_of(plan_of):
    def build(state, at=LONG_AGO, run="gan", zone=None, details=None, **node_pool):
        kind = {"node_type": "n1-standard-8+1xT4", "market": "spot", "name": run} | node_pool
        place = {"provider": "gcp", "region": "us-central1", "cluster": "cloudgan"}
        place |= {"zone": zone, "details": details or {}}
        plan = plan_of(name=run, target=place, node_pool=NodePool(**kind), requests=lambda plan: ())
        return DesiredState(
            number=1, state=state, plan=plan, lease_owner="marie on laptop", created_at=at
        )

    return build


def pool(run="gan", **more):
    known = {"parent": "cloudgan", "nodes": 2, "created_at": LONG_AGO.isoformat()}
    return CloudDouble().add("pool", f"cloudgan/{run}", run, **known | more)


def cluster(**more):
    return CloudDouble().add("cluster", "cloudgan", **{"created_at": LONG_AGO.isoformat()} | more)


def judged(*resources, **views):
    runs = {run: RunView(run, *view) for run, view in views.items()}
    return [standing for _, standing in OrphanDetector(runs, NOW).classify(resources)]


@pytest.mark.parametrize("state", ["starting", "started", "finished", "removed", None])
@pytest.mark.parametrize("expires", [NOW - dt.timedelta(days=9), NOW + dt.timedelta(days=9)])
def test_a_resource_of_a_running_job_is_expected_in_any_case(intent_of, state, expires):
    desired_state = intent_of(state) if state else None
    mine = pool(labels={EXPIRES: expiry(expires)})
    assert judged(mine, gan=(desired_state, True, "running"))[0].state == "expected"


AWAY = "the cluster is away"
EXPIRED = {"labels": {EXPIRES: expiry(NOW - dt.timedelta(days=1))}}
NO_STORE = "its run is in no known store"


@pytest.mark.parametrize(
    ("desired", "resource", "view", "state", "why"),
    [
        (["removed"], {}, (False, "absent"), "orphaned", "was deleted on 2026-11-21"),
        (["removing"], {}, (False, "absent"), "orphaned", "was interrupted"),
        (["finished"], {}, (False, "absent"), "orphaned", "is finished since"),
        (["failed"], {}, (False, "absent"), "orphaned", "is failed since"),
        (["stopped"], {}, (False, "absent"), "orphaned", "is stopped since"),
        (["started"], {}, (False, "absent"), "orphaned", "has no Job (absent)"),
        (["starting"], {}, (False, "absent"), "orphaned", "the start of run gan was interrupted"),
        (["starting", JUST_NOW], {}, (False, "absent"), "expected", "started by marie on laptop"),
        (["started"], {}, (None, AWAY), "unknown", AWAY),
        (["started"], EXPIRED, (None, AWAY), "orphaned", "it expired on 2026-11-20"),
        (None, {}, (False,), "orphaned", NO_STORE),
        (None, {"created_at": JUST_NOW.isoformat()}, (False,), "unknown", NO_STORE),
        (None, {"created_at": None}, (False,), "unknown", NO_STORE),
    ],
)
def test_what_a_run_without_a_job_has_is_left_behind_unless_it_may_be_in_use(  # noqa: PLR0917
    intent_of, desired, resource, view, state, why
):
    known = intent_of(*desired) if desired else None
    (found,) = judged(pool(**resource), gan=(known, *view))
    assert (found.state, found.is_orphaned) == (state, state == "orphaned")
    assert why in found.reason


def test_a_cluster_is_needed_while_a_run_may_use_it(intent_of):
    for view in ((intent_of("started"), True), (intent_of("started"), None), (None, None)):
        assert judged(cluster(), pool(), gan=view)[0].state == "expected"
    assert judged(cluster(), gan=(intent_of("starting", JUST_NOW), False))[0].state == "expected"
    assert judged(cluster(), pool(), gan=(intent_of("finished"), False))[0].state == "orphaned"
    assert judged(cluster())[0].state == "orphaned"
    assert judged(cluster(created_at=JUST_NOW.isoformat()))[0].state == "unknown"


def test_a_kept_cluster_is_expected(intent_of):
    (found,) = judged(cluster(), gan=(intent_of("finished", keep_cluster=True), False))
    assert (found.state, found.reason) == ("expected", "kept by --keep-cluster of run gan")
    elsewhere = cluster(region="europe-west4")
    (found,) = judged(elsewhere, gan=(intent_of("finished", keep_cluster=True), False))
    assert found.state == "orphaned", "that was another cluster of this name"


def test_what_is_being_deleted_is_a_finding_and_what_all_runs_share_is_none(intent_of):
    half = pool(state="deleting")
    bucket = CloudDouble().add("bucket", "cloudgan-lab-1")
    leaving, shared = judged(half, bucket, gan=(intent_of("removing"), False))
    assert (leaving.state, leaving.is_orphaned) == ("deleting", True)
    assert (shared.state, shared.is_orphaned) == ("expected", False)


def test_a_part_of_a_cluster_goes_with_it_and_what_is_left_of_one_goes(intent_of):
    part = CloudDouble().add("cluster", "cloudgan/system", parent="cloudgan")
    part = dataclasses.replace(part, labels={"cloudgan-shared": "system pool"})
    rest = dataclasses.replace(part, name="card", parent="", labels={"cloudgan-shared": "leftover"})
    assert [one.state for one in judged(cluster(), part, rest)] == [
        "orphaned",
        "orphaned",
        "orphaned",
    ]
    needed = judged(cluster(), part, pool(), gan=(intent_of("started"), True))
    assert [one.state for one in needed] == ["expected"] * 3


@pytest.mark.parametrize(("location", "state"), [("f", "expected"), ("a", "orphaned")])
def test_a_cluster_may_be_in_another_zone_than_the_nodes(intent_of, location, state):
    details = {"cluster location": f"us-central1-{location}"}
    view = (intent_of("starting", JUST_NOW, zone="us-central1-a", details=details), False)
    assert judged(cluster(region="us-central1-f"), gan=view)[0].state == state


def test_it_is_known_where_the_cluster_of_a_resource_is(tmp_path):
    account = RulesDouble(CloudDouble("gcp", tmp_path), engine="cluster").target(
        "lab-1", "us-central1", None, None
    )
    account = account.model_copy(update={"details": {"cluster location": "<zone>"}})
    where = "europe-west4-b"
    parent = "projects/lab-1/locations/europe-west4-a/clusters/shared"
    resource = CloudDouble().add("pool", "x", "gan", region=where, parent=parent)
    place = cluster_target(resource, account, "europe-west4-a")
    assert (place.account, place.region, place.cluster) == ("lab-1", "europe-west4", "shared")
    assert place.details == {"cluster location": "europe-west4-a"}, "not where its nodes are"


@pytest.fixture(scope="module")
def tariff():
    return DailyCostModel(load_catalog(), load_fees())


@pytest.mark.parametrize("where", ["us-central1", "us-central1-a"])
@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_nodes_cost_their_price_in_their_region_and_market(tariff, where, market):
    kind = {"node_type": "n1-standard-8+1xT4", "market": market}
    (row,) = tariff.catalog.find(provider="gcp", region="us-central1", **kind)
    mine = pool(nodes=3, region=where, **kind)
    assert tariff.usd_per_day("gcp", mine) == pytest.approx(3 * 24 * row.usd_per_hour)


FEE, MOON = {"fee": "GKE standard"}, {"node_type": "n1-moon"}


@pytest.mark.parametrize(
    ("resource", "usd_per_hour"),
    [
        (FEE | {"nodes": 0}, 0.1),
        (FEE | {"node_type": "e2-medium", "nodes": 1}, 0.1 + 0.033506),
        ({"fee": "e2-medium", "node_type": "e2-medium", "nodes": 2}, 2 * 0.033506),
        (MOON | {"nodes": 1}, None),
        ({"node_type": None, "nodes": 1}, None),
        ({"fee": "GKE platinum", "nodes": 0}, None),
        (FEE | MOON | {"nodes": 1}, None),
        ({"nodes": 0}, 0),
        ({"fee": "GKE platinum", "nodes": 0, "is_free": True}, 0),
        (MOON | {"nodes": 0}, 0),
    ],
    ids=[
        *(
            "a fee",
            "a fee and nodes",
            "a fee by the name of a node is that of each",
            "no price row",
        ),
        *("no type", "no fee row", "half a cost is no cost", "neither fee nor nodes", "free"),
        "no nodes",
    ],
)
def test_a_resource_costs_its_fee_and_its_nodes_or_it_is_unknown(tariff, resource, usd_per_hour):
    found = tariff.usd_per_day("gcp", pool(**resource))
    assert found == (None if usd_per_hour is None else pytest.approx(24 * usd_per_hour))


def test_a_folder_costs_by_the_month_and_a_sum_with_an_unknown_part_is_at_least_the_rest(tariff):
    sizes = {("us-central1", 10 * 2**30): 0.2, ("mars-north1", 1): None, ("mars-north1", 0): 0}
    for place, usd in sizes.items():
        assert tariff.usd_per_month("gcp", *place) == (usd and pytest.approx(usd))
    found = total([("a", 1.5), ("b", None)])
    assert (found.known_usd, found.unknown) == (1.5, ("b",))
    assert total([]).unknown == ()
