"""From a request to a plan, without network, login or clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core.errors import BudgetError, ConfigError, PlanError
from cloudgan.launch.plan.build import deadline, spec_hash
from cloudgan.launch.plan.jobs import train_forecast
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Workers
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.speed.measured import MeasuredThroughput
from cloudgan.speed.model import build_throughput_model
from records import price_row

PRICE = price_row()
GPUS = {"accelerator": "V100", "accelerators_per_node": 8}
KNOWN = build_throughput_model(
    "paper",
    1000,
    (MeasuredThroughput("V100", 8, 1000, 100.0, 0.0, 0.0, "the lab's run", 64, 1000 / 512),),
)


def test_the_same_wish_is_the_same_plan(plan_of):
    assert plan_of(price=PRICE, workers=GPUS) == plan_of(price=PRICE, workers=GPUS)
    one, other = plan_of(), plan_of()
    assert one.model_dump_json() == other.model_dump_json()


def test_a_plan_says_when_what_it_makes_may_be_removed(plan_of):
    plan = plan_of(max_hours=24)
    assert plan.created_at == "2026-11-21"
    assert plan.expires == "20261129t120000z", "a week after its limit"


def test_the_owner_is_named_without_a_mail_address(plan_of):
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
        {"owner": "another user"},
        {"training": {"threads": 2}},
        {"wheels": ()},
        {"workers": {"cpus": 2}},
        {"target": {"context": "another name of the same cluster"}},
    ],
)
def test_another_limit_is_still_the_same_run(plan_of, limits):
    assert plan_of(**limits).spec_hash == plan_of().spec_hash


@pytest.mark.parametrize(
    "asked",
    [
        {"training": {"epochs": 3}},
        {"training": {"seed": 1}},
        {"workers": {"nodes": 2}},
        {"workers": GPUS},
        {"workers": {"image": "lab/other:1"}},
        {"store": "gs://elsewhere"},
        {"target": {"provider": "local"}},
    ],
)
def test_another_wish_is_another_run(plan_of, asked):
    assert plan_of(**asked).spec_hash != plan_of().spec_hash


def test_the_digits_of_a_run_do_not_need_a_plan(asked_of, plan_of):
    asked, _ = asked_of()
    assert spec_hash(asked) == plan_of().spec_hash


def test_limits_refuse_no_assumed_number_of_showers(plan_of):
    asked = {"price": PRICE, "workers": GPUS, "known": KNOWN, "training": {"epochs": 60}}
    plan = plan_of(**asked, budget_usd=50, max_hours=1.0, showers={"records": None})
    assert plan.forecast.low_usd > plan.limits.budget_usd


def test_what_was_spent_counts_against_the_budget(plan_of):
    asked = {"price": PRICE, "workers": GPUS, "known": KNOWN, "training": {"epochs": 40}}
    assert plan_of(**asked, budget_usd=50).run == "gan"
    with pytest.raises(BudgetError, match=r"more than the remaining 30\.00 USD"):
        plan_of(**asked, budget_usd=50, spent_usd=20)


@pytest.mark.parametrize("limit", [{"max_steps": 10}, {"max_seconds": 60}, {"until": "metric<1"}])
def test_a_run_that_ends_before_its_epochs_needs_no_budget_for_them(plan_of, limit):
    asked = {"price": PRICE, "workers": GPUS, "known": KNOWN}
    plan = plan_of(**asked, training={"epochs": 60} | limit, budget_usd=5)
    assert plan.forecast.low_usd is None
    assert not any("epoch" in text for text in plan.warnings if "showers" not in text)


@pytest.mark.parametrize(
    ("nodes", "hours", "expected"),
    [
        (2, 1.0, "may end the run early: 60 epochs take up to 1.86 h"),
        (1, 2.0, None),
    ],
)
def test_a_deadline_before_the_last_epoch_is_warned_of(plan_of, nodes, hours, expected):
    plan = plan_of(
        known=KNOWN, workers=GPUS | {"nodes": nodes}, training={"epochs": 60}, max_hours=hours
    )
    found = [text for text in plan.warnings if "deadline" in text]
    assert len(found) == (expected is not None)
    assert expected is None or expected in found[0]


def test_a_deadline_before_the_last_epoch_by_the_own_forecast_is_refused(plan_of):
    asked = {"known": KNOWN, "workers": GPUS, "training": {"epochs": 60}}
    with pytest.raises(
        PlanError, match=r"60 epochs take at least 89\.5 min .*--max-hours=1\.5 or more"
    ):
        plan_of(**asked, max_hours=1.0)
    with pytest.raises(PlanError, match=r"take at least 89\.5 min .* ends the run after 3 s"):
        plan_of(**asked, max_hours=0.001)
    with pytest.raises(BudgetError, match=r"--budget-usd=54 ends the run after 88 min"):
        plan_of(**asked, price=PRICE, max_hours=10.0, budget_usd=54)
    resumed = plan_of(**asked, max_hours=1.0, run_spec_hash="0" * 12)
    assert any("may end the run early" in text for text in resumed.warnings)


def test_unknown_showers_and_a_growing_batch_are_warned_of(plan_of):
    unknown = "showers in gs://lab/data/electrons is unknown here: time and cost assume 124,987"
    assert any(unknown in text for text in plan_of(showers={"records": None}).warnings)
    assert not any("showers" in text for text in plan_of().warnings)
    batch = "the global batch grows with --nodes"
    assert any(batch in text for text in plan_of(workers={"nodes": 2}).warnings)
    for training in ({"batch_per_replica": 8}, {"global_batch_size": 64}):
        asked = plan_of(workers={"nodes": 2}, training=training)
        assert not any(batch in text for text in asked.warnings)


USD = st.floats(0.01, 1e6)


BUDGET = {"max_hours": 24, "budget_usd": 10, "usd_per_second": 0.01}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"max_hours": 1.5}, (5400, "--max-hours=1.5")),
        ({"max_hours": 1e-9}, (1, "--max-hours=1e-09")),
        (BUDGET | {"reserve_seconds": 100}, (900, "--budget-usd=10")),
        (BUDGET | {"max_hours": 1, "budget_usd": 1000}, (3600, "--max-hours=1")),
        (BUDGET | {"once_usd": 4}, (600 - 120, "--budget-usd=10")),
        (BUDGET | {"spent_usd": 4}, (600 - 120, "--budget-usd=10")),
    ],
    ids=[
        *("hours", "a second at least", "a budget that ends earlier", "a budget that suffices"),
        *("moving the data is paid too", "what was spent is no longer there"),
    ],
)
def test_hours_or_a_budget_are_a_deadline_and_say_so(asked, expected):
    assert deadline(**asked) == expected


def test_moving_the_data_for_the_whole_budget_is_refused():
    with pytest.raises(BudgetError, match=r"the transfer of the data costs 9\.50 USD"):
        deadline(**BUDGET, once_usd=9.5)


@pytest.mark.parametrize(("budget", "spent"), [(1.0, 0.0), (100.0, 99.0), (1.0, 5.0)])
def test_a_budget_that_leaves_no_time_is_refused_with_the_sums(budget, spent):
    with pytest.raises(BudgetError) as refused:
        deadline(max_hours=1, budget_usd=budget, usd_per_second=0.01, spent_usd=spent)
    assert f"{budget:.2f} USD leaves no time to train: {spent:.2f} USD" in str(refused.value)
    assert "120 s reserved for startup" in str(refused.value)
    assert "cost 1.20 USD" in str(refused.value)
    assert str(refused.value).endswith(f"; give more than --budget-usd={spent + 1.2:.2f}")


def test_a_budget_without_a_price_is_refused_and_says_how_to_name_one():
    with pytest.raises(
        ConfigError, match=r"needs the price of a node.*--price-as=gcp/.*cloudgan offers"
    ):
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


RUN = MeasuredThroughput("V100", 8, 1000, 100.0, 10.0, 50.0, "the lab's run", 64, 1000 / 512)
RUN_MODEL = build_throughput_model("paper", 1000, (RUN,))
NOTHING = build_throughput_model("paper", 1000, ())


def job(epochs, **training):
    return RunConfig(training=TrainingConfig(epochs=epochs, **training))


def workers(nodes=1, accelerator="V100", count=8):
    return Workers(
        nodes=nodes, accelerator=accelerator, accelerators_per_node=count, cpus=8, memory_gib=30
    )


def test_one_measured_run_has_a_band_that_holds_the_next_one():
    found = train_forecast(job(10), workers(), RUN_MODEL, PRICE)
    assert found.epoch_seconds == 100
    assert 85 < found.low_epoch_seconds < 95
    assert 105 < found.high_epoch_seconds < 115
    for seconds, epoch, usd in (
        (found.low_seconds, found.low_epoch_seconds, found.low_usd),
        (found.high_seconds, found.high_epoch_seconds, found.high_usd),
    ):
        assert seconds == pytest.approx(50 + 10 * 10 + 10 * epoch)
        assert usd == pytest.approx(seconds * 0.01)
    assert (found.grade, found.basis, found.why_unknown) == ("measured", "the lab's run", "")


def test_a_number_that_was_not_measured_has_a_band_and_no_figure():
    found = train_forecast(job(10), workers(nodes=2), RUN_MODEL, PRICE)
    assert found.epoch_seconds is None
    one = train_forecast(job(10), workers(), RUN_MODEL, PRICE)
    assert found.low_epoch_seconds == one.low_epoch_seconds / 2
    assert found.high_epoch_seconds == one.high_epoch_seconds
    assert found.low_seconds == 50 + 10 * 10 + 10 * found.low_epoch_seconds
    assert found.high_usd == pytest.approx(found.high_seconds * 0.02), "both nodes are paid"


def test_without_a_price_time_is_known_and_money_is_not():
    found = train_forecast(job(10), workers(), RUN_MODEL, None)
    assert found.low_seconds is not None
    assert found.low_usd is None
    assert found.high_usd is None
    assert "--price-as=OFFER" in found.why_unknown


@pytest.mark.parametrize(
    ("asked", "known", "why"),
    [
        (workers(count=0, accelerator=None), RUN_MODEL, "no measured run on this hardware"),
        (workers(accelerator="X9"), RUN_MODEL, "X9 was not measured"),
        (workers(), NOTHING, "no run of the network 'paper' was measured"),
    ],
)
def test_unknown_stays_unknown_and_says_why(asked, known, why):
    found = train_forecast(job(10), asked, known, None)
    assert found.low_seconds is found.high_seconds is found.low_usd is None
    assert why in found.why_unknown


def test_a_run_that_ends_before_its_epochs_has_no_forecast():
    found = train_forecast(job(10, max_steps=5), workers(), RUN_MODEL, PRICE)
    assert found.epoch_seconds == 100
    assert found.low_seconds is found.high_seconds is found.low_usd is found.high_usd is None
    assert "--max-steps, --max-seconds or --until" in found.why_unknown
