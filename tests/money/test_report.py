"""Line items add up to the total; unknown costs are named and never zero."""

import datetime as dt
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.core.provenance import InstalledWheels
from cloudgan.money.catalog import load_catalog
from cloudgan.money.cost_difference import figures_of_run
from cloudgan.money.fees import Fees
from cloudgan.money.report import cost_report, price_run
from cloudgan.schema.launch import KeptNodes, SentRequest, local_attempt
from cloudgan.schema.record import PreemptionNotice, RunRecord
from records import resumed
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
    plain_run,
    started,
    stopped,
)

SPOT = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
FEES = Fees(
    (
        fee("control_plane", 0.1, "GKE standard"),
        fee("system_node", 0.03, "e2-medium"),
        fee("storage_gib_month", 0.02, "bucket"),
        fee("egress_gib", 0.02, "to another region"),
        fee("egress_gib", 0.12, "to the internet"),
    )
)
OF_NODES = "disks, addresses and data transfer of the nodes"


def report(record, *attempts, **more):
    return cost_report("demo", record, TODAY, launch=launch_of(*attempts), fees=FEES, **more)


def seconds(found):
    return {
        part.name: part.node_seconds for part in found.line_items if part.node_seconds is not None
    }


def test_line_items_cover_the_whole_time(record):
    found = report(record, local_attempt("x"), row=ROW)
    assert seconds(found) == {
        "start-up and data staging": 5,
        "first epoch": 20,
        "steady epochs": 30,
        "validation": 8,
        "checkpoints": 4,
        "preempted and repeated work": 0,
        "other program time": 3,
    }
    assert found.priced_as == ROW.row_id
    assert found.basis.startswith("not measured on this node")


def test_nodes_of_a_price_file_cost_their_price_by_the_second(record):
    row = ROW.model_copy(update={"provider": "lambda", "usd_per_hour": 3.6, "region": "us-south-1"})
    found = report(record, attempt((0, 100.5), (0, 100.5), row=row))
    nodes = [part for part in found.line_items if part.price_row == row.row_id]
    assert math.fsum(part.usd or 0 for part in nodes) == pytest.approx(2 * 101 * 0.001)
    assert found.billed_attempts[0].rule == "the price file: by the second"


def test_a_spot_node_that_aws_takes_in_its_first_hour_is_in_no_line_item(lines):
    row = load_catalog().row("aws/g5.xlarge/us-east-1/spot")
    notice = PreemptionNotice(
        time=after(580).isoformat(), step=40, worker=1, cloud="aws", seconds=120
    )
    rented = attempt((0, 1200), (0, 600), row=row)
    paid = report(RunRecord(lines=lines), rented)
    found = report(RunRecord(lines=(*lines, notice)), rented)
    assert math.fsum(seconds(paid).values()) == pytest.approx(1800)
    assert math.fsum(seconds(found).values()) == pytest.approx(1200)
    (bill,) = found.billed_attempts
    assert (bill.billed_node_seconds, bill.up_node_seconds) == (1200, 1800)
    assert [text for text in found.warnings if "cost nothing" in text] == [
        "1 of 2 nodes of attempt 1 cost nothing: the cloud took them back within 60 min"
    ]


WHEELS = InstalledWheels(
    time="2026-11-21T11:59:50Z", wheels=30, bytes=10**8, fetch_seconds=4, install_seconds=16
)


def begun_with(lines, **noted):
    """A run each of whose processes noted this at its start."""
    first = (line.model_copy(update=noted) if line.kind == "started" else line for line in lines)
    return RunRecord(lines=tuple(first))


def test_wheel_installation_is_attributed_on_provisioned_nodes(lines):
    """It lies between the job's start and the program's, by the pod's own clock."""
    rented = attempt((0, 200), (0, 200), program_started_at=after(10), program_ended_at=after(150))
    records = (RunRecord(lines=lines), begun_with(lines, wheels=WHEELS))
    without, found = (seconds(report(one, rented)) for one in records)
    assert found.pop("wheel installation") == 2 * 20
    left = "unattributed node time"
    assert without.pop(left) - found.pop(left) == 2 * 20
    assert found == without


@pytest.mark.parametrize(
    ("noted", "name", "spent"),
    [
        ({"wheels": WHEELS}, "wheel installation", 20),
        ({"smoke_seconds": 12.0}, "smoke step and wait for all workers", 2 * 12),
    ],
    ids=["wheels are there when a process starts again", "each process is tested"],
)
def test_what_a_pod_does_before_a_process_is_an_activity_and_no_time_of_the_program(
    lines, noted, name, spent
):
    record = begun_with((*lines, started(40), stopped(40, 6)), **noted)
    found = report(record, row=ROW)
    (part,) = (one for one in found.line_items if one.name == name)
    assert (part.seconds, part.duration) == (spent, "billed_seconds")
    assert seconds(found)["other program time"] == 3 + 1


def test_what_a_run_here_cannot_know_is_named(record):
    found = report(record, row=ROW)
    before = ("provisioning", "node set-up and image pull", "idle tail")
    assert found.totals.unknown == (*before, "cluster", "storage", "egress")
    assert found.total().startswith("at least 0.05")
    assert found.totals.known_usd == pytest.approx(70 / 3600 * 2.86)


def test_an_own_machine_has_unknown_cost(record):
    found = report(record, local_attempt("x"))
    assert all(part.usd is None for part in found.line_items)
    assert found.total().startswith("unknown (unknown: start-up")
    assert found.unit_costs.per_epoch.usd is None
    assert "--price-as=OFFER" in (found.unit_costs.per_epoch.why_unknown or "")
    assert (found.durations.billed_seconds, found.durations.program_seconds) == (None, 70)


def test_the_end_of_a_killed_process_is_unknown(lines):
    found = report(RunRecord(lines=lines[:-1]), row=ROW)
    assert "end of a killed process" in found.totals.unknown
    assert found.totals.known_usd == pytest.approx(67 / 3600 * 2.86)


def test_an_empty_record_has_unknown_cost():
    found = report(RunRecord(lines=()), row=ROW)
    assert "compute" in found.totals.unknown
    assert found.total().startswith("unknown")
    assert "no complete epoch" in (found.unit_costs.per_epoch.why_unknown or "")


def test_epochs_that_were_run_again_are_repeated_work():
    before = (started(), epoch(0, 20, first=True), epoch(1, 10), stopped(20, 50))
    again = (started(10), resumed(10), epoch(1, 12, first=True), stopped(20, 30))
    found = seconds(report(RunRecord(lines=before + again), row=ROW))
    assert found["preempted and repeated work"] == 10 + 2
    assert found["first epoch"] == 20 + 12
    assert found["steady epochs"] == 0
    assert math.fsum(found.values()) == 50 + 30


def test_parts_that_are_longer_than_the_whole_are_not_believed(lines):
    found = report(RunRecord(lines=(*lines[:-1], stopped(40, 30))), row=ROW)
    assert seconds(found) == {"program, with activities longer than its total": 30}


def test_rented_nodes_are_paid_by_the_providers_clock(record):
    times = {"program_started_at": after(100), "program_ended_at": after(100 + 70)}
    found = report(record, attempt((0, 300), (60, 300), end_reason="finished", **times))
    parts = seconds(found)
    assert parts["provisioning"] == 60
    assert parts["node set-up and image pull"] == 2 * 40
    assert parts["idle tail"] == 2 * (300 - 170)
    assert parts["first epoch"] == 2 * 20
    assert math.fsum(parts.values()) == 300 + 240
    assert found.totals.known_usd == pytest.approx(540 / 3600 * 2.86)
    assert found.totals.unknown == (OF_NODES, "cluster", "storage", "egress")
    assert found.unit_costs.per_epoch.usd == pytest.approx(2 * 10 / 3600 * 2.86)
    (billed,) = found.billed_attempts
    assert (billed.up_node_seconds, billed.billed_node_seconds) == (540, 540)
    assert found.durations.billed_seconds == 300


@pytest.mark.parametrize(
    ("lines", "up", "name", "item_seconds", "paid"),
    [
        (
            (started(), epoch(0, 5, first=True), stopped(10, 13)),
            20,
            "billing minimum and rounding",
            40,
            60,
        ),
        (plain_run(70), 62, "unattributed node time", 62, 62),
    ],
    ids=["below the minimum", "shorter than the program"],
)
def test_node_time_that_is_of_no_activity_has_a_line_item(lines, up, name, item_seconds, paid):
    found = report(RunRecord(lines=lines), attempt((0, up), end_reason="finished"))
    assert seconds(found)[name] == item_seconds
    assert found.totals.known_usd == pytest.approx(paid / 3600 * 2.86)


def test_attempts_add_up_each_at_its_own_price():
    before = (started(), epoch(0, 20, first=True))
    again = (started(10), resumed(10), epoch(1, 10, first=True), epoch(2, 10), stopped(30, 40))
    times = {"program_started_at": after(10), "program_ended_at": after(100)}
    killed = attempt((0, 100), row=SPOT, end_reason="preempted", **times)
    finished = attempt((200, 260), end_reason="finished")
    found = report(RunRecord(lines=before + again), killed, finished)
    parts = seconds(found)
    spent = [p.node_seconds or 0 for p in found.line_items if p.price_row == SPOT.row_id]
    assert math.fsum(spent) == 100
    assert parts[f"preempted and repeated work ({SPOT.row_id})"] == 100 - 10 - 28
    assert found.totals.known_usd == pytest.approx((100 * 1.193 + 60 * 2.86) / 3600, rel=1e-3)
    assert found.priced_as == ROW.row_id


def test_repeated_work_after_two_preemptions_is_a_line_item():
    """Two workers; a node goes at 200 s and at 400 s, and each time another comes 50 s later."""
    lines = (
        *(started(), epoch(0, 20, first=True), epoch(1, 100)),
        *(started(10), resumed(10), epoch(1, 100, first=True), epoch(2, 10)),
        *(started(20), resumed(20), epoch(2, 100, first=True), epoch(3, 10), stopped(40, 170)),
    )
    spans = ((0, 700), (20, 200), (250, 400), (450, 700))
    times = {"program_started_at": after(60), "program_ended_at": after(680)}
    rented = attempt(*spans, row=SPOT, node_count=2, end_reason="finished", **times)
    found = report(RunRecord(lines=lines), rented)
    parts = seconds(found)
    assert math.fsum(parts.values()) == 700 + 180 + 150 + 250, "all of it is billed"
    assert parts["provisioning"] == 20, "for the first two, not for those that came later"
    assert parts["node set-up and image pull"] == 2 * 40
    assert parts["idle tail"] == 2 * 20
    assert parts["steady epochs"] == 2 * 10
    others = sum(s for name, s in parts.items() if name != "preempted and repeated work")
    assert parts["preempted and repeated work"] == 1280 - others
    assert parts["preempted and repeated work"] > 2 * (100 + 2 + 10 + 2), "both epochs and waiting"
    assert found.unit_costs.per_epoch.usd == pytest.approx(2 * 10 / 3600 * SPOT.usd_per_hour)
    assert "2 x node/" in found.unit_costs.per_epoch.basis


def test_an_attempt_that_never_trained_is_preempted_work(record):
    gone = attempt((0, 100), end_reason="preempted")
    found = report(record, gone, attempt((200, 300), end_reason="finished"), local_attempt("x"))
    assert "unattributed node time" in seconds(found)
    assert found.totals.known_usd == pytest.approx(200 / 3600 * 2.86)


def test_a_node_that_is_still_up_is_no_zero(record):
    found = report(record, attempt((0, None)))
    assert found.rows == (), "no price of what is unknown"
    assert "nodes of attempt 1" in found.totals.unknown
    assert found.total().startswith("unknown")


def test_a_node_that_is_lost_before_the_program_starts_does_not_wait_for_it():
    """Of the two nodes that came first one is lost at 100 s; its replacement comes at 150 s."""
    times = {"program_started_at": after(200), "program_ended_at": after(900)}
    spans = ((0, 100), (0, 1000), (150, 1000))
    rented = attempt(*spans, node_count=2, end_reason="finished", **times)
    found = seconds(report(RunRecord(lines=plain_run(700)), rented))
    assert found["provisioning"] == 100 + 150
    assert found["node set-up and image pull"] == 2 * 50
    assert found["idle tail"] == 2 * 100
    assert found["other program time"] == 2 * (700 - 67)
    assert found.get("unattributed node time") == 0, "all 1950 s are of an activity"


@pytest.mark.parametrize(
    "unused",
    [{}, {"requests": (SentRequest(sent_at=NOON, operation="POST /nodePools"),)}],
    ids=["refused before a request", "no capacity"],
)
def test_an_attempt_without_nodes_changes_neither_activities_nor_energy(lines, unused):
    record = RunRecord(lines=(*lines, started(40), stopped(40, 6)))
    paid = attempt((0, 200), program_started_at=after(10), program_ended_at=after(150))
    elsewhere = ROW.model_copy(update={"region": "us-east1"})
    before = attempt(row=elsewhere, end_reason="no capacity", fees=(), **unused)
    alone, found = report(record, paid), report(record, before, paid)
    assert seconds(found) == seconds(alone)
    assert seconds(found)["steady epochs"] == 30
    assert figures_of_run(found).figures["kwh"] == figures_of_run(alone).figures["kwh"]


SHARED = {"system_node": "e2-medium", "system_nodes": 3, "run_seconds": 9000}


def test_a_cluster_is_split_by_the_time_that_each_run_used_it(record):
    shared = {"cluster": cluster_of(36_000, **SHARED), "stored_gib_months": 5, "egress_gib": 2}
    found = report(record, attempt((0, 300), end_reason="finished", **shared))
    usd = {part.name: part.usd for part in found.line_items}
    assert usd["cluster"] == pytest.approx(2.5 * 0.1)
    assert usd["system nodes of the cluster"] == pytest.approx(2.5 * 3 * 0.03)
    assert usd["storage"] == pytest.approx(5 * 0.02)
    assert usd["egress"] == pytest.approx(2 * 0.12)
    assert found.totals.unknown == (OF_NODES,)
    named = {part.price_row for part in found.line_items if part.price_row}
    assert named == {row.row_id for row in found.rows}


def test_a_cluster_of_a_cloud_without_system_nodes_costs_its_control_plane(record):
    known = {"control_plane": "EKS standard support", "system_nodes": None, "run_seconds": 9000}
    cluster = cluster_of(36_000, **known)
    rented = attempt((0, 300), cluster=cluster, provider="aws", end_reason="finished")
    found = report(record, rented)
    named = {part.name for part in found.line_items} | set(found.totals.unknown)
    assert "cluster" in named
    assert "system nodes of the cluster" not in named


@pytest.mark.parametrize(
    "missing",
    [
        {"deleted_at": None},
        {"run_seconds": None},
        {"control_plane": "GKE gold"},
        {"control_plane": None},
        {"system_nodes": None},
        {"system_node": "n9"},
    ],
)
def test_a_cluster_with_missing_data_has_unknown_cost(record, missing):
    cluster = cluster_of(36_000, **SHARED | missing)
    found = report(record, attempt((0, 300), cluster=cluster, end_reason="finished"))
    assert any("cluster" in name for name in found.totals.unknown)


def test_a_model_has_a_cost_when_it_was_accepted(record):
    rented = attempt((0, 300), end_reason="finished")
    unasked = report(record, rented).unit_costs.per_accepted_model
    assert "no verdict" in (unasked.why_unknown or "")
    assert report(record, rented, accepted=False).unit_costs.per_accepted_model.usd is None
    passed = report(record, rented, accepted=True)
    assert passed.unit_costs.per_accepted_model.usd == passed.totals.known_usd
    unknown = (OF_NODES, "cluster", "storage", "egress")
    assert passed.unit_costs.per_accepted_model.unknown == unknown


def test_a_report_has_its_provenance(record):
    found = report(record, row=ROW)
    assert found.provenance.today == "2026-11-21"
    assert found.provenance.config_hash == "abc"
    assert found.provenance.git_commit == "c0ffee"
    assert found.rows == (ROW,)


TIMES = st.floats(0, 1e5)
PROCESSES = st.lists(
    st.tuples(st.lists(TIMES, max_size=4), st.booleans(), TIMES, st.integers(0, 40)), max_size=4
)
NODES = st.lists(st.tuples(TIMES, TIMES, st.booleans()), max_size=3)
ATTEMPTS = st.lists(
    st.tuples(
        NODES, st.booleans(), st.booleans(), st.none() | TIMES, st.none() | TIMES, st.none() | TIMES
    ),
    max_size=4,
)


def made_record(processes):
    lines = []
    for epochs, ends, program, back in processes:
        lines += [started(back), resumed(back)]
        lines += [epoch(number, s, first=number == 0) for number, s in enumerate(epochs)]
        lines += [stopped(99, program)] if ends else []
    return RunRecord(lines=tuple(lines))


def made_attempt(drawn, row):
    nodes, local, has_row, begins, runs, quantity = drawn
    if local:
        return local_attempt("x")
    times = [(up, up + long if gone else None) for up, long, gone in nodes]
    known = {"price_rows": (row,) if has_row else (), "egress_gib": quantity, "end_reason": "done"}
    if begins is not None:
        known["program_started_at"] = after(begins)
        known["program_ended_at"] = None if runs is None else after(begins + runs)
    return attempt(*times, row=row, **known)


@settings(max_examples=100)
@given(processes=PROCESSES, drawn=ATTEMPTS, priced=st.booleans())
def test_line_items_add_up_and_doubled_prices_double_the_total(processes, drawn, priced):
    record = made_record(processes)
    dear = ROW.model_copy(update={"usd_per_hour": 2 * ROW.usd_per_hour})
    cheap, twice = (
        cost_report(
            "r",
            record,
            TODAY,
            row=row if priced else None,
            launch=launch_of(*(made_attempt(one, row) for one in drawn)),
            fees=Fees(()),
        )
        for row in (ROW, dear)
    )
    known = [part.usd for part in cheap.line_items if part.usd is not None]
    assert cheap.totals.known_usd == math.fsum(known)
    assert all(usd >= 0 for usd in known)
    assert twice.totals.known_usd == pytest.approx(2 * cheap.totals.known_usd)
    assert twice.totals.unknown == cheap.totals.unknown
    bills = [bill.billed_node_seconds for bill in cheap.billed_attempts if bill.price_row]
    if bills and None not in bills and not priced:
        paid = math.fsum(seconds or 0 for seconds in bills)
        assert cheap.totals.known_usd == pytest.approx(paid / 3600 * ROW.usd_per_hour)
    for part in cheap.line_items:
        assert (part.usd is None) == (part.name in cheap.totals.unknown)
        assert (part.usd is None) == bool(part.why_unknown)


@pytest.mark.parametrize(("ended", "waited"), [(None, 1800), (300, 200), (9000, 1800)])
def test_nodes_that_wait_for_the_next_run_are_a_line_item_of_this_one(record, ended, waited):
    ended_at = None if ended is None else after(ended)
    kept = KeptNodes(nodes=2, since=after(100), until=after(1900), ended_at=ended_at)
    known = {"cluster": cluster_of(100)}
    without = report(record, attempt((0, 100), (0, 100), **known))
    found = report(record, attempt((0, 100), (0, 100), kept=kept, **known))
    items = {item.name: item for item in found.line_items}
    waiting = items["waiting for the next run"]
    assert (waiting.seconds, waiting.node_seconds) == (waited, 2 * waited)
    assert waiting.usd == pytest.approx(ROW.cost_usd(2 * waited))
    assert items["cluster"].seconds == 100 + waited, "no other run used it"
    fee = 0.1 * waited / 3600
    assert found.totals.known_usd == pytest.approx(without.totals.known_usd + waiting.usd + fee)


OFFERS = load_catalog().find(accelerator="V100")
WHOLE = plain_run(70)
EARLIER = started().model_copy(update={"time": "2026-11-21T11:00:00Z"})


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        (WHOLE, (10, 70, 1e4)),
        (WHOLE[:-1], (10, None, 1e4)),
        ((EARLIER, *WHOLE), (10, None, 1e4)),
        (WHOLE[:2], (None, None, 1e6 / 90)),
        ((), (None, None, None)),
    ],
    ids=["whole", "without an end", "a process without an end", "no steady epoch", "empty"],
)
def test_a_run_costs_its_times_at_each_offer_and_an_unknown_time_is_an_unknown_cost(lines, times):
    undated = OFFERS[0].model_copy(update={"date": "unknown"})
    first, *others = price_run(RunRecord(lines=lines), (*OFFERS, undated), TODAY)
    found = {
        name: getattr(first, f"usd_per_{name}") for name in ("epoch", "run", "million_showers")
    }
    usd = [time and pytest.approx(OFFERS[0].cost_usd(time)) for time in times]
    assert list(found.values()) == usd
    assert [why.split(":")[0] for why in first.unknown] == [
        f"usd_per_{name}" for name, value in found.items() if value is None
    ]
    assert first.basis.startswith("not measured on this node")
    assert "not a forecast" in first.basis
    assert [one.row for one in others] == [*OFFERS[1:], undated]
    assert first.age_days == (TODAY - dt.date.fromisoformat(OFFERS[0].date)).days
    assert others[-1].age_days is None
