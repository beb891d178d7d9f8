"""Desired states of runs: one writer at a time, no lost writes, readable from any machine."""

import datetime as dt
import re
from dataclasses import replace
from threading import Barrier, Thread

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.launch.lifecycle import run_registry
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import BucketMissingError

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
FIRST = "runs/gan/desired-state/000001.json"


@pytest.fixture
def clock(monkeypatch):
    """The time that is written."""
    moment = [NOON]
    monkeypatch.setattr(run_registry, "utc_moment", lambda: moment[0])
    return moment


@pytest.fixture
def mine(tmp_path, clock):
    return RunRegistry(FolderStore(tmp_path / "bucket"), "me, process 1")


class NoBucket(FolderStore):
    def list(self, prefix=""):
        raise BucketMissingError("there is no bucket 'physics'")


@pytest.mark.parametrize("store", [FolderStore, NoBucket])
def test_a_run_that_was_never_deployed_has_no_desired_state(tmp_path, store):
    registry = RunRegistry(store(tmp_path), "me")
    (tmp_path / "runs" / "local").mkdir(parents=True)
    (tmp_path / "runs" / "local" / "plan.json").write_text("{}")
    assert (registry.read("gan"), registry.history("gan"), registry.list_runs()) == (None, (), ())


def test_each_change_is_kept_and_the_newest_counts_also_after_the_ninth(mine, plan_of):
    plan = plan_of()
    states = ["starting", "started", *["stopped", "started"] * 4, "removing", "removed"]
    for state in states:
        assert mine.write(plan, state).is_open is (state != "removed")
    found = mine.read("gan")
    assert (found.state, found.number, found.plan) == ("removed", len(states), plan)
    assert [one.state for one in mine.history("gan")] == states
    assert mine.list_runs() == ("gan",)


def test_of_many_launchers_at_once_exactly_one_wins(mine, plan_of, monkeypatch):
    """All have read the same state before one of them writes."""
    plan = plan_of()
    mine.write(plan, "stopped")
    read, ready, outcomes = RunRegistry.read, Barrier(6), []

    def meet(self, run):
        found = read(self, run)
        ready.wait(10)
        return found

    monkeypatch.setattr(RunRegistry, "read", meet)

    def start(who):
        try:
            outcomes.append(replace(mine, lease_owner=who).write(plan, "starting").lease_owner)
        except ConfigError as error:
            outcomes.append(str(error))

    threads = [Thread(target=start, args=(f"laptop {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lost = "another launcher changes run gan; check `cloudgan status gan` and try again"
    assert outcomes.count(lost) == 5
    monkeypatch.undo()
    assert mine.read("gan").lease_owner in outcomes
    assert mine.read("gan").number == 2


def test_a_lease_keeps_others_away_until_it_ends_but_neither_its_owner_nor_a_removal(
    mine, plan_of, clock
):
    mine.write(plan_of(), "starting", leased=True)
    other = replace(mine, lease_owner="you, process 2")
    with pytest.raises(ConfigError, match=r"leased by me, process 1 for at most 10 min"):
        other.write(plan_of(), "stopped")
    assert mine.write(plan_of(), "started", leased=True).lease_until == NOON + dt.timedelta(0, 600)
    assert other.write(plan_of(), "removing", force=True).lease_owner == "you, process 2"
    mine.write(plan_of(), "starting", leased=True)
    clock[0] = NOON + dt.timedelta(minutes=11)
    assert other.write(plan_of(), "stopped").lease_until is None


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        (('"run":"gan"', '"run":"other"'), "run is 'other', but 'gan' was requested"),
        (('"run":"gan"', '"run":"../../x"'), "started by another version"),
        (('"schema_version":1', '"schema_version":2'), "started by another version of cloudgan"),
        (('"number":1', '"number":1000000000'), "is the desired state number 1000000000"),
        (('"provider":"kubernetes"', '"provider":"slurm"'), "provider is 'slurm'"),
        (('"account":"lab"', '"account":"theirs"'), "account is 'theirs', but 'lab'"),
        (('"store":"', '"store":"/elsewhere'), "store is '/elsewhere"),
    ],
)
def test_a_desired_state_of_another_run_store_account_or_version_is_refused(
    mine, plan_of, tmp_path, replaced, message
):
    plan = plan_of(store=str(tmp_path / "bucket"), target={"account": "lab"})
    mine = replace(mine, account=plan.target)
    mine.write(plan, "started")
    assert mine.read("gan").plan == plan
    text = mine.store.read(FIRST).decode()
    assert replaced[0] in text
    mine.store.put(FIRST, text.replace(*replaced).encode())
    for read in (mine.read, mine.history):
        with pytest.raises(ConfigError, match=re.escape(message)):
            read("gan")
