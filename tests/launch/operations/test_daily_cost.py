"""The cost of a resource per day: known, zero, or unknown, and never one for the other."""

import pytest

from cloudgan.launch.operations.doctor import DailyCostModel, total
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from launch.lifecycle.cloud_double import CloudDouble


@pytest.fixture(scope="module")
def tariff():
    return DailyCostModel(load_catalog(), load_fees())


def resource(**more):
    return CloudDouble().add("pool", "cloudgan/gan", "gan", **more)


@pytest.mark.parametrize("where", ["us-central1", "us-central1-a"])
@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_nodes_cost_their_price_in_their_region_and_market(tariff, where, market):
    kind = "n1-standard-8+1xT4"
    (row,) = tariff.catalog.find(
        provider="gcp", node_type=kind, region="us-central1", market=market
    )
    mine = resource(node_type=kind, nodes=3, market=market, region=where)
    assert tariff.usd_per_day("gcp", mine) == pytest.approx(3 * 24 * row.usd_per_hour)


def test_a_cluster_costs_its_fee_and_its_own_nodes(tariff):
    plane = resource(fee="GKE standard")
    assert tariff.usd_per_day("gcp", plane) == pytest.approx(2.4)
    both = resource(fee="GKE standard", node_type="e2-medium", nodes=1)
    assert tariff.usd_per_day("gcp", both) == pytest.approx(24 * (0.1 + 0.033506))


def test_a_fee_by_the_name_of_a_node_is_that_of_each_node(tariff):
    own = resource(fee="e2-medium", node_type="e2-medium", nodes=2)
    assert tariff.usd_per_day("gcp", own) == pytest.approx(2 * 24 * 0.033506)


def test_a_resource_without_a_price_row_is_unknown_and_one_without_fee_and_nodes_is_free(tariff):
    assert tariff.usd_per_day("gcp", resource(node_type="n1-moon", nodes=1)) is None
    assert tariff.usd_per_day("gcp", resource(node_type=None, nodes=1)) is None
    assert tariff.usd_per_day("gcp", resource(fee="GKE platinum")) is None
    half = resource(fee="GKE standard", node_type="n1-moon", nodes=1)
    assert tariff.usd_per_day("gcp", half) is None, "half a cost is no cost"
    assert tariff.usd_per_day("gcp", resource()) == 0.0
    assert tariff.usd_per_day("gcp", resource(fee="GKE platinum", is_free=True)) == 0.0
    assert tariff.usd_per_day("gcp", resource(node_type="n1-moon", nodes=0)) == 0.0


def test_a_folder_costs_by_the_month(tariff):
    assert tariff.usd_per_month("gcp", "us-central1", 10 * 2**30) == pytest.approx(0.2)
    assert tariff.usd_per_month("gcp", "mars-north1", 1) is None
    assert tariff.usd_per_month("gcp", "mars-north1", 0) == 0.0


def test_a_sum_with_an_unknown_part_is_at_least_the_rest():
    found = total([("a", 1.5), ("b", None)])
    assert (found.known_usd, found.unknown) == (1.5, ("b",))
    assert total([]).unknown == ()
