"""From what is wanted to a plan, without network, login or clock."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.core.errors import BudgetError, ConfigError
from cloudgan.core.price_row import PriceRow
from cloudgan.cost.elsewhere import Measured, speeds
from cloudgan.planning.planning import make_plan, spec

PRICE = PriceRow(
    provider="gcp",
    node_type="n1-standard-96+8xV100",
    accelerator="V100",
    accelerator_count=8,
    accelerator_memory_gib=16,
    vcpu=96,
    memory_gib=360,
    region="us-central1",
    market="spot",
    usd_per_hour=36.0,
    unit_sold="parts",
    source="somebody's list",
    date="2026-11-01",
    confidence="A",
    snapshot="current",
)
GPUS = {"accelerator": "V100", "accelerators_per_node": 8}
KNOWN = speeds("paper", 1000, (Measured("V100", 8, 1000, 100.0, 0.0, 0.0, "the lab's run"),))
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "planted-aws-secret",
    "AWS_SESSION_TOKEN": "planted-aws-session",
    "AZURE_STORAGE_KEY": "planted-azure-key",
    "AZURE_STORAGE_SAS_TOKEN": "planted-azure-sas",
    "GOOGLE_OAUTH_ACCESS_TOKEN": "planted-google-token",
}


def test_the_same_wish_is_the_same_plan(plan_of):
    assert plan_of(price=PRICE, workers=GPUS) == plan_of(price=PRICE, workers=GPUS)
    one, other = plan_of(), plan_of()
    assert one.model_dump_json() == other.model_dump_json()


def test_a_plan_says_when_what_it_makes_may_be_removed(plan_of):
    plan = plan_of(max_hours=24)
    assert plan.made == "2026-11-21"
    assert plan.expires == "20261129t120000z", "a week after its limit"


def test_whoever_starts_it_is_named_without_an_address(plan_of):
    assert plan_of(owner="marie@example.org").owner == "marie"
    assert plan_of(owner="").owner == plan_of(owner="@@@").owner == "unknown"


@pytest.mark.parametrize(
    "limits",
    [
        {"max_hours": 1},
        {"gang_timeout_seconds": 60},
        {"budget_usd": 500, "price": PRICE},
        {"price": PRICE},
        {"spent_usd": 3, "budget_usd": 500, "price": PRICE},
        {"owner": "somebody else"},
        {"training": {"threads": 2}},
        {"wheels": ()},
        {"workers": {"cpus": 2}},
        {"place": {"context": "another name of the same cluster"}},
    ],
)
def test_another_limit_is_still_the_same_run(plan_of, limits):
    assert plan_of(**limits).spec == plan_of().spec


@pytest.mark.parametrize(
    "asked",
    [
        {"training": {"epochs": 3}},
        {"training": {"seed": 1}},
        {"workers": {"nodes": 2}},
        {"workers": GPUS},
        {"workers": {"image": "lab/other:1"}},
        {"store": "gs://elsewhere"},
        {"place": {"provider": "local"}},
    ],
)
def test_another_wish_is_another_run(plan_of, asked):
    assert plan_of(**asked).spec != plan_of().spec


def test_the_digits_of_a_run_do_not_need_a_plan(asked_of, plan_of):
    asked, _ = asked_of()
    assert spec(asked) == plan_of().spec


def test_the_steps_are_the_provider_s_for_the_very_plan(asked_of):
    asked, noon = asked_of()
    seen = []
    plan = make_plan(asked, KNOWN, lambda made: seen.append(made) or (), noon)
    assert seen == [plan]
    assert seen[0].warnings == plan.warnings


def test_a_budget_is_a_deadline_and_says_so(plan_of):
    plan = plan_of(price=PRICE, workers=GPUS, budget_usd=10)
    assert plan.limits.deadline_seconds == 1000 - 120
    assert plan.limits.deadline_why == "--budget_usd=10"


def test_a_budget_without_a_price_is_refused(plan_of):
    with pytest.raises(ConfigError, match="needs a price"):
        plan_of(budget_usd=10)


def test_a_budget_below_the_fast_edge_is_refused_with_what_it_would_cost(plan_of):
    with pytest.raises(BudgetError, match=r"60 epochs would cost at least 60\.00 USD \(the lab's"):
        plan_of(price=PRICE, workers=GPUS, known=KNOWN, training={"epochs": 60}, budget_usd=50)


def test_what_was_spent_counts_against_the_budget(plan_of):
    asked = {"price": PRICE, "workers": GPUS, "known": KNOWN, "training": {"epochs": 40}}
    assert plan_of(**asked, budget_usd=50).run == "gan"
    with pytest.raises(BudgetError, match=r"more than the 30\.00 USD that are left"):
        plan_of(**asked, budget_usd=50, spent_usd=20)


@pytest.mark.parametrize("limit", [{"max_steps": 10}, {"max_seconds": 60}, {"until": "metric<1"}])
def test_a_run_that_ends_before_its_epochs_needs_no_budget_for_them(plan_of, limit):
    asked = {"price": PRICE, "workers": GPUS, "known": KNOWN}
    plan = plan_of(**asked, training={"epochs": 60} | limit, budget_usd=5)
    assert plan.forecast.low_usd is None
    assert not any("epoch" in text for text in plan.warnings if "showers" not in text)


@pytest.mark.parametrize(
    ("nodes", "hours", "told"),
    [
        (1, 1.0, "ends the run before its last epoch: 60 epochs take at least 1.67 h"),
        (2, 1.0, "may end the run early: 60 epochs take up to 1.67 h"),
        (1, 2.0, None),
    ],
)
def test_a_deadline_before_the_last_epoch_is_warned_of(plan_of, nodes, hours, told):
    plan = plan_of(
        known=KNOWN, workers=GPUS | {"nodes": nodes}, training={"epochs": 60}, max_hours=hours
    )
    found = [text for text in plan.warnings if "deadline" in text]
    assert len(found) == (told is not None)
    assert told is None or told in found[0]


def test_unknown_showers_and_a_growing_batch_are_warned_of(plan_of):
    assert any("how many showers" in text for text in plan_of().warnings)
    assert not any("showers" in text for text in plan_of(showers={"records": 10}).warnings)
    batch = "the global batch grows with --nodes"
    assert any(batch in text for text in plan_of(workers={"nodes": 2}).warnings)
    for given in ({"batch_per_replica": 8}, {"global_batch_size": 64}):
        asked = plan_of(workers={"nodes": 2}, training=given)
        assert not any(batch in text for text in asked.warnings)


def test_nothing_secret_of_the_environment_is_in_a_plan(plan_of, monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    plan = plan_of(store="s3://lab/runs", workers={"secrets": ("s3-login",)})
    assert "planted" not in plan.model_dump_json() + repr(plan) + str(plan)
    assert "s3-login" in plan.model_dump_json(), "secrets are named"


def test_a_day_is_an_argument(asked_of):
    asked, noon = asked_of()
    later = make_plan(asked, KNOWN, lambda _: (), noon + dt.timedelta(days=1))
    assert later.made == "2026-11-22"
