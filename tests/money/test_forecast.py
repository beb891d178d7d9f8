"""The cost of a whole job, with start-up and fees."""

import datetime as dt

import pytest

from cloudgan.core.clouds import CLOUDS
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import Fees, load_fees
from cloudgan.money.forecast import (
    JobContext,
    StartupTime,
    find_startup_time,
    job_cost,
    load_startup_times,
    without_startup,
)
from cloudgan.schema.item import Item
from cloudgan.schema.price_row import DataMove, PoolFee
from launch.plan.test_build import PRICE
from tests.money.conftest import fee

HOUR = 3600.0
KNOWN = (HOUR, 2 * HOUR)


FEES = Fees(
    (
        fee("control_plane", 0.1),
        fee("system_node", 0.05, region="us-central1"),
        fee("system_node", 0.2, region="elsewhere"),
        fee("egress_gib", 0.12, "to the internet"),
        fee("egress_gib", 0.02, "to another region", region="europe-west4"),
        fee("egress_gib", 0.15, "to the internet", provider="aws", region="sa-east-1"),
    )
)
WAITS = (
    StartupTime(
        provider="gcp",
        least_nodes=1,
        low_seconds=360,
        high_seconds=720,
        source="a list",
        date="2026-01-01",
    ),
)


def move(gib, provider=None, region=None):
    return DataMove(gib=gib, provider=provider, region=region)


def cost(seconds=KNOWN, nodes=2, row=PRICE, **more):
    beside = {"fees": FEES, "startups": WAITS, "gang_timeout_seconds": 1800.0}
    how = {"on_cluster": more.pop("on_cluster", True), "fees": more.pop("beside", ())}
    return job_cost(row, nodes, seconds, JobContext(**beside | more), **how)


def part(found, name):
    return next(one for one in found.cost.parts if one.item is name)


def at(region):
    return PRICE.model_copy(update={"region": region})


def test_training_start_and_cluster_are_paid_for_as_long_as_they_last():
    found = cost()
    assert (part(found, Item.TRAINING).low_usd, part(found, Item.TRAINING).usd) == (72, 144)
    assert part(found, Item.STARTUP).usd == pytest.approx(0.2 * 72)
    assert part(found, Item.CLUSTER).usd == pytest.approx(0.1 * 2.2)
    assert part(found, Item.SYSTEM_NODES).low_usd == pytest.approx(0.05 * 1.1)
    assert found.cost.fees_usd_per_hour == pytest.approx(0.15)
    assert found.cost.startup_seconds == 720
    assert "a list" in found.cost.startup_basis


def test_a_cluster_of_a_cloud_without_a_system_node_costs_its_control_plane():
    here = PRICE.model_copy(update={"provider": "aws"})
    found = cost(row=here, fees=Fees((fee("control_plane", 0.1, provider="aws"),)))
    assert part(found, Item.CLUSTER).usd == pytest.approx(0.1 * 2)
    assert found.cost.cluster_usd_per_hour == pytest.approx(0.1)
    assert Item.SYSTEM_NODES not in {one.item for one in found.cost.parts}
    assert found.cost.unpriced == ()


def test_a_system_node_of_one_of_several_sizes_costs_from_the_cheapest_to_the_dearest():
    sizes = Fees((*FEES.rows, fee("system_node", 0.08, "larger", region="us-central1")))
    found = part(cost(fees=sizes), Item.SYSTEM_NODES)
    assert found.low_usd == pytest.approx(0.05 * 1.1)
    assert found.usd == pytest.approx(0.08 * 2.2)


def test_nodes_that_are_ready_cost_as_if_they_started_at_once():
    """Their cluster, disks and addresses have less time, too."""
    disk = PoolFee(kind="disk", product="x", quantity=100)
    of = {"fees": Fees((*FEES.rows, fee("disk", 0.1))), "beside": (disk,)}
    at_once = WAITS[0].model_copy(update={"low_seconds": 0.0, "high_seconds": 0.0})
    ready = cost(startups=(at_once,), **of).cost
    for startups in (WAITS, ()):
        found = without_startup(cost(startups=startups, **of).cost)
        assert found.known_usd == pytest.approx(ready.known_usd)
        assert found.known_low_usd == pytest.approx(ready.known_low_usd)
        for one, other in zip(found.parts, ready.parts, strict=True):
            assert (one.item, one.low_usd, one.usd) == (
                other.item,
                other.low_usd and pytest.approx(other.low_usd),
                other.usd and pytest.approx(other.usd),
            )


@pytest.mark.parametrize(
    "seconds", [KNOWN, (5.0, 100.0)], ids=["hours", "minimum of the fast edge"]
)
def test_what_is_known_adds_up_and_what_is_not_is_named(seconds):
    found = cost(seconds, startups=() if seconds != KNOWN else WAITS)
    parts = found.cost.parts
    assert found.cost.known_usd == pytest.approx(sum(one.usd or 0.0 for one in parts))
    assert found.cost.known_low_usd == pytest.approx(sum(one.low_usd or 0.0 for one in parts))
    assert all(one.why_unknown for one in parts if one.usd is None)
    assert found.cost.unknown == tuple(one.item.display for one in parts if one.usd is None)
    assert Item.STAGING.display in found.cost.unknown


def test_an_unknown_part_counts_at_its_worst_in_the_ranking_and_nowhere_else():
    found = cost()
    waiting = 0.5 * 72
    assert found.worst_case_usd == pytest.approx(found.cost.known_usd + waiting)
    unknown = cost(startups=())
    assert part(unknown, Item.STARTUP).usd is None
    assert unknown.worst_case_usd == pytest.approx(unknown.cost.known_usd + 2 * waiting)
    assert unknown.worst_case_usd > found.worst_case_usd, "an unknown time is no advantage"


def test_an_unknown_fee_counts_as_the_dearest_of_its_kind():
    here, elsewhere = cost(), cost(row=at("us-west9"))
    assert part(elsewhere, Item.SYSTEM_NODES).usd is None
    assert elsewhere.worst_case_usd > here.worst_case_usd
    assert elsewhere.cost.known_usd < here.cost.known_usd


def test_of_unknown_speed_there_is_no_rank():
    found = cost(seconds=None)
    assert found.worst_case_usd is None
    assert {Item.TRAINING, Item.CLUSTER, Item.SYSTEM_NODES} <= {
        one.item for one in found.cost.parts if one.usd is None
    }
    assert found.cost.fees_usd_per_hour == pytest.approx(0.15), "known by the hour all the same"


def test_machines_of_cloud_tpu_have_no_cluster_and_an_unknown_start():
    tpu = PRICE.model_copy(update={"accelerator": "TPU-v3", "node_type": "v3-8"})
    found = cost(row=tpu, nodes=1, on_cluster=False)
    assert Item.STARTUP.display in found.cost.unknown
    assert not {Item.CLUSTER, Item.SYSTEM_NODES} & {one.item for one in found.cost.parts}


@pytest.mark.parametrize(
    ("moving", "usd"),
    [
        (move(10.0), 0.0),
        (move(10.0, "gcp", "us-central1"), 0.0),
        (move(10.0, "gcp", "europe-west4"), 2 * 10 * 0.02),
        (move(10.0, "aws", "sa-east-1"), 2 * 10 * 0.15),
        (move(10.0, "gcp", None), None),
        (move(10.0, "azure", "eastus"), None),
        (move(None, "aws", "sa-east-1"), None),
    ],
)
def test_each_node_fetches_the_data_once(moving, usd):
    found = part(cost(data_move=moving), Item.TRANSFER)
    assert found.usd == (None if usd is None else pytest.approx(usd))
    assert (usd is None) == (Item.TRANSFER.display in cost(data_move=moving).cost.unknown)


def test_data_in_a_bucket_of_the_same_cloud_are_bounded_by_its_own_price_between_regions():
    """100 GiB to 4 nodes of AWS: at most 400 x 0.138 USD, not 400 x 0.15, the dearest of any cloud."""
    row = load_catalog().find(provider="aws", market="on_demand", accelerator="T4")[0]
    found, without = (
        cost(row=row, nodes=4, fees=load_fees(), startups=(), on_cluster=False, data_move=moving)
        for moving in (move(100, "aws"), DataMove())
    )
    assert "data transfer" in found.cost.unknown
    assert found.worst_case_usd - without.worst_case_usd == pytest.approx(400 * 0.138)


# Published start-up times of nodes.

STARTUPS = load_startup_times()


def test_each_cloud_has_a_time_with_its_source_and_its_day():
    assert {row.provider for row in STARTUPS} == set(CLOUDS)
    for row in STARTUPS:
        assert row.low_seconds <= row.high_seconds
        assert row.source.startswith("https://github.com/")
        assert dt.date.fromisoformat(row.date) < dt.date(2026, 11, 21)
        assert row.source in row.basis
        assert row.date in row.basis


def test_azure_needs_longer_for_two_nodes_than_for_one_and_an_unmeasured_time_is_none():
    one, two, many = (find_startup_time(STARTUPS, "azure", nodes) for nodes in (1, 2, 16))
    assert one.high_seconds < two.high_seconds
    assert two == many
    assert find_startup_time(STARTUPS, "elsewhere", 1) is None
