import json
import time

import pytest

from cloudgan.core.documents import read_json
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.data.manifest import has_manifest
from cloudgan.schema import record
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.store import StoreError, open_store
from cloudgan.worker.pod_environment import read_pod_environment
from cloudgan.worker.store_sync import RunSync, Upload, Uploader, file_upload, stage_showers
from records import validated


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def test_a_changed_file_is_uploaded_after_its_interval(store, tmp_path):
    path = tmp_path / "record.jsonl"
    upload = file_upload(store, "record.jsonl", path, every_seconds=10)
    assert not upload.is_due(0.0)  # there is none
    path.write_text("a")
    assert upload.is_due(0.0)
    upload.upload(0.0)
    assert store.read("record.jsonl") == b"a"
    assert not upload.is_due(20.0)  # nothing new
    path.write_text("ab")
    assert not upload.is_due(5.0)
    assert upload.is_due(10.0)


def test_a_periodic_upload_runs_at_intervals_and_after_changes():
    key, shipped = ["waiting"], []
    beat = Upload(
        "beat", lambda: key[0], lambda: shipped.append(1), every_seconds=15, periodic=True
    )
    beat.upload(0.0)
    assert not beat.is_due(14.0)
    assert beat.is_due(15.0)
    key[0] = "training"
    assert beat.is_due(1.0)


def test_a_change_during_an_upload_is_not_lost():
    key = [1]
    upload = Upload("x", lambda: key[0], lambda: key.__setitem__(0, 2), every_seconds=0)
    upload.upload(0.0)
    assert upload.is_pending()


def test_close_names_what_was_not_uploaded_in_time():
    def put():
        raise StoreError("the store is away")

    uploader = Uploader([Upload("x", lambda: 1, put, every_seconds=1e9)], lambda _: None)
    assert uploader.close([], patience_seconds=0.5) == ("x (the store is away)",)


def test_close_does_not_wait_for_a_blocked_store():
    slow = Upload("x", lambda: 1, lambda: time.sleep(60), every_seconds=0.0)
    uploader = Uploader([slow], lambda _: None)
    began = time.monotonic()
    assert uploader.close([], patience_seconds=0.3) == ("x",)
    assert time.monotonic() - began < 30


def test_close_runs_the_final_uploads():
    shipped = []
    last = Upload("checkpoints", lambda: True, lambda: shipped.append(1), every_seconds=0.0)
    assert Uploader([], lambda _: None).close([last], patience_seconds=5) == ()
    assert shipped == [1]


@pytest.fixture
def places(tmp_path):
    """The run's folder, its store, and the sync of both."""
    folder, store = RunFolder(tmp_path / "run"), open_store(str(tmp_path / "store"))
    folder.checkpoints.mkdir(parents=True)
    return folder, store, RunSync(folder, store)


def checkpoint(folder, step):
    (folder.checkpoints / f"step-{step:09d}.npz").write_text(str(step))


def test_a_new_node_downloads_the_record_unless_its_own_is_longer(places):
    folder, store, copy = places
    store.put("record.jsonl", b"one\ntwo\n")
    copy.prepare_chief(RunConfig())
    assert folder.record_file.read_bytes() == b"one\ntwo\n"
    folder.record_file.write_bytes(b"one\ntwo\nthree\n")
    copy.prepare_chief(RunConfig())
    assert folder.record_file.read_bytes() == b"one\ntwo\nthree\n"


def test_a_node_of_a_grid_gets_its_configuration_and_counts_the_iterations_of_all_cells(places):
    folder, store, copy = places
    config = RunConfig.model_validate({"grid": {"rows": 1, "columns": 2}})
    copy.prepare_follower(config)
    assert read_json(folder.path / "coevolution.json", CoevolutionConfig) == config.grid
    assert copy.newest_step(config.grid) is None
    store.put("cells/0-0/state-000000005.npz", b"x")
    assert copy.newest_step(config.grid) is None
    for name in ("0-0/state-000000010", "0-1/state-000000005", "0-1/state-000000015"):
        store.put(f"cells/{name}.npz", b"x")
    assert copy.newest_step(config.grid) == 5
    ahead = config.grid.model_copy(update={"asynchronous": True})
    assert copy.newest_step(ahead) == 10


def test_checkpoints_missing_in_the_store_are_uploaded_first(places):
    folder, store, copy = places
    store.put("checkpoints/step-000000010.npz", b"10")
    for step in (0, 10, 20, 30):
        checkpoint(folder, step)
    assert copy.newest_step() == 10
    copy.prepare_chief(RunConfig())
    assert copy.newest_step() == 30
    assert store.read("checkpoints/step-000000020.npz") == b"20"
    assert "checkpoints/step-000000000.npz" not in store.list()


def test_a_follower_removes_local_checkpoints(places):
    folder, _, copy = places
    checkpoint(folder, 30)
    copy.prepare_follower(RunConfig())
    assert not folder.checkpoints.exists()


def test_a_store_without_checkpoints_has_no_newest_step(places):
    assert places[2].newest_step() is None


def test_another_run_of_this_name_is_refused(places, tmp_path):
    _, store, copy = places
    there = RunFolder(tmp_path / "other")
    there.write_config(RunConfig.model_validate({"training": {"seed": 5}}))
    store.put("run.yaml", there.config_file)
    store.put("record.jsonl", b"one\n")
    with pytest.raises(ConfigError, match=r"training\.seed: 0, 5"):
        copy.prepare_chief(RunConfig())


def test_the_best_checkpoint_is_uploaded_even_if_it_is_older(places):
    folder, store, copy = places
    store.put("checkpoints/step-000000030.npz", b"30")
    for step in (10, 20, 30):
        checkpoint(folder, step)
    found = validated(1, 0.2)
    record.append(folder.record_file, found)
    copy.push_checkpoints()
    assert store.list("checkpoints/") == (
        "checkpoints/step-000000020.npz",
        "checkpoints/step-000000030.npz",
    )


@pytest.fixture
def place(team):
    """The environment of worker 0 with a given `data.path`."""
    one = team(1)

    def at(data_path):
        document = {"data": {"path": str(data_path)}, "model": {"preset": "smoke"}}
        one.config.write_text(json.dumps(document))
        return read_pod_environment(one.environment(0).get)

    at.store = one.store
    return at


@pytest.mark.parametrize("named", ["data/abc", "file://{store}/data/abc"])
def test_showers_in_a_store_are_staged(place, any_store, named):
    any_store(place.store / "data" / "abc")
    here = place(named.format(store=place.store))
    stage_showers(here, Silent())
    stage_showers(here, Silent())
    assert has_manifest(here.folder.store)
    assert (here.folder.store / "part-00002-cells.npy").read_bytes().startswith(b"part-00002")
    assert here.folder.store.resolve().parent == here.work / "data"


def test_a_local_folder_is_used_in_place(place, tmp_path, any_store):
    here = place(any_store(tmp_path / "shards"))
    stage_showers(here, Silent())
    assert not here.folder.store.exists()


def test_a_damaged_file_is_named(place, any_store):
    folder = any_store(place.store / "data" / "abc")
    (folder / "part-00001-cells.npy").write_bytes(b"other")
    with pytest.raises(DataError, match=r"part-00001-cells\.npy is truncated: 5 bytes"):
        stage_showers(place("data/abc"), Silent())


def test_a_missing_store_is_an_error(place):
    with pytest.raises(DataError, match="holds no complete store"):
        stage_showers(place("data/none"), Silent())
    with pytest.raises(ConfigError, match="names no showers"):
        stage_showers(place(""), Silent())
