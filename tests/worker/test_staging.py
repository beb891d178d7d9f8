from __future__ import annotations

import json

import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.data.manifest import has_manifest
from cloudgan.worker.place import read_place
from cloudgan.worker.staging import stage


@pytest.fixture
def place(team):
    """Where worker 0 is, with `data.path` as given."""
    one = team(1)

    def at(data_path):
        document = {"data": {"path": str(data_path)}, "model": {"preset": "smoke"}}
        one.config.write_text(json.dumps(document))
        return read_place(one.environment(0).get)

    at.store = one.store
    return at


@pytest.mark.parametrize("named", ["data/abc", "file://{store}/data/abc"])
def test_shards_in_a_store_become_the_runs_own(place, any_shards, named):
    any_shards(place.store / "data" / "abc")
    here = place(named.format(store=place.store))
    stage(here, Silent())
    stage(here, Silent())
    assert has_manifest(here.folder.shards)
    assert (here.folder.shards / "showers-00002.tfrecord").read_bytes().startswith(b"shard 2")
    assert here.folder.shards.resolve().parent == here.work / "data"


def test_a_folder_of_this_machine_is_used_where_it_is(place, tmp_path, any_shards):
    here = place(any_shards(tmp_path / "shards"))
    stage(here, Silent())
    assert not here.folder.shards.exists()


def test_a_shard_that_is_not_what_its_manifest_says_is_named(place, any_shards):
    folder = any_shards(place.store / "data" / "abc")
    (folder / "showers-00001.tfrecord").write_bytes(b"other")
    with pytest.raises(DataError, match=r"showers-00001\.tfrecord is not what its manifest says"):
        stage(place("data/abc"), Silent())


def test_a_set_that_is_not_there_and_none_at_all_are_told(place):
    with pytest.raises(DataError, match="holds no finished set"):
        stage(place("data/none"), Silent())
    with pytest.raises(ConfigError, match="names no showers"):
        stage(place(""), Silent())
