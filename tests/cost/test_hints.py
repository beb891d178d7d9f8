"""Each hint appears, is silent just below its threshold, and silent where nobody knows."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.core.fee_row import FeeRow
from cloudgan.core.hardware import Hardware
from cloudgan.core.price_row import PriceRow
from cloudgan.core.record import Checkpointed, Epoch, Numerics, RunRecord, Started
from cloudgan.cost.hints import (
    BEGIN_SHARE,
    CHECKPOINT_SHARE,
    NEW_NODE_SECONDS,
    READER_BUSY,
    SPOT_SAVING,
    Traffic,
    hints,
)
from cloudgan.cost.hints_batch import BATCH_GAIN, batch_hint
from cloudgan.cost.spot import Preemption, checkpoint_interval, expected_seconds

RATE, EPOCH_SECONDS = 100.0, 1000.0
ONE_CHECKPOINT = 10.0


def row(market="on_demand", usd_per_hour=3.6, **changes):
    found = {
        "provider": "aws",
        "node_type": "p3.2xlarge",
        "accelerator": "V100",
        "accelerator_count": 1,
        "accelerator_memory_gib": 16,
        "vcpu": 8,
        "memory_gib": 61,
        "region": "us-east-1",
        "market": market,
        "usd_per_hour": usd_per_hour,
        "unit_sold": "node",
        "source": "a test",
        "date": "2026-01-01",
        "confidence": "A",
        "snapshot": "current",
    }
    return PriceRow.model_validate(found | changes)


def started(second=0, startup=5.0, batch=64, replicas=2, device="a V100"):
    return Started(
        time=f"2026-01-01T00:00:{second:02}Z",
        step=0,
        config_hash="abc",
        training_showers=100_000,
        held_back_showers=10,
        hardware=Hardware(processor="a chip", cores=2, memory_gib=4),
        numerics=Numerics(
            processor="a chip",
            device=device,
            threads=2,
            replicas=replicas,
            workers=1,
            global_batch_size=batch * replicas,
            precision="float32",
            kernels="oneDNN",
            tensorflow="2",
            keras="3",
        ),
        versions={},
        git_commit=None,
        strategy="one",
        loop="custom",
        learning_rate=0.001,
        told=(),
        startup_seconds=startup,
    )


def epoch(number, *, tracing=0.0, checkpoints=0.0, reader_busy=None, rate=RATE, first=None):
    """An epoch of 1000 s at 100 showers per second, after `tracing` seconds lost."""
    return Epoch(
        time="2026-01-01T00:01:00Z",
        step=100 * (number + 1),
        epoch=number,
        first=number == 0 if first is None else first,
        complete=True,
        steps=100,
        samples=int(RATE * EPOCH_SECONDS),
        carried_samples=0,
        dropped_samples=0,
        train_seconds=EPOCH_SECONDS * RATE / rate + tracing,
        trace_seconds=tracing + 1,
        validation_seconds=0,
        checkpoint_seconds=checkpoints,
        samples_per_second=rate,
        losses={},
        test_losses=None,
        reader_busy=reader_busy,
    )


def saved(seconds=ONE_CHECKPOINT):
    return Checkpointed(time="2026-01-01T00:00:50Z", step=0, path="p", seconds=seconds, bytes=1)


def run(*epochs, start=None):
    return RunRecord(lines=(start or started(), saved(), *(epochs or map(epoch, range(4)))))


def titles(record, **given):
    return [hint.title for hint in hints(record, row=given.pop("row", None), **given)]


def test_a_run_with_nothing_to_save_has_no_hint():
    assert hints(run(), row=row()) == ()


def test_an_empty_record_has_no_hint():
    elsewhere = row("spot", 0.1)
    assert hints(RunRecord(lines=()), row=row(), other_market=elsewhere) == ()
    assert hints(RunRecord(lines=(started(),)), row=row(), other_market=elsewhere) == ()


# Input


def test_readers_that_never_rest_are_told_without_a_guess_what_it_saves():
    (hint,) = hints(run(*(epoch(n, reader_busy=READER_BUSY) for n in range(3))), row=row())
    assert hint.title == "the training waits for its showers"
    assert "90%" in hint.figure
    assert hint.saves_seconds_per_epoch is hint.saves_usd is None


def test_readers_that_rest_a_little_more_are_not():
    assert titles(run(*(epoch(n, reader_busy=READER_BUSY - 0.001) for n in range(3)))) == []


def test_readers_that_nobody_measured_are_not_nor_those_of_the_first_epoch():
    assert titles(run(epoch(0, reader_busy=1.0), epoch(1), epoch(2))) == []


# Begin


def begun(lost, epochs=4):
    """A run of one process with `lost` seconds before it trained at its later speed."""
    return run(
        epoch(0, tracing=lost - 5),
        *map(epoch, range(1, epochs)),
        start=started(startup=5),
    )


def test_a_long_begin_is_told_with_the_epochs_that_make_it_small():
    (hint,) = hints(begun(1500), row=row())
    assert hint.title == "the first epoch dominates"
    assert "took 1500 s, 27% of the run" in hint.figure
    assert hint.flag.startswith("--epochs=7,")  # 6 make it just 20 %
    assert hint.saves_usd is None
    assert titles(begun(1500, epochs=7)) == []


def test_a_begin_just_below_the_share_is_not_told():
    most = BEGIN_SHARE / (1 - BEGIN_SHARE) * 4 * EPOCH_SECONDS
    assert titles(begun(most + 0.1)) == ["the first epoch dominates"]
    assert titles(begun(most - 0.1)) == []


def test_a_begin_that_nobody_measured_is_not_told():
    lines = begun(5000).lines
    assert titles(RunRecord(lines=lines[1:])) == []
    still = tuple(
        line.model_copy(update={"samples_per_second": 0.0}) if isinstance(line, Epoch) else line
        for line in lines
    )
    assert titles(RunRecord(lines=still)) == []


def test_starting_again_and_again_is_told_with_what_one_process_would_save():
    cold = [epoch(number, tracing=495, first=True) for number in range(3)]
    starts = [started(number) for number in range(3)]
    lines = [line for pair in zip(starts, cold, strict=True) for line in pair]
    lines = [
        line.model_copy(update={"step": 100 * (index // 2)}) if isinstance(line, Started) else line
        for index, line in enumerate(lines)
    ]
    (hint,) = hints(RunRecord(lines=tuple(lines)), row=row())
    assert hint.title == "starting again dominates"
    assert "3 times" in hint.figure
    assert hint.saves_seconds_per_epoch == pytest.approx(1000 / 3)
    assert hint.saves_usd == pytest.approx(1.0)  # 1000 s at 3.6 USD/h


# Checkpoints


def with_checkpoints(seconds):
    return run(*(epoch(number, checkpoints=seconds) for number in range(4)))


def test_checkpoints_too_often_are_told_with_the_best_interval():
    (hint,) = hints(with_checkpoints(100), row=row(), nodes=2)
    best = checkpoint_interval(Preemption(checkpoint_seconds=ONE_CHECKPOINT), 2)
    assert hint.title == "it saves its state too often"
    assert "9% of the time, 10 s each" in hint.figure
    assert hint.flag == f"checkpoint.every_seconds: {best:.0f} in run.yaml"
    per_epoch = 100 - EPOCH_SECONDS * ONE_CHECKPOINT / best
    assert hint.saves_seconds_per_epoch == pytest.approx(per_epoch)
    assert hint.saves_usd == pytest.approx(4 * per_epoch / 3600 * 3.6 * 2)


def test_checkpoints_just_below_the_share_are_not_told():
    most = CHECKPOINT_SHARE / (1 - CHECKPOINT_SHARE) * EPOCH_SECONDS
    assert len(titles(with_checkpoints(most + 0.01))) == 1
    assert titles(with_checkpoints(most - 0.01)) == []


def test_checkpoints_of_unknown_length_are_not_told():
    lines = [line for line in with_checkpoints(300).lines if not isinstance(line, Checkpointed)]
    assert titles(RunRecord(lines=tuple(lines))) == []


def test_checkpoints_that_lose_least_are_not_told_however_many():
    assert titles(with_checkpoints(100), lost_per_node_hour=30.0) == []


def test_where_no_node_is_lost_one_checkpoint_a_run_is_enough():
    (hint,) = hints(with_checkpoints(100), row=None, lost_per_node_hour=0.0)
    assert hint.flag == "checkpoint.every_seconds: 4000 in run.yaml"
    assert hint.saves_usd is None


# Spot


def spot_share(price):
    preemption = Preemption(restart_seconds=NEW_NODE_SECONDS + 5, checkpoint_seconds=ONE_CHECKPOINT)
    return 1 - price / 3.6 * expected_seconds(4 * EPOCH_SECONDS, preemption, 1) / 4000


def test_spot_that_is_cheaper_with_its_losses_is_told():
    (hint,) = hints(run(), row=row(), other_market=row("spot", 1.2))
    assert hint.title == "spot nodes would cost less"
    assert "1.2 instead of 3.6 USD per hour" in hint.figure
    assert "assumed" in hint.figure
    assert hint.saves_usd == pytest.approx(4 * spot_share(1.2))
    assert hint.saves_usd < 4 * (1 - 1.2 / 3.6)
    assert hint.saves_seconds_per_epoch is None


def test_spot_that_saves_just_too_little_is_not_told():
    limit = 3.6 * (1 - SPOT_SAVING) / (1 - spot_share(3.6))
    assert len(titles(run(), row=row(), other_market=row("spot", limit * 0.999))) == 1
    assert titles(run(), row=row(), other_market=row("spot", limit * 1.001)) == []


def test_spot_that_is_lost_all_the_time_is_not_told():
    spot = row("spot", 1.2)
    assert titles(run(), row=row(), other_market=spot, lost_per_node_hour=3000) == []


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
def test_prices_that_are_unknown_or_of_another_node_say_nothing_of_spot(own, other):
    assert titles(run(), row=own, other_market=other) == []


def test_spot_of_a_run_whose_checkpoints_took_nobody_knows_how_long_is_not_told():
    lines = tuple(line for line in run().lines if not isinstance(line, Checkpointed))
    assert titles(RunRecord(lines=lines), row=row(), other_market=row("spot", 0.1)) == []


# Egress

FEE = FeeRow(
    provider="aws",
    kind="egress_gib",
    name="to another region",
    region="us-east-1",
    usd=0.02,
    unit="gib",
    source="a test",
    date="2026-01-01",
    confidence="A",
)


def test_showers_from_another_region_are_told_with_their_fee():
    (hint,) = hints(run(), row=row(), traffic=Traffic("eu-west-1", "us-east-1", 50.0, FEE))
    assert hint.title == "the showers come from another region"
    assert "50 GiB at 0.02 USD" in hint.figure
    assert hint.saves_usd == pytest.approx(1.0)
    assert "--region=eu-west-1" in hint.flag


@pytest.mark.parametrize(
    "traffic", [Traffic("a", "b", None, FEE), Traffic("a", "b", 50.0, None), Traffic("a", "b")]
)
def test_a_fee_or_size_that_nobody_knows_saves_an_unknown_sum(traffic):
    (hint,) = hints(run(), row=row(), traffic=traffic)
    assert hint.saves_usd is None


@pytest.mark.parametrize(
    "traffic",
    [
        None,
        Traffic(None, "b", 50.0, FEE),
        Traffic("a", None, 50.0, FEE),
        Traffic("a", "a", 50.0, FEE),
    ],
)
def test_one_region_or_an_unknown_one_says_nothing_of_traffic(traffic):
    assert titles(run(), traffic=traffic) == []


# Batch


def at_batch(batch, rate, **machine):
    return run(*(epoch(n, rate=rate) for n in range(3)), start=started(batch=batch, **machine))


def test_a_larger_batch_that_was_faster_is_told():
    others = (at_batch(128, 120), at_batch(256, 125), at_batch(512, 90), at_batch(32, 500))
    hint = batch_hint(at_batch(64, 100), others, row=row())
    assert hint.flag.startswith("--batch=256,")
    assert "100 showers per second with 64 per replica, 125 with 256" in hint.figure
    assert hint.saves_seconds_per_epoch == pytest.approx(200)
    assert hint.saves_usd == pytest.approx(0.6)


def test_a_larger_batch_that_was_hardly_faster_is_not_told():
    assert batch_hint(at_batch(64, 100), [at_batch(128, 100 * (1 + BATCH_GAIN) + 0.01)])
    assert batch_hint(at_batch(64, 100), [at_batch(128, 100 * (1 + BATCH_GAIN) - 0.01)]) is None


@pytest.mark.parametrize(
    "others",
    [
        [],
        [RunRecord(lines=())],
        [at_batch(128, 300, device="an H100")],
        [at_batch(128, 300, replicas=4)],
        [at_batch(32, 300)],
    ],
)
def test_one_record_or_those_of_other_machines_say_nothing_of_the_batch(others):
    assert batch_hint(at_batch(64, 100), others) is None
    assert batch_hint(RunRecord(lines=()), others) is None


# All


@given(
    st.lists(
        st.tuples(st.floats(0, 5000), st.floats(0, 500), st.floats(0, 2) | st.none()), max_size=6
    ),
    st.floats(0.01, 5),
    st.floats(0, 10),
    st.integers(1, 16),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_hint_saves_more_than_the_run_cost(epochs, price, losses, nodes):
    lines = [
        epoch(n, tracing=tracing, checkpoints=checkpoints, reader_busy=busy)
        for n, (tracing, checkpoints, busy) in enumerate(epochs)
    ]
    record = RunRecord(lines=(started(), saved(), *lines))
    seconds = 5 + sum(e.train_seconds + e.checkpoint_seconds for e in lines)
    found = hints(
        record,
        row=row(),
        other_market=row("spot", price),
        nodes=nodes,
        lost_per_node_hour=losses,
    )
    for hint in found:
        assert (hint.saves_usd or 0.0) <= seconds / 3600 * 3.6 * nodes * (1 + 1e-9)
        assert 0 <= (hint.saves_seconds_per_epoch or 0.0) <= seconds
