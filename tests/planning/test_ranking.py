"""Which offers are ways to do a job, in which order, and why the others are not."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.core.plan import Rental
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.choice import Job
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_runs import PAPER_NETWORK, PAPER_SHOWERS, paper_measurements
from cloudgan.cost.fees import load_fees
from cloudgan.cost.spot import Preemption
from cloudgan.cost.startup import load_startups
from cloudgan.planning.choosing import best_way, choice, passed_over, preferring
from cloudgan.planning.job_cost import Beside
from cloudgan.planning.ranking import SOLD_TO_FEW, UNMEASURED, Wish, rank, replicas

PAPER = speeds(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
ROWS = load_catalog().find()
BESIDE = Beside(load_fees(), load_startups())


def serve(row, nodes):
    engine = "tpu_vm" if row.accelerator.startswith("TPU") else "cluster"
    return Rental(node_type=row.node_type, market=row.market, pool="x", engine=engine)


def ranked(rows=ROWS, known=PAPER, rental_of=serve, **wish):
    return rank(rows, known, Wish(Job(60), **wish), BESIDE, rental_of)


def v100():
    return [row for row in ROWS if row.accelerator == "V100" and row.accelerator_count == 8]


def test_the_whole_cost_at_its_worst_decides():
    ways = ranked().ways
    costs = [way.priced.ranked_usd for way in ways]
    assert costs == sorted(costs)
    assert all(way.priced.ranked_usd >= way.priced.cost.known_usd for way in ways)


def test_every_offer_is_a_way_or_is_passed_over_with_a_reason():
    found = ranked()
    assert {way.row.offer for way in found.ways} | {one.offer for one in found.refused} == {
        row.offer for row in ROWS
    }
    assert all(one.why for one in found.refused)


def test_never_measured_never_wins_unless_named():
    assert {way.row.accelerator for way in ranked().ways} == {"V100", "TPU-v2", "TPU-v3"}
    assert UNMEASURED in {one.why for one in ranked().refused}
    t4 = ranked(named=frozenset({"T4"})).ways
    assert "T4" in {way.row.accelerator for way in t4}
    assert "L4" not in {way.row.accelerator for way in t4}
    assert "L4" in {way.row.accelerator for way in ranked(unmeasured=True).ways}


def test_what_is_sold_to_few_is_taken_only_if_it_is_named():
    def old(row, nodes):
        rental = serve(row, nodes)
        return rental.model_copy(
            update={"instead": "v5litepod-4" * row.accelerator.startswith("TPU")}
        )

    assert {way.row.accelerator for way in ranked(rental_of=old).ways} == {"V100"}
    assert SOLD_TO_FEW in {one.why for one in ranked(rental_of=old).refused}
    allowed = ranked(rental_of=old, unmeasured=True).ways
    assert not [way for way in allowed if way.row.accelerator.startswith("TPU")]
    named = ranked(rental_of=old, named=frozenset({"TPU-v3"})).ways
    assert "TPU-v3" in {way.row.accelerator for way in named}


def test_of_both_markets_one_is_left_in_each_place_and_says_why():
    found = ranked()
    places = [(way.row.node_type, way.row.region) for way in found.ways]
    assert len(set(places)) == len(places)
    assert all(way.market_why for way in found.ways)
    both = ranked(by_break_even=False).ways
    assert {"spot", "on_demand"} == {way.row.market for way in both}


def test_nodes_that_are_lost_all_the_time_are_rented_on_demand():
    often = Wish(Job(60, Preemption(20.0)))
    found = rank(v100(), PAPER, often, BESIDE, serve)
    assert {way.row.market for way in found.ways} == {"on_demand"}


def test_a_spot_offer_that_was_given_up_says_so_on_demand():
    spot = next(row for row in v100() if row.market == "spot")
    found = ranked(v100(), excluded={spot.offer: "no room for 20 min"})
    (way,) = [
        way
        for way in found.ways
        if (way.row.node_type, way.row.region) == (spot.node_type, spot.region)
    ]
    assert way.row.market == "on_demand"
    assert way.market_why == "no room for 20 min"


def test_what_a_cloud_refuses_is_passed_over_with_its_sentence():
    def refuse(row, nodes):
        if row.provider == "aws":
            raise PlanError("no p3 for you")
        return serve(row, nodes)

    found = ranked(v100(), rental_of=refuse)
    assert "aws" not in {way.row.provider for way in found.ways}
    assert "no p3 for you" in {one.why for one in found.refused}


def test_with_free_nodes_each_offer_has_its_cheapest_number_within_the_limits():
    found = ranked(nodes=None, most_seconds=5 * 3600.0, global_batch=768)
    assert found.ways
    for way in found.ways:
        assert way.candidate.seconds <= 5 * 3600
        assert 768 % replicas(way.row, way.nodes) == 0
    assert any("within 5 h" in one.why for one in found.refused)
    with pytest.raises(PlanError, match=r"no offer is sure to do the job within 0\.0"):
        ranked(nodes=None, most_seconds=60.0)


def test_more_than_allowed_per_hour_is_passed_over():
    found = ranked(v100(), most_usd_per_hour=5.0)
    assert all(way.rate <= 5.0 for way in found.ways)
    assert any("USD per hour is more than --max_usd_per_hour=5" in one.why for one in found.refused)


def test_a_slice_of_tpus_trains_alone_and_of_v3_each_chip_is_two_replicas():
    found = ranked(nodes=2)
    assert not [way for way in found.ways if way.row.accelerator.startswith("TPU")]
    v3 = next(row for row in ROWS if row.node_type == "v3-8")
    assert replicas(v3, 1) == 8


def test_unknown_speed_comes_last_and_there_the_cheapest_hour_first():
    nobody = speeds("mini", 1000, ())
    ways = ranked(known=nobody, unmeasured=True).ways
    assert all(way.priced.ranked_usd is None for way in ways)
    assert [way.rate for way in ways] == sorted(way.rate for way in ways)
    found = ranked(known=nobody, unmeasured=True, nodes=None)
    assert not found.ways
    assert any("nothing is known of its speed" in one.why for one in found.refused)


def test_a_choice_tells_the_best_the_next_and_the_reasons():
    found = ranked()
    told = choice(found, "anything", 60)
    assert "cheapest whole job of 60 epochs" in told.why
    assert [one.offer for one in told.alternatives] == [way.row.offer for way in found.ways[1:6]]
    counts = [group.count for group in told.passed_over]
    assert counts == sorted(counts, reverse=True)
    assert best_way(found, "anything") is found.ways[0]


def test_where_there_is_no_way_the_reasons_are_the_message():
    nothing = ranked(v100(), most_usd_per_hour=0.01)
    with pytest.raises(PlanError, match=r"no offer of V100 can be taken: .*max_usd_per_hour"):
        best_way(nothing, "V100")
    assert passed_over(nothing.refused)


def test_an_offer_can_be_preferred_if_it_is_a_way():
    found = ranked()
    third = found.ways[2].row.offer
    assert preferring(found, third).ways[0].row.offer == third
    assert preferring(found, "elsewhere") == found
    assert preferring(found, None) == found
