from __future__ import annotations

import json

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.worker.place import read_place


def test_what_a_pod_is_given_is_read(team):
    two = team(2)
    place = read_place(two.environment(1).get)
    assert (place.peers.index, place.peers.world, place.run) == (1, 2, "run-1")
    assert place.run_url == f"{two.store}/runs/run-1"
    assert place.folder.path == two.root / "work-1" / "runs" / "run-1"


def test_a_url_stays_one_and_a_folder_is_absolute(team):
    one = team(1)
    bucket = read_place(one.environment(0, CLOUDGAN_STORE="gs://bucket/here/").get)
    assert bucket.run_url == "gs://bucket/here/runs/run-1"
    assert read_place(one.environment(0, CLOUDGAN_STORE="there").get).store_url.startswith("/")


def test_all_that_is_missing_is_told_at_once():
    with pytest.raises(ConfigError) as told:
        read_place({"CLOUDGAN_WORLD": "2"}.get)
    for name in ("JOB_COMPLETION_INDEX", "CLOUDGAN_PEERS", "CLOUDGAN_STORE", "cloudgan train"):
        assert name in str(told.value)
    assert "CLOUDGAN_WORLD" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("CLOUDGAN_WORLD", "two"), ("JOB_COMPLETION_INDEX", "-1"), ("CLOUDGAN_CONFIG", "absent.yaml")],
)
def test_nonsense_is_told(team, name, value):
    with pytest.raises(ConfigError, match=name if name != "CLOUDGAN_CONFIG" else "absent"):
        read_place(team(2).environment(0, **{name: value}).get)


def strategy(one, asked):
    document = json.loads(one.config.read_text())
    one.config.write_text(json.dumps(document | {"training": {"strategy": asked}}))
    return read_place(one.environment(0).get).config.training


def test_a_strategy_of_one_process_does_not_fit_several_workers(team):
    with pytest.raises(ConfigError, match="'mirrored', which is one process, but there are 2"):
        strategy(team(2), "mirrored")
    assert strategy(team(1), "mirrored").strategy == "mirrored"


def test_a_worker_alone_needs_no_cluster(team):
    assert strategy(team(1), "multiworker").strategy == "auto"
    assert strategy(team(2), "multiworker").strategy == "multiworker"


def test_a_worker_starts_no_workers_of_its_own_and_the_run_is_the_same_run(team):
    two = team(2, training={"workers": 2})
    config = read_place(two.environment(0).get).config
    assert config.training.workers == 1
    assert config.data.path == str(two.root / "showers")


def test_a_cloud_that_nobody_knows_is_refused(team):
    given = team(1).environment(0, CLOUDGAN_CLOUD="mars")
    with pytest.raises(ConfigError, match=r"CLOUDGAN_CLOUD is 'mars'; it is one of aws, azure"):
        read_place(given.get)
    assert read_place(team(1).environment(0, CLOUDGAN_CLOUD="aws").get).cloud == "aws"
    assert read_place(team(1).environment(0).get).cloud is None
