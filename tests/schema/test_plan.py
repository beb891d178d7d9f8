import pytest
from pydantic import ValidationError

from cloudgan.schema.plan import Limits, Plan, Target, Wheel, Workers
from records import price_row


def test_a_plan_cannot_be_changed_in_place(plan_of):
    with pytest.raises(ValidationError, match="frozen"):
        plan_of().run = "another"


def test_what_carries_labels_carries_those_of_its_run(plan_of):
    plan = plan_of()
    assert plan.labels() == ("gan", "marie-curie", plan.expires, plan.spec_hash)


def test_an_hour_costs_what_all_nodes_cost(plan_of):
    row = price_row(usd_per_hour=3.6)
    assert plan_of(price=row, workers={"nodes": 4}).usd_per_hour == pytest.approx(14.4)
    assert plan_of().usd_per_hour is None


def test_a_target_is_described_without_the_address_of_its_api():
    lab = Target(
        provider="kubernetes", context="lab", server="https://x:6443", namespace="cloudgan"
    )
    assert lab.describe() == "kubernetes (context lab, namespace cloudgan)"
    one = Target(provider="kubernetes", queue="team", service_account="gan")
    assert one.describe() == "kubernetes (queue team, service account gan)"
    assert Target(provider="local").describe() == "local"


@pytest.mark.parametrize(
    ("model", "values", "expected"),
    [
        (Workers, {"nodes": 0, "cpus": 1, "memory_gib": 1}, "nodes"),
        (Workers, {"nodes": 1, "cpus": 0, "memory_gib": 1}, "cpus"),
        (Workers, {"nodes": 1, "cpus": 1, "memory_gib": float("inf")}, "memory_gib"),
        (
            Limits,
            {"max_hours": 1, "deadline_seconds": 0, "deadline_reason": "x"},
            "deadline_seconds",
        ),
        (
            Limits,
            {"max_hours": float("nan"), "deadline_seconds": 1, "deadline_reason": "x"},
            "max_h",
        ),
        (Wheel, {"file_name": "a.whl", "sha256": "ABC", "bytes": 1}, "sha256"),
        (Target, {"provider": "gpc"}, "provider"),
        (Target, {"provider": "local", "token": "secret"}, "token"),
        (Plan, {"password": "secret"}, "password"),
    ],
)
def test_a_value_that_no_plan_can_have_is_refused(model, values, expected):
    with pytest.raises(ValidationError, match=expected):
        model(**values)
