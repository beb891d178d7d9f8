"""Time and cost until a line of the record: attempts before count, time after does not."""

import pytest

import records
from cloudgan.money.fees import load_fees
from cloudgan.money.quality_cost import cost_until, end_of_step
from cloudgan.money.report import cost_report
from cloudgan.schema.price_row import PoolFee
from cloudgan.schema.quality import RunToQuality
from cloudgan.schema.record import RunRecord
from records import resumed
from tests.money.conftest import ROW, TODAY, attempt, epoch, launch_of, started, stopped
from tests.money.test_report import FEES


def validated(step, seconds):
    return records.validated(step // 10 - 1, 0.1, step=step, program_seconds=seconds)


def until(record, step, *attempts, row=None):
    launch = launch_of(*attempts) if attempts else None
    line = end_of_step(record, step)
    run = RunToQuality(run="gan", seed=None, outcome="met", detail="")
    return cost_until(run, record, line, row=row, launch=launch, fees=FEES)


TWICE = RunRecord(
    lines=(
        started(), epoch(0, 20, first=True), epoch(1, 10), stopped(20, 50),
        started(10), resumed(10), validated(20, 18), epoch(1, 11), epoch(2, 10), stopped(30, 40),
    )
)  # fmt: skip


def test_lost_work_and_processes_before_count():
    found = until(TWICE, 20, row=ROW)
    assert found.program_seconds == 50 + 18
    assert found.train_seconds == 20 + 10 + 11
    assert found.usd == pytest.approx(ROW.cost_usd(68))


def test_the_end_of_a_process_is_the_time_of_its_last_step():
    assert until(TWICE, 30, row=ROW).program_seconds == 50 + 40
    assert end_of_step(TWICE, 25) is None


def test_a_process_without_an_end_makes_the_time_unknown():
    record = RunRecord(lines=tuple(line for line in TWICE.lines if line != stopped(20, 50)))
    found = until(record, 20, row=ROW)
    assert (found.program_seconds, found.train_seconds, found.usd) == (None, None, None)
    assert "did not record its end" in found.why_unknown


def test_nodes_cost_what_they_cost_less_their_time_after():
    first, second = attempt((0, 100)), attempt((200, 300), (200, 300))
    whole = cost_report(
        "r", TWICE, TODAY, launch=launch_of(first, second), fees=FEES
    ).totals  # fmt: skip
    found = until(TWICE, 20, first, second)
    assert found.usd == pytest.approx(whole.known_usd - ROW.cost_usd(2 * (40 - 18)))
    assert "storage" in " ".join(found.usd_unknown)


def test_disks_and_addresses_of_the_time_after_do_not_count_either():
    """30 of 100 s come after: 70 % of the node, of its disk of 100 GiB and of its address."""
    record = RunRecord(
        lines=(started(), epoch(0, 20, first=True), validated(10, 60), stopped(10, 90))
    )
    fees = (PoolFee(kind="disk", product="pd-balanced", quantity=100), PoolFee(kind="public_ip"))
    found = cost_until(
        RunToQuality(run="gan", seed=None, outcome="met", detail=""),
        record,
        end_of_step(record, 10),
        row=None,
        launch=launch_of(attempt((0, 100), fees=fees, stored_gib_months=0, egress_gib=0)),
        fees=load_fees(),
    )
    hourly = ROW.usd_per_hour + 100 * 0.1 / 730 + 0.005
    assert found.usd == pytest.approx(hourly * 70 / 3600)


def test_attempts_after_the_goal_do_not_count():
    record = RunRecord(
        lines=(
            started(), validated(10, 25), epoch(0, 20, first=True), stopped(10, 50),
            started(10), resumed(10), epoch(1, 10), stopped(20, 40),
        )
    )  # fmt: skip
    found = until(record, 10, attempt((0, 100)), attempt((200, 900)))
    assert found.usd == pytest.approx(ROW.cost_usd(100 - 25))


def test_a_node_without_an_end_has_no_cost():
    found = until(TWICE, 20, attempt((0, 100)), attempt((200, None)))
    assert found.usd is None
    assert "still up" in found.why_unknown
    assert found.program_seconds == 68
