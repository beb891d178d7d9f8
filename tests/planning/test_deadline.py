"""When a job ends by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core.errors import BudgetError, ConfigError
from cloudgan.planning.deadline import deadline

USD = st.floats(0.01, 1e6)


def test_hours_are_a_deadline():
    assert deadline(max_hours=1.5) == (5400, "--max_hours=1.5")
    assert deadline(max_hours=1e-9).seconds == 1, "a job needs a deadline of a second at least"


def test_a_budget_is_a_deadline_where_it_ends_earlier():
    found = deadline(max_hours=24, budget_usd=10, usd_per_second=0.01, reserve_seconds=100)
    assert found == (900, "--budget_usd=10")


def test_a_budget_that_suffices_leaves_the_hours():
    assert deadline(max_hours=1, budget_usd=1000, usd_per_second=0.01).why == "--max_hours=1"


def test_what_earlier_attempts_cost_is_no_longer_there():
    one = deadline(max_hours=24, budget_usd=10, usd_per_second=0.01, spent_usd=4)
    assert one.seconds == 600 - 120


@pytest.mark.parametrize(("budget", "spent"), [(1.0, 0.0), (100.0, 99.0), (1.0, 5.0)])
def test_a_budget_that_leaves_no_time_is_refused_with_the_sums(budget, spent):
    with pytest.raises(BudgetError) as refused:
        deadline(max_hours=1, budget_usd=budget, usd_per_second=0.01, spent_usd=spent)
    assert f"{budget:.2f} USD leaves no time to train: {spent:.2f} USD" in str(refused.value)
    assert "120 s of all nodes" in str(refused.value)
    assert "cost 1.20 USD" in str(refused.value)


def test_a_budget_without_a_price_is_refused_and_says_how_to_name_one():
    with pytest.raises(ConfigError, match=r"--as=gcp/.*cloudgan offers"):
        deadline(max_hours=1, budget_usd=5)


@given(USD, st.floats(1e-6, 10), USD, st.floats(0.01, 1e4))
def test_a_deadline_never_costs_more_than_is_left(budget, rate, spent, hours):
    asked = {"max_hours": hours, "budget_usd": budget, "usd_per_second": rate, "spent_usd": spent}
    try:
        found = deadline(**asked)
    except BudgetError:
        assert (budget - spent) / rate < 122
        return
    assert 1 <= found.seconds <= max(1, hours * 3600)
    assert spent + (found.seconds + 120) * rate <= budget * (1 + 1e-9)
