"""Which offers fit a job, their order, and the reasons to reject the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core.errors import PlanError
from cloudgan.launch.plan.candidates import (
    RESTRICTED,
    UNCERTAIN,
    UNKNOWN_THROUGHPUT,
    OfferConstraints,
    best_of,
    group_rejected,
    rank,
    selection_of,
    usable_options,
)
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.money.forecast import JobContext, load_startup_times
from cloudgan.schema.plan import NodePool
from cloudgan.speed.candidates import BatchRule, PricedJob
from cloudgan.speed.measured import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
    replicas,
)
from cloudgan.speed.model import build_throughput_model
from cloudgan.speed.spot import Preemption, choose_market, expected_seconds
from launch.plan.test_build import PRICE

PAPER = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
PLACES = {"us-central1", "europe-west4", "us-east-1", "us-west-2", "eastus"}
ROWS = [row for row in load_catalog().find() if row.region in PLACES]
BESIDE = JobContext(load_fees(), load_startup_times())


def serve(row, nodes):
    engine = "tpu_vm" if row.accelerator.startswith("TPU") else "cluster"
    return NodePool(node_type=row.node_type, market=row.market, name="x", engine=engine)


def ranked(rows=ROWS, known=PAPER, rental_of=serve, batches=None, **wish):
    job = PricedJob(60, batches=batches or BatchRule())
    wanted = OfferConstraints(job, **wish)
    return rank(usable_options(rows, known, wanted, BESIDE, rental_of), wanted)


def v100():
    return [row for row in ROWS if row.accelerator == "V100" and row.accelerator_count == 8]


def test_the_whole_cost_at_its_worst_decides():
    ways = ranked().usable
    costs = [way.high_usd for way in ways]
    assert costs == sorted(costs)
    assert all(way.high_usd >= way.known_usd >= way.low_usd for way in ways)


def test_every_offer_is_a_way_or_is_passed_over_with_a_reason():
    found = ranked()
    assert {way.row.offer for way in found.usable} | {one.row.offer for one in found.rejected} == {
        row.offer for row in ROWS
    }
    assert all(one.why_not for one in found.rejected)


def test_a_modelled_offer_counts_with_its_slow_edge_and_an_unknown_one_needs_a_name():
    part = "A10(1/6)"
    assert {way.row.accelerator for way in ranked().usable} == {row.accelerator for row in ROWS} - {
        part
    }
    assert {one.row.offer for one in ranked().rejected if one.why_not == UNKNOWN_THROUGHPUT} == {
        row.offer for row in ROWS if row.accelerator == part
    }
    for wish in ({"allowed_accelerators": frozenset({part})}, {"allow_unmeasured": True}):
        assert part in {way.row.accelerator for way in ranked(**wish).usable}


def test_what_certainly_ends_in_time_goes_before_what_may():
    found = ranked(max_seconds=24 * 3600.0, must_finish=True)
    assert all(way.seconds <= 24 * 3600 for way in found.usable if way.row.market == "on_demand")
    may = {one.row.offer for one in found.rejected if one.why_not == UNCERTAIN}
    assert "gcp/v5litepod-1/us-central1/spot" in may
    only = [row for row in ROWS if row.node_type == "v5litepod-1"]
    assert ranked(only, max_seconds=24 * 3600.0, must_finish=True).usable


def test_what_is_sold_to_few_is_taken_only_if_it_is_named():
    def old(row, nodes):
        node_pool = serve(row, nodes)
        return node_pool.model_copy(
            update={"replacement": "v5litepod-4" * row.accelerator.startswith("TPU")}
        )

    names = {way.row.accelerator for way in ranked(rental_of=old).usable}
    assert "V100" in names
    assert not [name for name in names if name.startswith("TPU")]
    assert RESTRICTED in {one.why_not for one in ranked(rental_of=old).rejected}
    allowed = ranked(rental_of=old, allow_unmeasured=True).usable
    assert not [way for way in allowed if way.row.accelerator.startswith("TPU")]
    named = ranked(rental_of=old, allowed_accelerators=frozenset({"TPU-v3"})).usable
    assert "TPU-v3" in {way.row.accelerator for way in named}


def test_of_both_markets_one_is_left_in_each_place_and_says_why():
    found = ranked()
    places = [(way.row.node_type, way.row.region) for way in found.usable]
    assert len(set(places)) == len(places)
    assert all(way.market_reason for way in found.usable)
    both = ranked(apply_break_even=False).usable
    assert {"spot", "on_demand"} == {way.row.market for way in both}


def test_nodes_that_are_lost_all_the_time_are_rented_on_demand():
    often = OfferConstraints(PricedJob(60, Preemption(20.0)))
    found = rank(usable_options(v100(), PAPER, often, BESIDE, serve), often)
    assert {way.row.market for way in found.usable} == {"on_demand"}


def test_a_spot_offer_that_was_given_up_says_so_on_demand():
    spot = next(row for row in v100() if row.market == "spot")
    found = ranked(v100(), excluded={spot.offer: "no room for 20 min"})
    (way,) = [
        way
        for way in found.usable
        if (way.row.node_type, way.row.region) == (spot.node_type, spot.region)
    ]
    assert way.row.market == "on_demand"
    assert way.market_reason == "no room for 20 min"


def test_what_a_cloud_refuses_is_passed_over_with_its_sentence():
    def refuse(row, nodes):
        if row.provider == "aws":
            raise PlanError("no p5 for you")
        return serve(row, nodes)

    found = ranked(rental_of=refuse)
    assert "aws" not in {way.row.provider for way in found.usable}
    assert "no p5 for you" in {one.why_not for one in found.rejected}


def test_with_free_nodes_each_offer_has_its_cheapest_number_within_the_limits():
    shared = BatchRule(global_batch=768)
    found = ranked(nodes=None, max_seconds=5 * 3600.0, batches=shared)
    assert found.usable
    for way in found.usable:
        assert way.seconds <= 5 * 3600
        assert 768 % replicas(way.row, way.nodes) == 0
        assert way.global_batch == 768
    assert any("within 5 h" in one.why_not for one in found.rejected)


def test_free_nodes_choose_the_batch_too_and_say_what_is_known_of_learning_with_it():
    big = BatchRule(replica_bytes=lambda batch: batch * 2**30 / 9, most_global=12_288)
    found = ranked(v100(), nodes=None, max_seconds=7200.0, batches=big)
    for way in found.usable:
        assert way.batch * replicas(way.row, way.nodes) == way.global_batch <= 12_288
        assert 48 <= way.batch <= 128, "16 GiB hold 144, and fewer are much slower"
    reason = selection_of(found, "V100", "paper", 60).batch_reason
    assert f"{found.usable[0].global_batch} of" in reason
    assert "without figures by batch" in reason
    assert "nothing is known" in selection_of(found, "V100", "mini", 60).batch_reason


def test_a_small_memory_excludes_large_batches():
    small = BatchRule(replica_bytes=lambda batch: batch * 2**30)
    batches = {way.batch for way in ranked(v100(), nodes=None, batches=small).usable}
    assert batches == {16}


def test_a_requested_batch_is_kept_on_every_number_of_nodes():
    found = ranked(v100(), nodes=None, batches=BatchRule(per_replica=32))
    assert {way.batch for way in found.usable} == {32}


def test_more_than_allowed_per_hour_is_passed_over():
    found = ranked(v100(), max_usd_per_hour=5.0)
    assert all(way.usd_per_hour <= 5.0 for way in found.usable)
    assert any("USD per hour exceeds --max-usd-per-hour=5" in one.why_not for one in found.rejected)


def test_a_slice_of_tpus_trains_alone_and_of_v3_each_chip_is_two_replicas():
    found = ranked(nodes=2)
    assert not [way for way in found.usable if way.row.accelerator.startswith("TPU")]
    v3 = next(row for row in ROWS if row.node_type == "v3-8")
    assert replicas(v3, 1) == 8


def test_unknown_speed_comes_last_and_there_the_cheapest_hour_first():
    unmeasured = build_throughput_model("mini", 1000, ())
    ways = ranked(known=unmeasured, allow_unmeasured=True).usable
    assert all(way.high_usd is None for way in ways)
    assert [way.usd_per_hour for way in ways] == sorted(way.usd_per_hour for way in ways)
    found = ranked(known=unmeasured, allow_unmeasured=True, nodes=None)
    assert not found.usable
    assert any("its throughput is unknown" in one.why_not for one in found.rejected)


def test_a_selection_has_the_best_the_next_and_the_reasons():
    found = ranked()
    selection = selection_of(found, "anything", "paper", 60)
    assert "lowest worst-case cost of 60 epochs" in selection.reason
    assert [one.row.offer for one in selection.alternatives] == [
        way.row.offer for way in found.usable[1:6]
    ]
    counts = [group.count for group in selection.rejected_offers]
    assert counts == sorted(counts, reverse=True)
    assert best_of(found, None, "anything") == found


def test_where_there_is_no_way_the_reasons_are_the_message():
    nothing = ranked(v100(), max_usd_per_hour=0.01)
    with pytest.raises(PlanError, match=r"no offer of V100 is usable: .*max-usd-per-hour"):
        best_of(nothing, None, "V100")
    assert group_rejected(nothing.rejected)


def test_an_offer_can_be_preferred_if_it_is_a_way():
    found = ranked()
    third = found.usable[2].row.offer
    assert best_of(found, third, "anything").usable[0].row.offer == third
    assert best_of(found, "elsewhere", "anything") == found


DAY = 24 * 3600.0


def price(usd, market):
    return PRICE.model_copy(update={"usd_per_hour": usd, "market": market})


def choose(spot, on_demand, *, work=DAY, nodes=1, preemption=None):
    return choose_market(
        price(spot, "spot") if spot else None,
        price(on_demand, "on_demand") if on_demand else None,
        work_seconds=work,
        nodes=nodes,
        preemption=preemption or Preemption(),
    )


@pytest.mark.parametrize(
    ("spot", "on_demand", "nodes", "market", "why"),
    [
        (1, 4, 1, "spot", "spot costs 25% of on demand, cheaper below one preemption per node in"),
        (1, 4, 1, "spot", "assumed, not measured: one in 24 h"),
        (9.9, 10, 16, "on_demand", "only cheaper below"),
        (4, 4, 1, "on_demand", "more expensive even without preemption"),
        (None, 4, 1, "on_demand", "is unknown there"),
        (1, None, 1, "spot", "is unknown there"),
    ],
)
def test_the_choice_of_the_market_says_up_to_which_losses_it_pays(
    spot, on_demand, nodes, market, why
):
    found = choose(spot, on_demand, nodes=nodes)
    assert (found.market, why in found.reason) == (market, True), found.reason


def test_the_choice_of_the_market_uses_public_traces_where_there_are_some():
    here, there = (
        choose_market(
            PRICE.model_copy(update={"usd_per_hour": 8, "market": "spot", "provider": provider}),
            PRICE.model_copy(update={"usd_per_hour": 10, "market": "on_demand"}),
            work_seconds=DAY,
            nodes=16,
            preemption=Preemption(checkpoint_seconds=1, restart_seconds=600),
        )
        for provider in ("gcp", "aws")
    )
    assert (here.market, there.market) == ("spot", "on_demand")
    assert "public traces of" in there.reason


@given(st.floats(0.05, 0.999), st.floats(600, 3e5), st.integers(1, 32), st.floats(1e-4, 2.0))
def test_the_choice_is_the_one_that_costs_less_on_average(ratio, work, nodes, rate):
    preemption = Preemption(rate)
    chosen = choose(ratio, 1.0, work=work, nodes=nodes, preemption=preemption).market
    spot_usd = expected_seconds(work, preemption, nodes) * ratio
    if abs(spot_usd - work) > 1e-6 * work:
        assert (chosen == "spot") == (spot_usd < work)
