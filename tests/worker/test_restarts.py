from __future__ import annotations

import pytest

from cloudgan.core.errors import NoProgress
from cloudgan.stores import open_store
from cloudgan.worker.restarts import FILE_NAME, Restarts


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def test_beginning_again_from_the_same_checkpoint_counts_and_a_newer_one_clears(store):
    assert [Restarts(store, 3).begin(step) for step in (None, None, 0, 0, 0, 50)] == [
        *(0, 1),
        *(0, 1, 2),
        0,
    ]


def test_too_often_ends_the_run_and_counts_anew(store):
    restarts = Restarts(store, 3)
    for _ in range(4):
        restarts.begin(40)
    with pytest.raises(NoProgress, match="began 3 times again from the checkpoint of step 40") as e:
        restarts.begin(40)
    assert e.value.exit_code == 76
    assert restarts.begin(40) == 0


@pytest.mark.parametrize("content", [b"", b"{}", b'{"checkpoint_step": 1, "restarts": -1}'])
def test_a_count_that_cannot_be_read_is_none(store, content):
    store.put(FILE_NAME, content)
    assert Restarts(store, 3).begin(1) == 0
