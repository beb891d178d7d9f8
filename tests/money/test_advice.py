"""Each recommendation appears above its threshold only, and never with missing data."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import records
from cloudgan.money.advice import (
    BATCH_GAIN,
    CHECKPOINT_SHARE,
    INPUT_BOUND_UTILISATION,
    NEW_NODE_SECONDS,
    SPOT_SAVING,
    STARTUP_SHARE,
    batch_recommendation,
    recommendations,
)
from cloudgan.money.comparison import summarize
from cloudgan.money.fees import load_fees
from cloudgan.money.ledger import Ledger
from cloudgan.money.report import cost_report, run_ledger
from cloudgan.schema.price_row import CONTROL_PLANE, PoolFee
from cloudgan.schema.record import Checkpointed, Epoch, RunRecord, Started
from cloudgan.speed.spot import (
    PREEMPTIONS_PER_NODE_HOUR,
    Preemption,
    checkpoint_interval,
    expected_seconds,
    interruption_rate,
)
from tests.money.conftest import NOON, ROW, TODAY, after, attempt, cluster_of, launch_of

RATE, EPOCH_SECONDS = 100.0, 1000.0
ONE_CHECKPOINT = 10.0


def row(market="on_demand", usd_per_hour=3.6, **changes):
    node = {"provider": "aws", "node_type": "p3.2xlarge", "region": "us-east-1"}
    price = {"market": market, "usd_per_hour": usd_per_hour, "accelerator_count": 1}
    return records.price_row(**node | price | changes)


def started(second=0, startup=5.0, batch=64, replicas=2, device="a V100"):
    on = {"device": device, "replicas": replicas, "global_batch_size": batch * replicas}
    return records.started(
        time=f"2026-01-01T00:00:{second:02}Z",
        training_showers=100_000,
        numerics=records.numerics(**on),
        startup_seconds=startup,
    )


def epoch(number, *, tracing=0.0, checkpoints=0.0, input_utilisation=None, rate=RATE, first=None):
    """An epoch of 1000 s at 100 showers per second, after `tracing` seconds lost."""
    return records.epoch(
        number,
        EPOCH_SECONDS * RATE / rate + tracing,
        time="2026-01-01T00:01:00Z",
        step=100 * (number + 1),
        first=number == 0 if first is None else first,
        steps=100,
        samples=int(RATE * EPOCH_SECONDS),
        trace_seconds=tracing + 1,
        validation_seconds=0,
        checkpoint_seconds=checkpoints,
        samples_per_second=rate,
        input_utilisation=input_utilisation,
    )


def saved(seconds=ONE_CHECKPOINT):
    return Checkpointed(time="2026-01-01T00:00:50Z", step=0, path="p", seconds=seconds, bytes=1)


def run(*epochs, start=None):
    return RunRecord(lines=(start or started(), saved(), *(epochs or map(epoch, range(4)))))


def items_of(record, row, nodes=1):
    """The cost of a run on nodes of this price."""
    known, _ = run_ledger(record, row=row)
    lines = (
        line if line.quantity is None else replace(line, quantity=nodes * line.quantity)
        for line in known.lines
    )
    return Ledger(tuple(lines)).line_items()


def recommend(record, row=None, nodes=1, **given):
    return recommendations(record, items_of(record, row, nodes), row=row, nodes=nodes, **given)


def titles(record, row=None, **given):
    return [one.title for one in recommend(record, row, **given)]


def test_a_run_without_epochs_has_no_recommendation():
    for record in (RunRecord(lines=()), RunRecord(lines=(started(),))):
        assert recommend(record, row=row(), other_market=row("spot", 0.1)) == ()


# Input


def test_an_input_bound_run_is_reported_with_unknown_saving():
    (recommendation,) = recommend(
        run(*(epoch(n, input_utilisation=INPUT_BOUND_UTILISATION) for n in range(3))), row=row()
    )
    assert recommendation.title == "training is input-bound"
    assert "90%" in recommendation.evidence
    assert recommendation.saves_seconds_per_epoch is recommendation.saves_usd is None


# Begin


def begun(lost, epochs=4):
    """A run of one process with `lost` seconds before it trained at its later speed."""
    return run(
        epoch(0, tracing=lost - 5),
        *map(epoch, range(1, epochs)),
        start=started(startup=5),
    )


def test_a_long_startup_is_reported_with_the_epochs_needed():
    (recommendation,) = recommend(begun(1500), row=row())
    assert recommendation.title == "the first epoch dominates"
    assert "took 1500 s, 27% of the run" in recommendation.evidence
    assert recommendation.action.startswith("--epochs=7,")  # 6 are exactly 20 %
    assert recommendation.saves_usd is None
    assert titles(begun(1500, epochs=7)) == []


def test_the_share_of_a_startup_is_of_all_time_that_the_cost_lists():
    lines = begun(1500).lines
    end = records.stopped(400, 7500.0)
    (recommendation,) = recommend(RunRecord(lines=(*lines, end)), row=row())
    assert "took 1500 s, 20% of the run" in recommendation.evidence, "of 7500 s, not of 5500 s"


def test_an_unmeasured_startup_is_not_reported():
    lines = begun(5000).lines
    assert titles(RunRecord(lines=lines[1:])) == []
    still = tuple(
        line.model_copy(update={"samples_per_second": 0.0}) if isinstance(line, Epoch) else line
        for line in lines
    )
    assert titles(RunRecord(lines=still)) == []


def test_restarts_are_reported_with_the_saving_of_one_process():
    cold = [epoch(number, tracing=495, first=True) for number in range(3)]
    starts = [started(number) for number in range(3)]
    lines = [line for pair in zip(starts, cold, strict=True) for line in pair]
    lines = [
        line.model_copy(update={"step": 100 * (index // 2)}) if isinstance(line, Started) else line
        for index, line in enumerate(lines)
    ]
    (recommendation,) = recommend(RunRecord(lines=tuple(lines)), row=row())
    assert recommendation.title == "restarts dominate"
    assert "3 times" in recommendation.evidence
    assert recommendation.saves_seconds_per_epoch == pytest.approx(1000 / 3)
    assert recommendation.saves_usd == pytest.approx(1.0)  # 1000 s at 3.6 USD/h
    assert recommendation.action.startswith("fewer stops")


def test_a_command_that_was_given_again_after_the_end_is_no_restart():
    once = begun(1500).lines
    again = (started(9, startup=5000), records.resumed(400), records.stopped(400, 5000))
    (recommendation,) = recommend(RunRecord(lines=(*once, *again, *again)), row=row())
    assert recommendation.title == "the first epoch dominates"
    assert "took 1500 s, 14% of the run" in recommendation.evidence, "of all that is paid, 10,500 s"


def test_a_process_that_was_killed_before_its_first_epoch_is_a_restart():
    lines = (started(startup=5000), *begun(1500).lines)
    assert titles(RunRecord(lines=lines), row()) == ["restarts dominate"]


def test_a_finished_run_that_goes_on_with_more_epochs_needs_no_other_nodes():
    end, more = records.stopped(400, 5500), started(9, startup=1500)
    cold = epoch(4, tracing=495, first=True)
    lines = (*begun(1500).lines, end, more.model_copy(update={"step": 400}), cold)
    (recommendation,) = recommend(RunRecord(lines=lines), row=row())
    assert recommendation.title == "restarts dominate"
    assert recommendation.action == "one command with all --epochs"


# Checkpoints


def with_checkpoints(seconds):
    return run(*(epoch(number, checkpoints=seconds) for number in range(4)))


@pytest.mark.parametrize(
    ("market", "rate"),
    [
        ("spot", interruption_rate("aws", "V100").per_node_hour),
        ("on_demand", PREEMPTIONS_PER_NODE_HOUR),
    ],
)
def test_frequent_checkpoints_are_reported_with_the_optimal_interval(market, rate):
    """The traces of V100 on AWS are of spot nodes."""
    (recommendation,) = recommend(with_checkpoints(100), row=row(market), nodes=2)
    best = checkpoint_interval(Preemption(rate, 0.0, ONE_CHECKPOINT), 2)
    assert recommendation.title == "checkpoints are too frequent"
    assert "9% of the time, 10 s each" in recommendation.evidence
    assert recommendation.action == f"checkpoint.every_seconds: {best:.0f} in run.yaml"
    per_epoch = 100 - EPOCH_SECONDS * ONE_CHECKPOINT / best
    assert recommendation.saves_seconds_per_epoch == pytest.approx(per_epoch)
    assert recommendation.saves_usd == pytest.approx(4 * per_epoch / 3600 * 3.6 * 2)


def test_one_checkpoint_is_enough_for_a_run_that_is_shorter_than_the_best_interval():
    record = run(epoch(0, first=False, checkpoints=100))
    (recommendation,) = recommend(record, row=None)
    assert recommendation.action == "checkpoint.every_seconds: 1000 in run.yaml"
    assert recommendation.saves_usd is None


# Spot


def spot_share(price):
    preemption = Preemption(restart_seconds=NEW_NODE_SECONDS + 5, checkpoint_seconds=ONE_CHECKPOINT)
    preemption = preemption.of_node(row())
    return 1 - price / 3.6 * expected_seconds(4 * EPOCH_SECONDS, preemption, 1) / 4000


def test_spot_nodes_that_are_cheaper_with_preemptions_are_reported():
    (recommendation,) = recommend(run(), row=row(), other_market=row("spot", 1.2))
    assert recommendation.title == "spot nodes would cost less"
    assert "1.2 instead of 3.6 USD per hour" in recommendation.evidence
    assert "0.14 times an hour (public traces of V100" in recommendation.evidence
    assert recommendation.saves_usd == pytest.approx(4 * spot_share(1.2))
    assert recommendation.saves_usd < 4 * (1 - 1.2 / 3.6)
    assert recommendation.saves_seconds_per_epoch is None


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (None, row("spot", 0.1)),
        (row(), None),
        (row("spot", 3.6), row("spot", 0.1)),
        (row(), row("on_demand", 0.1)),
        (row(), row("spot", 0.1, region="eu-west-1")),
        (row(), row("spot", 0.1, node_type="p3.8xlarge")),
        (row(), row("spot", 0.1, snapshot="2021")),
    ],
)
def test_spot_prices_of_another_node_are_ignored(own, other):
    assert titles(run(), row=own, other_market=other) == []


# Batch


def at_batch(batch, rate, **machine):
    return run(*(epoch(n, rate=rate) for n in range(3)), start=started(batch=batch, **machine))


def test_a_faster_larger_batch_is_reported():
    others = (at_batch(128, 120), at_batch(256, 125), at_batch(512, 90), at_batch(32, 500))
    own = at_batch(64, 100)
    recommendation = batch_recommendation(own, others, items_of(own, row()))
    assert recommendation.action.startswith("--batch=256,")
    assert "100 showers per second with 64 per replica, 125 with 256" in recommendation.evidence
    assert recommendation.saves_seconds_per_epoch == pytest.approx(200)
    assert recommendation.saves_usd == pytest.approx(0.6)
    four = batch_recommendation(own, others, items_of(own, row(), nodes=4))
    assert four.saves_usd == pytest.approx(4 * 0.6), "each node would be up for less time"


@pytest.mark.parametrize(
    ("others", "reported"),
    [
        ([at_batch(128, 100 * (1 + BATCH_GAIN) + 0.01)], True),
        ([at_batch(128, 100 * (1 + BATCH_GAIN) - 0.01)], False),
        ([], False),
        ([RunRecord(lines=())], False),
        ([at_batch(128, 300, device="an H100")], False),
        ([at_batch(128, 300, replicas=4)], False),
        ([at_batch(32, 300)], False),
    ],
)
def test_only_a_clearly_faster_larger_batch_of_the_same_machine_is_reported(others, reported):
    assert (batch_recommendation(at_batch(64, 100), others) is not None) is reported
    assert batch_recommendation(RunRecord(lines=()), others) is None


def test_what_a_larger_batch_saves_is_of_all_nodes_of_a_launched_run():
    own, faster = at_batch(64, 100), at_batch(128, 120)

    def saved(nodes):
        launch = launch_of(attempt(*[(0, 4000)] * nodes))
        report = cost_report("gan", own, TODAY, launch=launch)
        found = summarize(own, report, [faster]).recommendations
        return next(one.saves_usd for one in found if "batch" in one.title)

    assert saved(1) == pytest.approx(ROW.cost_usd(3 * 1000 * (1 - 100 / 120)))
    assert saved(4) == pytest.approx(4 * saved(1))


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_saving_is_the_difference_to_the_cost_of_the_run_with_the_change(nodes):
    """Cluster, disks and addresses have less time, too."""
    fees = (CONTROL_PLANE, PoolFee(kind="disk", product="pd-ssd", quantity=100))
    fees += (PoolFee(kind="public_ip"), PoolFee(kind="requests", product="reads", quantity=1e6))

    def report(checkpoint_seconds, until):
        times = {"program_started_at": NOON, "program_ended_at": after(until)}
        up = [(0, until)] * nodes
        one = attempt(*up, fees=fees, cluster=cluster_of(until), end_reason="finished", **times)
        record = with_checkpoints(checkpoint_seconds)
        record = RunRecord(lines=(*record.lines, records.stopped(400, until)))
        return cost_report("gan", record, TODAY, launch=launch_of(one), fees=load_fees())

    before = report(100, 5000)
    (found,) = before.recommendations
    per_epoch = found.saves_seconds_per_epoch
    with_it = report(100 - per_epoch, 5000 - 4 * per_epoch)
    saved = before.totals.known_usd - with_it.totals.known_usd
    rounding = nodes * ROW.cost_usd(1)
    assert found.saves_usd == pytest.approx(saved, abs=rounding)
    assert saved > rounding + 1.02 * nodes * ROW.cost_usd(4 * per_epoch), "of more than the nodes"


# All


def without_saved(record):
    """The record without the duration of its checkpoints."""
    lines = (line for line in record.lines if not isinstance(line, Checkpointed))
    return RunRecord(lines=tuple(lines))


def busy(*shares):
    return run(*(epoch(number, input_utilisation=one) for number, one in enumerate(shares)))


INPUT, START, SAVES, SPOT = (
    "training is input-bound",
    "the first epoch dominates",
    "checkpoints are too frequent",
    "spot nodes would cost less",
)
LIMIT = 3.6 * (1 - SPOT_SAVING) / (1 - spot_share(3.6))
BEGIN = STARTUP_SHARE / (1 - STARTUP_SHARE) * 4 * EPOCH_SECONDS
SAVE = CHECKPOINT_SHARE / (1 - CHECKPOINT_SHARE) * EPOCH_SECONDS


@pytest.mark.parametrize(
    ("record", "nodes", "spot_usd", "found"),
    [
        (run(), 1, None, None),
        (busy(*[INPUT_BOUND_UTILISATION - 0.001] * 3), 1, None, None),
        (busy(*[INPUT_BOUND_UTILISATION] * 3), 1, None, INPUT),
        (busy(1.0, None, None), 1, None, None),
        (begun(BEGIN + 0.1), 1, None, START),
        (begun(BEGIN - 0.1), 1, None, None),
        (with_checkpoints(SAVE + 0.01), 1, None, SAVES),
        (with_checkpoints(SAVE - 0.01), 1, None, None),
        (without_saved(with_checkpoints(300)), 1, None, None),
        (with_checkpoints(100), 720, None, None),
        (run(), 1, LIMIT * 0.999, SPOT),
        (run(), 1, LIMIT * 1.001, None),
        (run(), 20_000, 1.2, None),
        (without_saved(run()), 1, 0.1, None),
    ],
    ids=[
        *("an efficient run", "readers that rest", "busy readers", "only in the first epoch"),
        *("a long start", "a shorter start", "frequent checkpoints", "rarer checkpoints"),
        *("checkpoints of unknown time", "any of the nodes may be lost", "cheap spot nodes"),
        *("dearer spot nodes", "preempted often", "checkpoints not measured"),
    ],
)
def test_each_recommendation_appears_above_its_threshold_only(record, nodes, spot_usd, found):
    spot = row("spot", spot_usd) if spot_usd else None
    said = titles(record, row(), other_market=spot, nodes=nodes)
    assert said == ([found] if found else [])


def test_three_recommendations_are_given_at_most_and_the_largest_saving_first():
    """All four would apply."""
    wrong = {"checkpoints": 200.0, "input_utilisation": 1.0}
    record = run(
        *(epoch(number, tracing=0 if number else 3 * BEGIN, **wrong) for number in range(4))
    )
    found = recommend(record, row(), other_market=row("spot", 0.5))
    assert [one.title for one in found] == [SPOT, SAVES, INPUT]
    assert found[0].saves_usd > found[1].saves_usd
    assert found[2].saves_usd is None


@given(
    st.lists(
        st.tuples(st.floats(0, 5000), st.floats(0, 500), st.floats(0, 2) | st.none()), max_size=6
    ),
    st.floats(0.01, 5),
    st.integers(1, 16),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_hint_saves_more_than_the_run_cost(epochs, price, nodes):
    lines = [
        epoch(n, tracing=tracing, checkpoints=checkpoints, input_utilisation=busy)
        for n, (tracing, checkpoints, busy) in enumerate(epochs)
    ]
    record = RunRecord(lines=(started(), saved(), *lines))
    seconds = 5 + sum(e.train_seconds + e.checkpoint_seconds for e in lines)
    found = recommend(record, row=row(), other_market=row("spot", price), nodes=nodes)
    for recommendation in found:
        assert (recommendation.saves_usd or 0.0) <= seconds / 3600 * 3.6 * nodes * (1 + 1e-9)
        assert 0 <= (recommendation.saves_seconds_per_epoch or 0.0) <= seconds
