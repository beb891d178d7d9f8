import datetime as dt

import pytest
from pydantic import ValidationError

from cloudgan.schema import launch
from cloudgan.schema.launch import Attempt, Launch, Node, SentRequest, local_attempt

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def after(minutes):
    return NOON + dt.timedelta(minutes=minutes)


def provisioned(*nodes):
    return Attempt(
        provider="gcp",
        account="project-1",
        region="us-central1",
        node_type="n1-standard-8+1xV100",
        market="spot",
        nodes=nodes,
        requests=(SentRequest(sent_at=NOON, operation="POST clusters", body={"nodes": [1, None]}),),
    )


@pytest.mark.parametrize(
    ("times", "billed"),
    [([(0, 10), (2, 30)], 30 * 60), ([(0, 10), (0, None)], None), ([], None)],
    ids=["from the first node up to the last one gone", "one is still up", "no node"],
)
def test_billed_seconds_last_as_long_as_nodes_are_up_and_are_unknown_until_they_end(times, billed):
    nodes = (
        Node(name=str(n), started_at=after(up), terminated_at=down and after(down))
        for n, (up, down) in enumerate(times)
    )
    assert provisioned(*nodes).billed_seconds() == billed


def test_a_launch_sums_its_attempts_and_one_unknown_makes_it_unknown():
    first = provisioned(Node(name="a", started_at=NOON, terminated_at=after(10)))
    second = provisioned(Node(name="a", started_at=after(20), terminated_at=after(25)))
    whole = Launch(run="demo", config_hash="abc").with_attempts((first, second))
    assert whole.billed_seconds() == 15 * 60
    assert whole.with_attempts((first, second, local_attempt("4 cores"))).billed_seconds() is None
    assert Launch(run="demo", config_hash="abc").billed_seconds() is None


def test_an_attempt_on_this_machine_bills_nothing_that_is_known():
    here = local_attempt("2 cores of a processor")
    assert here.provider == "local"
    assert here.node_type == "this machine: 2 cores of a processor"
    assert here.market is None
    assert here.billed_seconds() is None


@pytest.mark.parametrize(
    ("model", "values", "said"),
    [
        (Node, {"name": "a", "started_at": dt.datetime(2026, 11, 21)}, "timezone"),  # noqa: DTZ001  that is the point
        (
            Node,
            {"name": "a", "started_at": after(1), "terminated_at": NOON},
            "node a was terminated",
        ),
        (Node, {"name": "a", "terminated_at": NOON}, "node a was terminated"),
        (Attempt, {"provider": "aws", "node_type": "x"}, "needs a region and a market"),
        (Attempt, {"provider": "kubernetes", "node_type": "x", "node_count": 0}, "node_count"),
        (
            Attempt,
            {"provider": "local", "node_type": "x", "nodes": [{"name": "a"}, {"name": "a"}]},
            "one name",
        ),
    ],
)
def test_what_no_launch_can_have_is_refused(model, values, said):
    with pytest.raises(ValidationError, match=said):
        model(**values)


@pytest.mark.parametrize("provider", sorted(launch.UNBILLED))
def test_machines_that_exist_already_need_no_region_no_market_and_no_names(provider):
    attempt = Attempt(provider=provider, node_type="2 x (4 cores, 8 GiB)", node_count=2)
    assert (attempt.is_billed, attempt.node_count, attempt.billed_seconds()) == (False, 2, None)
    assert provisioned().is_billed
