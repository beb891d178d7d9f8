from __future__ import annotations

import json

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.training.cluster import read_cluster


def text(cluster, kind, index):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def test_without_tf_config_a_process_is_alone():
    assert read_cluster(None) is None
    assert read_cluster("") is None


def test_the_first_worker_is_the_chief_where_none_is_named():
    workers = {"worker": ["a:1", "b:1"]}
    first, second = (read_cluster(text(workers, "worker", index)) for index in (0, 1))
    assert first.is_chief
    assert not second.is_chief
    assert second.workers == ("a:1", "b:1")


def test_a_named_chief_comes_before_the_workers():
    both = {"chief": ["c:1"], "worker": ["a:1"]}
    chief, worker = (read_cluster(text(both, kind, 0)) for kind in ("chief", "worker"))
    assert (chief.index, worker.index) == (0, 1)
    assert chief.is_chief
    assert not worker.is_chief


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "does not name a cluster"),
        ("[]", "does not name a cluster"),
        ('{"cluster": {}}', "does not name a cluster"),
        (text({"worker": ["a:1"]}, "ps", 0), "'ps'"),
        (text({"worker": ["a:1"]}, "worker", 1), "worker 1 of 1"),
    ],
)
def test_a_tf_config_that_says_nothing_usable_is_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        read_cluster(given)
