"""Desired states of runs: one writer at a time, no lost writes, readable from any machine."""

from __future__ import annotations

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


@pytest.fixture
def clock(monkeypatch):
    """Sets the time that is written."""

    def set_to(moment):
        monkeypatch.setattr(run_registry, "utc_moment", lambda: moment)

    set_to(NOON)
    return set_to


@pytest.fixture
def mine(tmp_path, clock):
    return RunRegistry(FolderStore(tmp_path / "bucket"), "me, process 1")


def test_a_run_that_was_never_deployed_has_no_desired_state(mine):
    assert mine.read("gan") is None
    assert mine.list_runs() == ()


def test_a_bucket_that_is_not_there_yet_has_no_registry(mine):
    class NoBucket(FolderStore):
        def list(self, prefix=""):
            raise BucketMissingError("there is no bucket 'physics'")

    first = replace(mine, store=NoBucket(mine.store.url))
    assert first.read("gan") is None
    assert first.list_runs() == ()


def test_each_change_is_kept_and_the_newest_counts(mine, plan_of):
    plan = plan_of()
    for state in ("starting", "started", "finished"):
        mine.write(plan, state)
    found = mine.read("gan")
    assert (found.state, found.number, found.plan) == ("finished", 3, plan)
    assert len(mine.store.list("runs/gan/desired-state/")) == 3
    assert mine.list_runs() == ("gan",)


def test_the_ninth_change_comes_before_the_tenth(mine, plan_of):
    for number in range(11):
        mine.write(plan_of(), "started" if number % 2 else "stopped")
    assert mine.read("gan").number == 11


def test_a_folder_of_another_kind_of_run_is_no_desired_state(mine):
    mine.store.put("runs/local/plan.json", b"{}")
    assert mine.list_runs() == ()


@pytest.mark.parametrize(("state", "is_open"), [("removing", True), ("removed", False)])
def test_only_what_is_removed_is_closed(mine, plan_of, state, is_open):
    assert mine.write(plan_of(), state).is_open is is_open


def test_of_many_writers_at_once_exactly_one_succeeds(mine, plan_of):
    mine.write(plan_of(), "starting")
    ready, outcomes = Barrier(6), []

    def write(who):
        other = replace(mine, lease_owner=who)
        before = other.read("gan")
        ready.wait()
        try:
            # All have seen the same state, as two laptops at the same moment.
            name = f"runs/gan/desired-state/{before.number + 1:06d}.json"
            other.store.put(name, b"{}", if_absent=True)
            outcomes.append("won")
        except run_registry.ObjectExistsError:
            outcomes.append("lost")

    threads = [Thread(target=write, args=(f"laptop {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost"] * 5 + ["won"]


def test_a_write_after_another_clients_write_is_an_error(mine, plan_of, monkeypatch):
    mine.write(plan_of(), "starting")
    seen = mine.read("gan")
    mine.write(plan_of(), "started")
    monkeypatch.setattr(
        RunRegistry, "read", lambda *_: seen
    )  # it looked before the other one wrote
    with pytest.raises(ConfigError, match="another launcher changes run gan"):
        mine.write(plan_of(), "stopped")


def test_a_lease_keeps_others_away_until_it_ends(mine, plan_of, clock):
    mine.write(plan_of(), "starting", leased=True)
    other = replace(mine, lease_owner="you, process 2")
    with pytest.raises(ConfigError, match=r"leased by me, process 1 for at most 10 min"):
        other.write(plan_of(), "removing")
    clock(NOON + dt.timedelta(minutes=11))
    assert other.write(plan_of(), "removing").state == "removing"


def test_a_removal_does_not_wait_for_a_lease(mine, plan_of):
    mine.write(plan_of(), "starting", leased=True)
    other = replace(mine, lease_owner="you, process 2")
    assert other.write(plan_of(), "removing", force=True).lease_owner == "you, process 2"


def test_a_lease_does_not_bind_who_has_it(mine, plan_of):
    mine.write(plan_of(), "starting", leased=True)
    assert mine.write(plan_of(), "started").lease_until is None


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        (('"run":"gan"', '"run":"other"'), "run is 'other', but 'gan' was requested"),
        (('"run":"gan"', '"run":"../../x"'), "started by another version"),
        (('"number":1', '"number":1000000000'), "is the desired state number 1000000000"),
        (('"provider":"kubernetes"', '"provider":"slurm"'), "provider is 'slurm'"),
        (('"account":"lab"', '"account":"theirs"'), "account is 'theirs', but 'lab'"),
        (('"store":"', '"store":"/elsewhere'), "store is '/elsewhere"),
    ],
)
def test_a_desired_state_of_another_run_store_or_account_is_refused(
    mine, plan_of, tmp_path, replaced, message
):
    plan = plan_of(store=str(tmp_path / "bucket"), target={"account": "lab"})
    mine = replace(mine, account=plan.target)
    mine.write(plan, "started")
    assert mine.read("gan").plan == plan
    name = "runs/gan/desired-state/000001.json"
    text = mine.store.read(name).decode()
    assert replaced[0] in text
    mine.store.put(name, text.replace(*replaced).encode())
    for read in (mine.read, mine.history):
        with pytest.raises(ConfigError, match=re.escape(message)):
            read("gan")


def test_what_another_version_wrote_is_refused_in_words(mine):
    mine.store.put("runs/gan/desired-state/000001.json", b'{"schema_version": 2}')
    with pytest.raises(ConfigError, match="started by another version of cloudgan"):
        mine.read("gan")
