"""launch.json: each attempt, its requests, its times, and what they cost."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.launch.lifecycle import launch_log as ledgers
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.launch.plan.build import deadline
from cloudgan.money.billing import launch_ledger
from cloudgan.schema.launch import Launch, Node
from cloudgan.schema.plan import NodePool
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import RunState

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
PRICE = PriceRow(
    provider="gcp",
    node_type="n1-standard-8+1xV100",
    accelerator="V100",
    accelerator_count=1,
    accelerator_memory_gib=16,
    vcpu=8,
    memory_gib=30,
    region="us-central1",
    market="spot",
    usd_per_hour=1.5,
    unit_sold="parts",
    source="a price list",
    date="2026-11-01",
    confidence="A",
    snapshot="current",
)


def at(minutes):
    return (NOON + dt.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def priced(plan_of):
    workers = {"nodes": 2, "accelerator": "V100", "accelerators_per_node": 1}
    return plan_of(price=PRICE, workers=workers)


@pytest.fixture
def now(monkeypatch):
    """The wall clock of the ledger."""
    moment = [NOON]
    monkeypatch.setattr(ledgers, "utc_moment", lambda: moment[0])
    return moment


def spent_usd(known: Launch, now_seconds: float | None = None) -> float:
    """The known cost, until a moment if one is given."""
    ledger = launch_ledger(known)
    if now_seconds is not None:
        ledger = ledger.until(dt.datetime.fromtimestamp(now_seconds, dt.UTC))
    return ledger.known_usd


def begun(ledger, plan, minutes=0):
    ledger.record_attempt([(at(minutes), plan.steps[-1])])
    return ledger


def test_nothing_was_started_where_there_is_no_file(ledger_of, priced):
    known = ledger_of(priced).read()
    assert (known.run, known.attempts) == ("gan", ())
    assert known.config_hash == priced.config.config_hash()
    assert spent_usd(known) == 0


def test_an_attempt_has_its_requests_target_and_price(ledger_of, priced):
    (attempt,) = begun(ledger_of(priced), priced).read().attempts
    assert (attempt.provider, attempt.region, attempt.market) == ("gcp", "us-central1", "spot")
    assert (attempt.node_type, attempt.node_count) == ("n1-standard-8+1xV100", 2)
    assert attempt.price_rows == (PRICE,)
    assert attempt.account == "kubernetes (context lab, namespace cloudgan)"
    assert [one.operation for one in attempt.requests] == [priced.steps[-1].operation]
    assert attempt.requests[0].sent_at == NOON
    assert attempt.requests[0].body == priced.steps[-1].body


@pytest.mark.parametrize(
    ("workers", "kind"),
    [
        ({}, "1 x (4 cores, 8 GiB)"),
        ({"nodes": 3, "cpus": 0.5}, "3 x (0.5 cores, 8 GiB)"),
        ({"accelerator": "V100", "accelerators_per_node": 8}, "1 x (8 x V100, 4 cores, 8 GiB)"),
        ({"accelerators_per_node": 1}, "1 x (1 x GPU, 4 cores, 8 GiB)"),
    ],
)
def test_machines_without_a_price_are_described(ledger_of, plan_of, workers, kind):
    plan = plan_of(workers=workers)
    (attempt,) = begun(ledger_of(plan), plan).read().attempts
    assert (attempt.provider, attempt.node_type) == ("kubernetes", kind)
    assert not attempt.is_billed


def test_times_are_the_provider_s(ledger_of, priced):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("waiting"))
    assert ledger.read().attempts[0].program_started_at is None
    ledger.record_state(RunState("running", started_at=at(5)))
    ledger.record_state(RunState("finished", started_at=at(5), ended_at=at(65)))
    (attempt,) = ledger.read().attempts
    assert attempt.program_started_at == NOON + dt.timedelta(minutes=5)
    assert attempt.program_ended_at == NOON + dt.timedelta(minutes=65)
    assert attempt.end_reason == "finished"
    assert spent_usd(ledger.read()) == pytest.approx(2 * 1.5)


def test_the_first_reason_of_an_end_stays(ledger_of, priced):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(
        RunState("failed", started_at=at(0), ended_at=at(30), reason="worker 0: exit code 1")
    )
    ledger.record_state(RunState("stopped", started_at=at(0)))
    (attempt,) = ledger.read().attempts
    assert attempt.end_reason == "failed: worker 0: exit code 1"
    assert attempt.program_ended_at == NOON + dt.timedelta(minutes=30)


def test_what_did_not_change_is_not_written_again(ledger_of, priced, tmp_path):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("running", started_at=at(0)))
    (file,) = tmp_path.rglob("launch.json")
    file.chmod(0o444)
    before = file.stat().st_ino
    ledger.record_state(RunState("running", started_at=at(0)))
    assert file.stat().st_ino == before


def test_a_job_that_was_deleted_ended_when_that_was_seen(ledger_of, priced, now):
    """`cancel` deletes the Job, and with it the time of its end."""
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("running", started_at=at(0)))
    now[0] = NOON + dt.timedelta(minutes=30)
    ledger.record_state(RunState("stopped"))
    assert spent_usd(ledger.read()) == pytest.approx(1.5)
    now[0] = NOON + dt.timedelta(days=3)
    ledger.record_state(RunState("absent"))
    later = now[0].timestamp()
    assert spent_usd(ledger.read(), later) == pytest.approx(1.5), "later time adds no cost"
    assert ledger.read().attempts[0].end_reason == "stopped"


def test_a_job_without_status_checks_ran_until_its_deadline_at_most(ledger_of, priced, now):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("running", started_at=at(0)))
    now[0] = NOON + dt.timedelta(days=30)
    ledger.record_state(RunState("absent"))
    assert spent_usd(ledger.read(), now[0].timestamp()) == pytest.approx(24 * 2 * 1.5)


def test_clocks_that_disagree_make_no_time_below_zero(ledger_of, priced, now):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("running", started_at=at(5)))
    ledger.record_state(RunState("stopped"))  # this machine's clock is five minutes late
    assert spent_usd(ledger.read()) == pytest.approx(2 * 1.5 / 60), "the minimum of two nodes"


def test_an_attempt_that_runs_costs_what_it_ran_until_now(ledger_of, priced):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("running", started_at=at(0)))
    later = (NOON + dt.timedelta(minutes=20)).timestamp()
    assert spent_usd(ledger.read(), later) == pytest.approx(1.0)
    assert spent_usd(ledger.read()) == 0, "without a now it is not known"


def test_attempts_add_up_and_the_next_deadline_is_what_is_left(ledger_of, priced):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("failed", started_at=at(0), ended_at=at(60)))
    begun(ledger, priced, 90)
    assert len(ledger.read().attempts) == 2
    ledger.record_state(RunState("running", started_at=at(90)))
    now = (NOON + dt.timedelta(minutes=100)).timestamp()
    spent = spent_usd(ledger.read(), now)
    assert spent == pytest.approx(3.0 + 0.5)
    rate = priced.usd_per_second
    left = deadline(max_hours=24, budget_usd=6.5, usd_per_second=rate, spent_usd=spent)
    assert left.seconds == pytest.approx(3600 - 120, abs=1)


def test_an_attempt_that_another_machine_began_is_noted(ledger_of, priced):
    ledger = ledger_of(priced)
    ledger.record_state(RunState("running", started_at=at(0)))
    (attempt,) = ledger.read().attempts
    assert attempt.price_rows == (PRICE,)
    ledger.record_state(RunState("failed", started_at=at(0), ended_at=at(60)))
    ledger.record_state(RunState("running", started_at=at(70)))
    assert len(ledger.read().attempts) == 2
    now = (NOON + dt.timedelta(minutes=80)).timestamp()
    assert spent_usd(ledger.read(), now) == pytest.approx(3.0 + 0.5)


def test_another_machine_reads_the_attempts_from_the_store(plan_of, tmp_path):
    plan = plan_of(price=PRICE, store=str(tmp_path / "store"))
    results = RunResults.from_plan(plan)
    results.write_plan(plan)
    here, there = (LaunchLog(RunFolder(tmp_path / n / "gan"), plan, results) for n in ("a", "b"))
    begun(here, plan).record_state(RunState("failed", started_at=at(0), ended_at=at(60)))
    assert there.read() == here.read()
    begun(there, plan, 90)
    assert len(there.read().attempts) == len(results.read_launch().attempts) == 2


def test_a_run_that_never_began_costs_nothing(ledger_of, priced, now):
    ledger = ledger_of(priced)
    ledger.record_state(RunState("absent"))
    assert ledger.read().attempts == ()
    begun(ledger, priced).record_state(RunState("stopped"))
    assert spent_usd(ledger.read(), NOON.timestamp() + 9999) == 0


def test_nothing_secret_is_in_launch_json(ledger_of, plan_of, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "planted-key")
    plan = plan_of(workers={"secrets": ("s3-login",)})
    ledger = ledger_of(plan)
    ledger.record_attempt([(at(0), step) for step in plan.steps])
    (file,) = tmp_path.rglob("launch.json")
    assert "s3-login" in file.read_text()
    assert "planted" not in file.read_text() + repr(ledger) + repr(ledger.read())


def test_nodes_that_were_there_before_count_for_as_long_as_the_job_held_them(ledger_of, priced):
    ledger = begun(ledger_of(priced), priced)
    ledger.record_state(RunState("running", started_at=at(1)))
    (attempt,) = ledger.read().attempts
    assert [node.started_at for node in attempt.nodes] == [NOON + dt.timedelta(minutes=1)] * 2
    assert attempt.node_seconds() is None, "the machines still exist"
    ledger.record_state(RunState("finished", started_at=at(1), ended_at=at(31)))
    (attempt,) = ledger.read().attempts
    assert attempt.node_seconds() == 2 * 30 * 60
    assert attempt.billed_seconds() == 30 * 60


def test_without_a_price_no_node_is_billed(ledger_of, plan_of):
    plan = plan_of()
    ledger = begun(ledger_of(plan), plan)
    ledger.record_state(RunState("finished", started_at=at(1), ended_at=at(31)))
    (attempt,) = ledger.read().attempts
    assert attempt.nodes == ()
    assert not attempt.is_billed


def test_an_attempt_that_was_refused_before_anything_was_asked_for_is_noted(ledger_of, plan_of):
    ledger = ledger_of(plan_of(price=PRICE))
    ledger.record_rejected("0 of 8 V100 in the quota")
    ledger.record_rejected("no zone has V100")
    ended = [(one.end_reason, one.requests) for one in ledger.read().attempts]
    assert ended == [("0 of 8 V100 in the quota", ()), ("no zone has V100", ())]
    assert spent_usd(ledger.read()) == 0


def test_waiting_nodes_are_recorded_until_another_run_uses_them(ledger_of, priced, now):
    pool = NodePool(node_type="n1", market="spot", name="gan-1", keep_seconds=1800)
    plan = priced.model_copy(update={"node_pool": pool})
    ledger = begun(ledger_of(plan), plan)
    ledger.record_nodes([Node(name=name, started_at=NOON) for name in ("a", "b")])
    now[0] = NOON + dt.timedelta(hours=1)
    ledger.record_kept()
    ledger.record_nodes_terminated()
    last = ledger.read().attempts[-1]
    assert (last.kept.nodes, last.kept.seconds()) == (2, 1800)
    assert spent_usd(ledger.read()) == pytest.approx(1.5 * (2 * 1.5 + 0.1 + 0.033506)), (
        "an hour and the waiting, of the nodes and their cluster"
    )
    ledger.record_kept_end(NOON + dt.timedelta(minutes=70))
    ledger.record_kept_end(NOON + dt.timedelta(minutes=75))
    assert ledger.read().attempts[-1].kept.seconds() == 600, "the first end counts"
