from __future__ import annotations

import pytest

from cloudgan.core import record
from cloudgan.core.config import RunConfig
from cloudgan.core.errors import ConfigError
from cloudgan.run_folder import RunFolder
from cloudgan.stores import open_store
from cloudgan.worker.run_copy import RunCopy


@pytest.fixture
def places(tmp_path):
    """The run's folder, the store of its copy, and both together."""
    folder, store = RunFolder(tmp_path / "run"), open_store(str(tmp_path / "store"))
    folder.checkpoints.mkdir(parents=True)
    return folder, store, RunCopy(folder, store)


def checkpoint(folder, step):
    (folder.checkpoints / f"step-{step:09d}.npz").write_text(str(step))


def test_a_new_machine_gets_the_record_and_a_longer_one_here_stays(places):
    folder, store, copy = places
    store.put("record.jsonl", b"one\ntwo\n")
    copy.prepare_chief(RunConfig())
    assert folder.record_file.read_bytes() == b"one\ntwo\n"
    folder.record_file.write_bytes(b"one\ntwo\nthree\n")
    copy.prepare_chief(RunConfig())
    assert folder.record_file.read_bytes() == b"one\ntwo\nthree\n"


def test_checkpoints_that_are_only_here_are_put_there_first(places):
    folder, store, copy = places
    store.put("checkpoints/step-000000010.npz", b"10")
    for step in (0, 10, 20, 30):
        checkpoint(folder, step)
    assert copy.newest_step() == 10
    copy.prepare_chief(RunConfig())
    assert copy.newest_step() == 30
    assert store.read("checkpoints/step-000000020.npz") == b"20"
    assert "checkpoints/step-000000000.npz" not in store.list()


def test_a_follower_has_no_checkpoint_that_the_store_may_lack(places):
    folder, _, copy = places
    checkpoint(folder, 30)
    copy.prepare_follower(RunConfig())
    assert not folder.checkpoints.exists()


def test_a_store_without_checkpoints_has_no_newest(places):
    assert places[2].newest_step() is None


def test_another_run_of_this_name_is_refused(places, tmp_path):
    _, store, copy = places
    there = RunFolder(tmp_path / "other")
    there.write_config(RunConfig.model_validate({"training": {"seed": 5}}))
    store.put("run.yaml", there.config_file)
    store.put("record.jsonl", b"one\n")
    with pytest.raises(ConfigError, match=r"training\.seed: 0, 5"):
        copy.prepare_chief(RunConfig())


def test_the_best_checkpoint_is_put_there_although_a_newer_one_is(places):
    folder, store, copy = places
    store.put("checkpoints/step-000000030.npz", b"30")
    for step in (10, 20, 30):
        checkpoint(folder, step)
    found = record.Validated(
        time="2026-01-01T00:00:00Z",
        step=20,
        epoch=1,
        showers=500,
        numbers={"metric": 0.2},
        seconds=1.0,
        by="metric",
        best=True,
        program_seconds=9.0,
    )
    record.append(folder.record_file, found)
    copy.push_checkpoints()
    assert store.list("checkpoints/") == (
        "checkpoints/step-000000020.npz",
        "checkpoints/step-000000030.npz",
    )
