"""Candidates of a job: offers, numbers of nodes, Pareto front and limits."""

import math
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.core.errors import BudgetError, PlanError
from cloudgan.money.catalog import load_catalog
from cloudgan.speed.candidates import (
    BatchRule,
    PricedJob,
    candidates,
    cheapest_per_configuration,
    cheapest_within,
    node_counts,
    pareto_front,
    price_epoch,
    price_within,
    smallest_changes,
)
from cloudgan.speed.measured import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
)
from cloudgan.speed.model import build_throughput_model
from cloudgan.speed.spot import Preemption

SLOW_MACHINES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
BATCH = BatchRule(per_replica=96)
JOB = PricedJob(60, batches=BATCH)
KNOWN = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements(), drops_last=True)
ROWS = load_catalog().find()
V100 = next(row for row in ROWS if row.node_type == "n1-standard-64+8xV100")
PRICED = candidates(ROWS, KNOWN, JOB)


def v100(usd_per_hour, market="on_demand"):
    return V100.model_copy(update={"usd_per_hour": usd_per_hour, "market": market})


def row_of(node_type):
    return next(row for row in ROWS if row.node_type == node_type and row.market == "on_demand")


def test_an_epoch_costs_its_seconds_times_the_price_of_all_nodes():
    row = row_of("n1-standard-64+8xV100")
    found = price_epoch(row, 8, KNOWN, 96)
    assert found.expected_seconds == pytest.approx(59.35)
    assert found.low_seconds < 59.35 < found.high_seconds
    edges = (found.low_seconds, found.high_seconds)
    assert [found.low_usd, found.usd] == pytest.approx(
        [s / 3600 * 8 * row.usd_per_hour for s in edges]
    )
    modelled = price_epoch(row_of("p5.48xlarge"), 1, KNOWN, 96)
    assert modelled.expected_seconds is None, "bounds of time are bounds of cost"
    assert 0 < modelled.low_usd < modelled.usd
    none = price_epoch(row.model_copy(update={"accelerator_count": 0}), 1, KNOWN, 96)
    assert none.high_usd is none.high_seconds is None
    assert "no accelerator" in none.why_not


def test_each_offer_gets_the_least_nodes_that_keep_to_the_time():
    row = row_of("n1-standard-64+8xV100")
    found = price_within(row, KNOWN, 96, 120)
    assert found.nodes == 4
    assert found.expected_seconds <= 120 < price_epoch(row, 3, KNOWN, 96).expected_seconds
    assert price_within(row, KNOWN, 96, None).nodes == 1


@pytest.mark.parametrize(
    ("node_type", "counts", "said"),
    [
        ("n1-standard-8+1xV100", 10, "32 of these nodes may need up to"),
        ("v3-8", 1, "this slice may need up to 495.6 s, more than 50 s"),
    ],
)
def test_a_time_that_no_number_of_nodes_keeps_is_unknown_with_the_reason(node_type, counts, said):
    row = row_of(node_type)
    found = price_within(row, KNOWN, 96, 50)
    assert found.high_usd is None
    assert said in found.why_not
    assert len(node_counts(row)) == counts  # a TPU slice trains alone


def test_a_job_is_its_first_epoch_all_epochs_and_what_lies_between():
    (found,) = candidates([v100(20)], KNOWN, JOB, counts=[4])
    epoch, more = KNOWN.epoch("V100", 32, 96), (240.90 - 115.02) + 60 * (120.0 - 115.02)
    edges = (more + 60 * epoch.low_seconds, more + 60 * epoch.high_seconds)
    assert (found.low_seconds, found.seconds) == pytest.approx(edges)
    assert found.usd == pytest.approx(edges[1] / 3600 * 4 * 20)


def test_spot_pays_for_what_it_repeats_and_on_demand_has_no_risk_of_being_taken():
    def taken(rate, market="spot"):
        job = PricedJob(60, Preemption(rate), BATCH)
        return candidates([v100(20, market)], KNOWN, job, counts=[4])[0]

    calm, often, safe = taken(0.0), taken(0.5), taken(5, "on_demand")
    assert calm.seconds == calm.work_seconds
    assert safe.seconds == safe.work_seconds
    assert often.seconds > 1.1 * calm.seconds
    assert often.usd == pytest.approx(often.seconds / 3600 * 4 * 20)
    hopeless = PricedJob(60, Preemption(3600, 10_000, 10))
    assert candidates([v100(20, "spot")], KNOWN, hopeless) == (), "it would never end"


def test_an_offer_of_unknown_speed_has_the_reason_and_is_no_candidate():
    part = row_of("Standard_NV6ads_A10_v5")
    assert "A10(1/6) was not measured" in price_epoch(part, 1, KNOWN, 96).why_not
    assert {one.row.accelerator for one in PRICED} == {row.accelerator for row in ROWS} - {
        "A10(1/6)"
    }
    nothing = candidates(ROWS, build_throughput_model("mini", 1000, []), JOB)
    assert pareto_front(nothing) == nothing == ()


prices = st.lists(st.tuples(st.floats(0.01, 500), st.sampled_from(["on_demand", "spot"])))


@given(prices, st.floats(1.01, 10))
@SLOW_MACHINES
def test_a_more_expensive_offer_of_equal_speed_never_dominates(many, factor):
    rows = [v100(usd, market) for usd, market in [(1.0, "on_demand"), *many]]
    dearer = [row.model_copy(update={"usd_per_hour": row.usd_per_hour * factor}) for row in rows]
    both = candidates([*dearer, *rows], KNOWN, JOB, counts=[1, 4])
    best, alone = map(pareto_front, (both, candidates(rows, KNOWN, JOB, counts=[1, 4])))
    assert [(one.seconds, one.usd) for one in best] == [(one.seconds, one.usd) for one in alone]


@given(st.lists(st.integers(0, len(PRICED) - 1), min_size=1, max_size=40, unique=True))
@SLOW_MACHINES
def test_the_front_dominates_all_others_and_none_of_it_is_dominated(numbers):
    some = [PRICED[number] for number in numbers]
    best = pareto_front(some)
    assert [one.seconds for one in best] == sorted(one.seconds for one in best)
    points = [(one.seconds, one.usd) for one in best]
    for one in some:
        beaten = [(s, usd) for s, usd in points if s <= one.seconds and usd <= one.usd]
        assert beaten
        if any(one is other for other in best):
            assert beaten == [(one.seconds, one.usd)]


@pytest.mark.parametrize(
    ("deadline", "budget", "least"),
    [(7200, None, "usd"), (None, 20, "seconds"), (None, None, "usd")],
    ids=["the cheapest in time", "the fastest that the budget pays for", "the cheapest"],
)
def test_of_all_that_meet_the_limits_one_is_taken(deadline, budget, least):
    found = cheapest_within(PRICED, deadline, budget)
    fitting = [
        one
        for one in PRICED
        if one.seconds <= (deadline or math.inf) and one.usd <= (budget or math.inf)
    ]
    assert any(found is one for one in fitting)
    assert getattr(found, least) == min(getattr(one, least) for one in fitting)
    assert found in pareto_front(PRICED)


@pytest.mark.parametrize(
    ("limits", "error"),
    [((60, None), PlanError), ((None, 0.1), BudgetError), ((7200, 1), BudgetError)],
)
def test_unreachable_limits_name_the_nearest_candidates(limits, error):
    with pytest.raises(error, match=r"no offer is certain .*the fastest takes.*the cheapest"):
        cheapest_within(PRICED, *limits)


@pytest.mark.parametrize("limits", [(3600, 3.0), (1800, None), (None, 0.5), (3000, 8.0)])
def test_the_smallest_change_fits_and_a_smaller_one_does_not(limits):
    hours, usd = (limits[0] or 1e9) / 3600, limits[1] or 1e9
    first = smallest_changes(PRICED, hours * 3600, usd)[0]
    given = dict(re.findall(r"--(max-hours|budget-usd)=([\d.]+)", first))
    new_hours, new_usd = float(given.get("max-hours", hours)), float(given.get("budget-usd", usd))
    assert cheapest_within(PRICED, new_hours * 3600, new_usd)
    less = 0.98 * (new_hours if "max-hours" in given else new_usd)
    smaller = (less * 3600, usd) if "max-hours" in given else (hours * 3600, less)
    if len(given) == 1:
        with pytest.raises((PlanError, BudgetError)):
            cheapest_within(PRICED, *smaller)


def test_a_large_change_is_written_out_so_that_it_fits():
    dear = PRICED[0].model_copy(update={"high_usd": 1_234_567.2, "known_usd": 1_234_567.2})
    (change,) = smallest_changes([dear], 1e9, 1000.0)
    assert change == "+1,233,567 USD budget (--budget-usd=1234567.2)"


def test_only_unknown_offers_are_an_error():
    with pytest.raises(PlanError, match="the speed of all these offers is unknown"):
        cheapest_within([])


def test_the_cheapest_of_each_configuration_is_kept():
    found = cheapest_per_configuration(PRICED)
    kinds = {
        (one.row.accelerator, one.row.accelerator_count, one.nodes, one.row.market)
        for one in PRICED
    }
    assert len(found) == len(kinds)
    assert cheapest_within(PRICED).usd == min(one.usd for one in found)


@given(st.integers(0, 30), st.floats(1, 3), st.floats(1, 3))
@SLOW_MACHINES
def test_a_wider_band_never_ranks_better(place, seconds, usd):
    """The upper edges of one candidate grow; it is the cheapest afterwards only if it was before."""
    known = PRICED[:31]
    place %= len(known)
    one = known[place]
    edges = {"high_seconds": one.seconds * seconds, "high_usd": one.usd * usd}
    wider = one.model_copy(update=edges)
    after = (*known[:place], wider, *known[place + 1 :])
    if cheapest_within(after) is wider:
        assert cheapest_within(known) is one
    front = pareto_front(after)
    assert wider not in front or one in pareto_front(known)
