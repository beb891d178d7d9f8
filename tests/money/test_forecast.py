"""The cost of a whole job, with start-up and fees; and its forecast beside the measurement, with the largest cause of a difference."""

import datetime as dt

import pytest

from cloudgan.core.clouds import CLOUDS
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import Fees, load_fees
from cloudgan.money.forecast import (
    JobContext,
    StartupTime,
    find_startup_time,
    forecast_vs_actual,
    job_cost,
    load_startup_times,
)
from cloudgan.money.report import cost_report
from cloudgan.schema.item import Item
from cloudgan.schema.plan import Forecast, ForecastPart, JobCost
from cloudgan.schema.price_row import CONTROL_PLANE, SYSTEM_NODE, DataMove, PoolFee
from cloudgan.schema.record import RunRecord
from launch.plan.test_build import PRICE
from tests.money.conftest import (
    NOON,
    ROW,
    TODAY,
    after,
    attempt,
    cluster_of,
    epoch,
    fee,
    launch_of,
    started,
    stopped,
)

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


A_SECOND = ROW.usd_per_hour / 3600


def rows(*, up=100, ended_at=70, slow=1.0, epochs=4, **forecast):
    """A run of 4 epochs of 10 s; its machine is up from 0 to `up`."""
    lines = [started(), epoch(0, 20 * slow, first=True)]
    lines += [epoch(number, 10 * slow) for number in range(1, epochs)]
    record = RunRecord(lines=(*lines, stopped(10 * epochs, ended_at)))
    times = {"program_started_at": NOON, "program_ended_at": after(ended_at)}
    launch = launch_of(attempt((0, up), end_reason="finished", **times))
    report = cost_report("gan", record, TODAY, launch=launch, fees=Fees(()))
    known = {
        "epochs": 4,
        "epoch_seconds": 10,
        "low_epoch_seconds": 9,
        "high_epoch_seconds": 11,
        "low_seconds": 50,
        "high_seconds": 70,
        "low_usd": 50 * A_SECOND,
        "high_usd": 70 * A_SECOND,
    }
    ahead = Forecast(**known | forecast)
    low, high = 50 * A_SECOND, 70 * A_SECOND
    training = ForecastPart(item=Item.TRAINING, low_usd=low, usd=high)
    cost = JobCost(parts=(training,), known_low_usd=low, known_usd=high)
    found = forecast_vs_actual(report, ahead, len(record.epochs()), cost)
    return {row.metric: row for row in found}


def test_forecast_and_measurement_are_compared():
    found = rows(up=70)
    epoch_row, seconds, usd = found.values()
    assert (epoch_row.low, epoch_row.predicted, epoch_row.high) == (9, 10, 11)
    assert epoch_row.measured == 10
    assert (seconds.low, seconds.high, seconds.measured) == (50, 70, 20 + 30 + 8 + 4)
    assert usd.measured == pytest.approx(70 * A_SECOND)
    assert usd.billed is None
    assert [row.explanation.partition(";")[0] for row in found.values()] == ["inside the band"] * 3
    beside = "disks, addresses and data transfer of the nodes, cluster"
    assert f"not counted: {beside}" in usd.explanation


@pytest.mark.parametrize(
    ("run", "cause", "usd"),
    [
        ({"up": 1070}, "idle tail", 1000 * A_SECOND),
        ({"slow": 10, "up": 520, "ended_at": 520}, "epochs slower than the band", 0),
    ],
)
def test_the_largest_cause_of_a_higher_cost_is_named(run, cause, usd):
    found = rows(**run)
    why = found["USD"].explanation
    assert f"above the band; largest cause: {cause}" in why
    assert not usd or f"{usd:.4g} USD" in why
    epochs = "809% above the band" if "slow" in run else "inside the band"
    assert found["seconds per epoch"].explanation == epochs


def test_an_early_end_reports_the_trained_epochs():
    found = rows(epochs=2, up=40, ended_at=40)
    assert found["seconds of all epochs"].explanation == "2 of 4 epochs were trained"
    assert found["USD"].explanation.startswith("2 of 4 epochs were trained")


def test_a_metric_without_forecast_has_no_row():
    found = rows(low_usd=None, high_usd=None, low_seconds=None, high_seconds=None)
    assert list(found) == ["seconds per epoch"]


def test_the_forecast_of_the_whole_job_is_compared_with_the_whole_cost():
    """Training 10 to 12 h of a T4, cluster and disk: a run of 11 h is inside, not above for its cluster."""
    row = load_catalog().row("gcp/n1-standard-8+1xT4/us-central1/spot")
    fees = (PoolFee(kind="disk", product="pd-balanced", quantity=100), PoolFee(kind="public_ip"))
    planned = job_cost(
        row, 1, (10 * HOUR, 12 * HOUR), JobContext(load_fees(), load_startup_times()), fees=fees
    ).cost
    edges = {"low_seconds": 10 * HOUR, "high_seconds": 12 * HOUR}
    usd = {"low_usd": row.cost_usd(10 * HOUR), "high_usd": row.cost_usd(12 * HOUR)}
    ahead = Forecast(epochs=2, **edges | usd)
    hours = 11 * HOUR
    epochs = (epoch(number, hours / 2 - 3, first=not number) for number in (0, 1))
    begun = started().model_copy(update={"startup_seconds": 0})
    record = RunRecord(lines=(begun, *epochs, stopped(20, hours)))

    def usd_row(up):
        cluster = cluster_of(up, system_node="e2-medium", system_nodes=1)
        times = {"program_started_at": NOON, "program_ended_at": after(hours), "cluster": cluster}
        known = {"end_reason": "finished", "stored_gib_months": 0, "egress_gib": 0} | times
        known |= {"fees": (CONTROL_PLANE, SYSTEM_NODE, *fees)}
        known = attempt((0, up), row=row, **known)
        report = cost_report("r", record, TODAY, launch=launch_of(known), fees=load_fees())
        return forecast_vs_actual(report, ahead, 2, planned)[-1], report.totals.known_usd

    hourly = row.usd_per_hour + 0.1 + 0.033506 + 100 * 0.1 / 730 + 0.005
    inside, usd = usd_row(hours)
    assert inside.measured == pytest.approx(usd) == pytest.approx(11 * hourly)
    assert (inside.low, inside.high) == (planned.known_low_usd, planned.known_usd)
    assert inside.explanation == "inside the band"
    planned = planned.model_copy(update={"known_usd": usd * (1 - 1e-15)})
    assert usd_row(hours)[0].explanation == "inside the band", "another order of the same sum"
    above, _ = usd_row(hours + 5 * HOUR)
    tail = row.cost_usd(5 * HOUR)
    assert f"largest cause: idle tail, {tail:.4g} USD more than planned" in above.explanation
