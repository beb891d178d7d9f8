"""One run's share of a cluster that several runs use."""

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.resource import Resource
from cloudgan.launch.lifecycle.ownership import cluster_usage
from cloudgan.launch.lifecycle.run_registry import DesiredState
from cloudgan.schema.plan import NodePool

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
PLACE = {"provider": "gcp", "region": "us-central1", "cluster": "cloudgan", "context": None}


def after(minutes):
    return NOON + dt.timedelta(minutes=minutes)


@pytest.fixture
def provisioned(plan_of):
    def build(name="gan", region="us-central1", location=None, **pool):
        kept = {"node_type": "n1-standard-8+1xV100", "market": "spot", "name": "gan-pool"}
        details = {"cluster location": location} if location else {}
        plan = plan_of(name=name, target=PLACE | {"region": region, "details": details})
        return plan.model_copy(update={"node_pool": NodePool(**kept | pool)})

    return build


def history(plan, *states):
    return tuple(
        DesiredState(
            number=number, state=state, plan=plan, lease_owner="me", created_at=after(minutes)
        )
        for number, (minutes, state) in enumerate(states, start=1)
    )


def cluster(created=0, **more):
    known = {"created_at": after(created).isoformat(), "fee": "GKE standard"}
    known |= {"region": "us-central1", "labels": {SHARED: "cluster"}}
    known |= {"node_type": "e2-medium", "nodes": 1}
    return Resource(kind="GKE cluster", name="p/cloudgan", state="ready", **(known | more))


@pytest.mark.parametrize(
    ("created", "states", "until", "paid", "waiting"),
    [
        (
            0,
            {
                "gan": [(0, "starting"), (5, "started")],
                "other": [(10, "starting"), (12, "started"), (40, "finished"), (90, "removed")],
                "far": [(0, "starting")],
            },
            90,
            {"gan": 10 + 30 / 2 + 50, "other": 15},
            "gan",
        ),
        (0, {"a": [(0, "starting"), (60, "finished")]}, 60, {"a": 60}, "a"),
        (
            0,
            {
                "a": [(0, "starting"), (60, "finished")],
                "b": [(660, "starting"), (720, "finished")],
            },
            720,
            {"a": 660, "b": 60},
            "b",
        ),
        *(
            (
                created,
                {"gan": [(0, "starting"), (20, "started"), (30, "stopped"), (50, "starting")]},
                60,
                {"gan": 60 - created},
                "gan",
            )
            for created in (0, 10)
        ),
    ],
    ids=["two share each moment", "one", "idle hours are the keeper's", "went on", "late cluster"],
)
def test_a_run_pays_what_it_used_and_what_waited_after_it(  # noqa: PLR0917
    provisioned, created, states, until, paid, waiting
):
    plans = {
        run: provisioned(run, "europe-west4" if run == "far" else "us-central1", keep_cluster=True)
        for run in states
    }
    histories = [history(plans[run], *one) for run, one in states.items()]
    found = {
        run: cluster_usage(plans[run], [cluster(created)], histories, after(until)) for run in paid
    }
    assert {run: one.run_seconds for run, one in found.items()} == {
        run: minutes * 60 for run, minutes in paid.items()
    }
    waits = [run for run, one in found.items() if one.idle_since == after(until)]
    assert waits == [waiting], "the run that keeps the cluster at its cost"


@pytest.fixture
def three(provisioned):
    return [provisioned(name) for name in "abc"]


@given(st.data())
@settings(suppress_health_check=list(HealthCheck), deadline=None)
def test_the_runs_of_a_cluster_pay_its_whole_time_once(three, data):
    minutes = st.integers(0, 500)
    plans = three[: data.draw(st.integers(1, 3))]
    histories = []
    for plan in plans:
        begins, ends = sorted((data.draw(minutes), data.draw(minutes)))
        states = [(begins, "starting"), (ends, data.draw(st.sampled_from(["finished", "stopped"])))]
        histories.append(history(plan, *states))
    created, now = sorted((data.draw(minutes), data.draw(st.integers(500, 900))))
    paid = [
        cluster_usage(plan, [cluster(created)], histories, after(now)).run_seconds for plan in plans
    ]
    assert sum(paid) == pytest.approx((now - created) * 60)


SYSTEM = Resource(
    kind="AKS pool",
    name="p/cloudgan/system",
    state="ready",
    parent="p/cloudgan",
    labels={SHARED: "cluster"},
    node_type="Standard_D2s_v5",
    nodes=2,
)
OF_RUN = Resource("AKS pool", "x", "ready", parent="p/cloudgan", labels={RUN: "gan"}, nodes=4)


@pytest.mark.parametrize(
    ("resources", "system", "plane"),
    [
        ([cluster()], ("e2-medium", 1), "GKE standard"),
        ([cluster(nodes=0), SYSTEM, OF_RUN], ("Standard_D2s_v5", 2), "GKE standard"),
        ([cluster(labels={})], (None, None), None),
    ],
    ids=["of the cluster", "a pool of its own", "not made by cloudgan"],
)
def test_what_bills_beside_the_nodes_is_named(provisioned, resources, system, plane):
    found = cluster_usage(provisioned(), resources, [], after(1))
    assert (found.name, found.run_seconds, found.control_plane) == ("cloudgan", None, plane)
    assert (found.system_node, found.system_nodes) == system
    assert cluster_usage(provisioned(engine="tpu_vm"), resources, [], after(1)) is None


@pytest.mark.parametrize(
    ("other", "shares"),
    [
        ({}, True),
        ({"region": "r"}, False),
        ({"engine": "tpu_vm"}, False),
        ({"location": "us-central1-f"}, False),
    ],
)
def test_runs_in_one_place_share_its_cluster(provisioned, other, shares):
    """A cluster of the same name in another zone is another one, and is paid by its own runs."""
    plans = provisioned(), provisioned("other", **other)
    states = [history(plan, (0, "starting")) for plan in plans]
    found = cluster_usage(plans[0], [cluster()], states, after(60))
    assert found.run_seconds == (1800 if shares else 3600)


def test_a_cluster_is_found_in_another_zone_than_the_nodes(provisioned):
    plan = provisioned(location="us-central1-f")
    assert cluster_usage(plan, [cluster(region="us-central1-a")], [], NOON).created_at is None
    assert cluster_usage(plan, [cluster(region="us-central1-f")], [], NOON).created_at
