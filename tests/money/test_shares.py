"""What masters and workers cost; the parts add up to the line items."""

import math

import pytest

from cloudgan.money.report import cost_report
from cloudgan.money.run_cost import RunCost
from cloudgan.money.shares import grid_shares
from cloudgan.schema.coevolution import CellLine
from cloudgan.schema.record import RunRecord
from cloudgan.schema.record_line import Exchanged
from tests.money.conftest import ROW, TODAY, after, attempt, epoch, launch_of, started, stopped


def exchanged(number, rank, worker, **seconds):
    return Exchanged(
        time="t",
        step=1,
        epoch=number,
        rank=rank,
        worker=worker,
        updates=1,
        seconds={"wait": 0.0} | seconds,
        staleness={},
    )


def record(*, last=()):
    """A tracing epoch of 20 s and one of 10 s; a master and two workers."""
    busy = {"train": 6.0, "gather": 0.5, "update": 0.5, "wait": 1.0, "save": 1.0}
    return RunRecord(
        lines=(
            started(),
            epoch(0, 20, first=True),
            exchanged(0, 0, None, wait=19.0, update=1.0),
            exchanged(0, 1, 0, train=20.0),
            exchanged(0, 2, 1, train=20.0),
            epoch(1, 10),
            exchanged(1, 0, None, wait=9.0, update=1.0),
            exchanged(1, 1, 0, **busy),
            exchanged(1, 2, 1, **busy),
            *last,
            stopped(20, 50),
        )
    )


def seconds_of(shares):
    return {share.name: share.node_seconds for share in shares}


def test_the_epochs_are_divided_among_the_ranks_and_their_routines():
    report = cost_report("r", record(), TODAY, row=ROW)
    seconds = seconds_of(report.shares)
    # Three ranks: a third of 20 s and of 10 s each; of the second epoch by the workers' clocks.
    assert seconds == pytest.approx(
        {
            "masters": 10.0,
            "workers: train": 2 * (20 + 6) / 3,
            "workers: exchange": 2 / 3,
            "workers: wait": 2 / 3,
            "workers: save": 2 / 3,
            "workers: other": 2 / 3,
            "outside of the epochs": 20.0,
        }
    )
    known = math.fsum(share.usd for share in report.shares)
    assert known == pytest.approx(report.totals.known_usd, rel=1e-12)
    assert known == pytest.approx(ROW.cost_usd(50))
    shares = RunCost(report=report).view().basis[1]
    assert shares.rows[0][0] == "masters"


def test_a_group_counts_with_all_its_ranks():
    report = cost_report("r", record(), TODAY, row=ROW, group=2)
    seconds = seconds_of(report.shares)
    assert (seconds["masters"], seconds["workers: wait"]) == pytest.approx((30 / 5, 4 / 5))


def test_clocks_of_a_worker_that_exceed_the_epoch_are_scaled_to_it():
    late = (epoch(2, 10), exchanged(2, 0, None), exchanged(2, 1, 0, train=15.0, wait=5.0))
    report = cost_report("r", record(last=late), TODAY, row=ROW)
    assert math.fsum(share.node_seconds for share in report.shares) == pytest.approx(50)


def test_the_parts_of_a_provisioned_run_add_up_to_the_bill():
    """Provisioning, idle tail, rounding and fees besides nodes are parts, too."""
    times = {"program_started_at": after(30), "program_ended_at": after(80)}
    launch = launch_of(attempt((0, 100), **times))
    report = cost_report("r", record(), TODAY, launch=launch)
    seconds = seconds_of(report.shares)
    assert seconds["masters"] == pytest.approx(10)
    assert math.fsum(seconds.values()) == pytest.approx(
        report.billed_attempts[0].billed_node_seconds
    )
    assert math.fsum(share.usd for share in report.shares) == pytest.approx(report.totals.known_usd)


def test_without_a_price_the_parts_have_seconds_only_and_other_runs_have_no_parts():
    report = cost_report("r", record(), TODAY)
    assert report.shares[0].node_seconds == pytest.approx(10)
    assert {share.usd for share in report.shares} == {None}
    plain = RunRecord(lines=(started(), epoch(0, 20, first=True), stopped(20, 50)))
    assert cost_report("r", plain, TODAY, row=ROW).shares == ()


def line(iteration, **seconds):
    return CellLine(
        iteration=iteration,
        generator_fitness=1.0,
        discriminator_fitness=1.0,
        rates=(0.1, 0.1),
        losses=("bce",),
        selected=("a", "b"),
        entered=0,
        best=("a", ""),
        members={0: 1.0},
        score=1.0,
        seconds=seconds,
    )


CELLS = {
    "0-0": [line(1, train=6.0, gather=1.0, wait=0.0), line(2, train=2.0, gather=1.0)],
    "0-1": [line(1, train=3.0, gather=1.0, wait=3.0), line(2, train=1.0, wait=1.0)],
}


def test_each_rank_has_an_equal_share_of_the_machines_and_idle_ranks_are_named():
    # Ten seconds of five ranks on two machines: four node seconds each.
    found = grid_shares(CELLS, ROW, ranks=5, machines=2)
    assert seconds_of(found) == pytest.approx(
        {
            "cell 0-0: gather": 0.8,
            "cell 0-0: train": 3.2,
            "cell 0-1: gather": 0.4,
            "cell 0-1: train": 1.6,
            "cell 0-1: wait": 1.6,
            "cell 0-1: other": 0.4,
            "master": 4.0,
            "ranks without a cell": 8.0,
        }
    )
    assert math.fsum(share.usd for share in found) == pytest.approx(ROW.cost_usd(20))


def test_cells_of_one_process_follow_each_other():
    found = grid_shares(CELLS, None)
    assert seconds_of(found)["cell 0-1: wait"] == 4.0
    assert math.fsum(seconds_of(found).values()) == pytest.approx(10 + 9)
    assert {share.usd for share in found} == {None}
