"""Spot or on demand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.cost.spot import Preemption, expected_seconds
from cloudgan.planning.market import choose_market
from planning.test_planning import PRICE

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


def test_cheap_spot_pays_and_says_up_to_which_losses():
    found = choose(1, 4)
    assert found.market == "spot"
    assert (
        "spot costs 25% of on demand and pays while a node is lost less than once in" in found.why
    )
    assert "assumed, since nobody measured it: once in 24 h" in found.why


def test_spot_that_is_hardly_cheaper_does_not_pay_for_many_nodes():
    found = choose(9.9, 10, nodes=16)
    assert found.market == "on_demand"
    assert "which only pays while" in found.why


def test_spot_that_costs_as_much_never_pays():
    assert choose(4, 4).why.endswith("it would not pay even if no node were lost")


@pytest.mark.parametrize(("spot", "on_demand"), [(None, 4), (1, None)])
def test_where_one_price_is_unknown_the_other_is_taken_and_that_is_said(spot, on_demand):
    found = choose(spot, on_demand)
    assert found.market == ("spot" if spot else "on_demand")
    assert "is known there" in found.why


@given(st.floats(0.05, 0.999), st.floats(600, 3e5), st.integers(1, 32), st.floats(1e-4, 2.0))
def test_the_choice_is_the_one_that_costs_less_on_average(ratio, work, nodes, rate):
    preemption = Preemption(rate)
    chosen = choose(ratio, 1.0, work=work, nodes=nodes, preemption=preemption).market
    spot_usd = expected_seconds(work, preemption, nodes) * ratio
    if abs(spot_usd - work) > 1e-6 * work:
        assert (chosen == "spot") == (spot_usd < work)
