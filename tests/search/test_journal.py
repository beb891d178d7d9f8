"""One journal, several processes: who has which trial, and what a process that joins late reads."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.core.progress import Silent
from cloudgan.schema.config import parse_config
from cloudgan.schema.search import BlockStatus, Dimension, SearchConfig, TrialRun
from cloudgan.search import shared
from cloudgan.search.blocks import BlockWatch
from cloudgan.search.folder import SearchFolder
from cloudgan.search.journal import StoreJournal
from cloudgan.search.study import open_study
from cloudgan.storage.store import open_store

SPACE = {"model.learning_rate": Dimension(low=1e-5, high=1e-1, log=True)}


def config_of(**asked):
    base = parse_config({"model": {"preset": "smoke"}}, "test")
    given = {"base": base, "space": SPACE, "sampler": "random", "trials": 3, "store": "x"}
    return SearchConfig.model_validate(given | asked)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def opened(store):
    """Opens the study of the store as another process would."""
    return lambda **asked: shared.study_in(store, "s", config_of(**asked))[0]


def claim(study, holder, is_lost=False):
    return study.claim_run(holder, lambda *_: is_lost, lambda _: 0)


def test_two_processes_share_the_trials_and_ask_none_beyond_the_last(opened):
    one, other = opened(), opened()
    found = [claim(one, "a/1"), claim(other, "b/1"), claim(one, "a/2"), claim(other, "b/2")]
    assert found == [TrialRun(0), TrialRun(1), TrialRun(2), None]
    assert [trial.number for trial in other.trials()] == [0, 1, 2]


def test_a_trial_that_two_ask_at_the_same_time_beyond_the_last_waits_for_more(opened, monkeypatch):
    one, other = opened(trials=1), opened(trials=1)
    trials = one.trials()
    assert claim(other, "b/1") == TrialRun(0)
    with monkeypatch.context() as patch:
        patch.setattr(one, "trials", lambda: trials)  # what it had read before
        assert one.ask("a/1") is None
    assert len(one.trials()) == 1
    more = opened(trials=2)
    taken = more.claim_run("c/1", lambda _, holder: holder == "a/1", lambda _: 0)
    assert taken == TrialRun(1)
    assert [len(trial.params) for trial in more.trials()] == [1, 1]


def test_of_two_that_take_the_trial_of_a_killed_process_the_first_in_the_journal_has_it(opened):
    killed, one, other = opened(), opened(), opened()
    claim(killed, "killed/1")
    taken = []

    def is_lost(run, holder):
        if not taken:
            taken.append(claim(other, "other/1", is_lost=True))
        return holder == "killed/1"

    assert one.claim_run("one/1", is_lost, lambda _: 0) == TrialRun(1), "the next one"
    assert taken == [TrialRun(0)]
    assert [one.holder(TrialRun(number)) for number in (0, 1)] == ["other/1", "one/1"]
    assert len({tuple(trial.params.values()) for trial in one.trials()}) == 2


def test_of_two_that_end_a_trial_the_second_loses_quietly(opened, monkeypatch):
    one, other = opened(), opened()
    claim(one, "a/1")
    before = other.trials()
    assert one.complete(0, [0.5])
    assert not other.fail(0, "its block was lost")
    with monkeypatch.context() as patch:
        patch.setattr(other, "trials", lambda: before)  # what it had read before
        other.note_objectives(TrialRun(0), [9.0])
    other.note_objectives(TrialRun(0), [9.0])
    assert not other.prune(0)
    assert [trial.values for trial in opened().trials()] == [[0.5]]


def test_a_process_that_joins_late_reads_one_object_per_hundred_entries(store):
    first = StoreJournal(store)
    entries = [{"number": number} for number in range(250)]
    first.append_logs(entries[:130])
    second = StoreJournal(store)
    assert list(second.read_logs(0)) == entries[:130]
    second.append_logs(entries[130:])
    assert list(first.read_logs(125)) == entries[125:]
    for number in range(200):
        store.delete(f"journal/{number:08d}.json")
    assert list(StoreJournal(store).read_logs(0)) == entries


@pytest.mark.parametrize(
    "change", [{"sampler": "gp"}, {"prune": "median"}, {"space": SPACE | {"model.dropout": Dimension(low=0.1, high=0.5)}}]
)  # fmt: skip
def test_the_journal_of_another_search_is_refused_before_a_trial_starts(tmp_path, opened, change):
    opened()
    with pytest.raises(ConfigError, match="journal of another search"):
        opened(**change)
    folder = SearchFolder(tmp_path / "s")
    folder.path.mkdir()
    assert claim(open_study(folder, config_of()), "a/1")
    with pytest.raises(ConfigError, match="journal of another search"):
        open_study(folder, config_of(**change))


def test_a_search_with_other_showers_is_refused_in_the_same_place_of_a_store(store):
    shared.publish(store, config_of(), "data/0123456789abcdef")
    shared.publish(store, config_of(trials=9), "data/0123456789abcdef")
    with pytest.raises(ConfigError, match="trains with other showers"):
        shared.publish(store, config_of(), "data/fedcba9876543210")


def show(store, name, beat, **more):
    status = BlockStatus(deployment="d", worker=0, incarnation="i", beat=beat, seconds=1.0, **more)
    store.put(f"blocks/{name}/status.json", status.model_dump_json().encode())


def test_a_block_is_gone_when_it_is_silent_for_the_lease_when_it_left_and_when_it_started_again(
    store,
):
    watch = BlockWatch(store, lease_seconds=-1.0)
    show(store, "d-0-2026a-1", 1)
    assert watch.why_gone("d-0-2026a-1") == "", "it may have moved before the first look"
    assert watch.why_gone("d-0-2026a-1") == "is lost"
    show(store, "d-0-2026a-1", 2)
    assert watch.why_gone("d-0-2026a-1") == "", "it is back"
    show(store, "d-0-5-2026a-1", 1)
    assert watch.why_gone("d-0-2026a-1") == "is lost", "that is a block of the deployment d-0"
    show(store, "d-0-2026b-1", 1)
    assert watch.why_gone("d-0-2026a-1") == "was replaced"
    show(store, "d-0-2026b-1", 2, left=True)
    assert watch.why_gone("d-0-2026b-1") == "left"


def test_who_follows_a_search_without_blocks_does_not_wait_forever(tmp_path, store, opened):
    folder, config = SearchFolder(tmp_path / "s"), config_of()
    folder.path.mkdir()
    found = shared.study_in(store, "s", config)
    follower = shared.Follower(folder, config, found, Silent(), absent_seconds=-1.0)
    with pytest.raises(TryAgain, match=r"cloudgan deploy .*-- join s`"):
        follower.run()
    assert folder.journal_file.exists(), "a copy for those who read here"
