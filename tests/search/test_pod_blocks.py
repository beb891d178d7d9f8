"""Blocks in pods, as the coordinator sees them: documents in a folder, written here as a pod would."""

from __future__ import annotations

import time

import pytest

from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search_exchange import Assignment, BlockStatus, TrialRun
from cloudgan.search import pod_blocks
from cloudgan.search.folder import SearchFolder
from cloudgan.search.pod_blocks import LOST, PodBlocks
from cloudgan.storage.store import open_store


@pytest.fixture(autouse=True)
def each_look_lists_the_blocks(monkeypatch):
    monkeypatch.setattr(pod_blocks, "_LIST_SECONDS", -1.0)


RUN = TrialRun(3)


class Pod:
    """What a block in a pod writes and reads."""

    def __init__(self, store, worker=0, incarnation="2026-a"):
        self.name = f"blocks/more-{worker}-{incarnation}"
        self.store = store
        self.status = BlockStatus(
            deployment="more", worker=worker, incarnation=incarnation, beat=0, seconds=0.0
        )
        self.beat()

    def beat(self, **values):
        values = {"beat": self.status.beat + 1} | values
        self.status = self.status.model_copy(update=values)
        self.store.put(f"{self.name}/status.json", self.status.model_dump_json().encode())

    @property
    def assignment(self):
        return Assignment.model_validate_json(self.store.read(f"{self.name}/assignment.json"))


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


@pytest.fixture
def coordinate(tmp_path, store):
    """Starts a coordinator; all are closed at the end."""
    made = []

    def start(folder="s", **options):
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        options = {"beat_seconds": 0.02, "lease_seconds": 1e-9} | options
        made.append(PodBlocks(store, SearchFolder(path), "data/1", lambda _: None, **options))
        return made[-1]

    yield start
    for one in made:
        one.close(finished=False)


def run_of(tmp_path, run=RUN):
    folder = RunFolder(tmp_path / "s" / run.path)
    folder.write_config(parse_config({"data": {"path": "/here"}, "name": run.name}, "test"))
    return folder


def one_ready(blocks, pod):
    """The block of a pod that has shown a second beat."""
    blocks.current()
    pod.beat()
    (block,) = blocks.current()
    assert block.is_ready
    return block


def test_a_block_is_asked_only_after_its_beat_moved(coordinate, store):
    """The documents of a deployment that ended long ago show no life."""
    blocks, pod = coordinate(), Pod(store)
    (block,) = blocks.current()
    assert not block.is_ready
    pod.beat()
    blocks.current()
    assert block.is_ready


def test_a_trial_goes_to_the_pod_and_its_record_and_exit_code_come_back(
    coordinate, store, tmp_path
):
    blocks, pod, run = coordinate(lease_seconds=60.0), Pod(store), run_of(tmp_path)
    block = one_ready(blocks, pod)
    block.start(RUN, run.path)
    given = pod.assignment
    assert (given.number, given.trial, given.config.data.path) == (1, 3, "data/1")
    assert not block.is_ready
    assert block.ended() is None
    store.put("trials/0003/checkpoints/step-000000007.npz", b"weights")
    line = record.DamagedCheckpoint(time="2026-11-23T00:00:00Z", step=7, path="x", reason="y")
    record.append(tmp_path / "store/trials/0003/record.jsonl", line)
    pod.beat(assignment=1, record_bytes=1)
    blocks.current()
    assert block.ended() is None
    assert record.read(run.record_file).lines == (line,)
    pod.beat(code=2, tail=("cloudgan: out of memory",))
    blocks.current()
    assert block.ended() == 2
    assert (run.checkpoints / "step-000000007.npz").read_bytes() == b"weights"
    assert "out of memory" in (run.path / "block.log").read_text()
    assert block.is_ready


def test_folds_of_a_trial_have_runs_of_their_own_in_the_store(coordinate, store, tmp_path):
    blocks, pod, fold = coordinate(lease_seconds=60.0), Pod(store), TrialRun(3, 1)
    block, run = one_ready(blocks, pod), run_of(tmp_path, fold)
    block.start(fold, run.path)
    assert (pod.assignment.run, pod.assignment.config.name) == (fold, "0003-fold-1")
    store.put("trials/0003/folds/1/checkpoints/step-000000007.npz", b"weights")
    pod.beat(assignment=1, code=0)
    blocks.current()
    assert block.ended() == 0
    assert (run.checkpoints / "step-000000007.npz").read_bytes() == b"weights"


def test_a_silent_block_is_lost_and_must_upload_nothing_more(coordinate, store, tmp_path):
    blocks, pod, run = coordinate(), Pod(store), run_of(tmp_path)
    block = one_ready(blocks, pod)
    block.start(RUN, run.path)
    blocks.current()
    assert block.ended() == LOST
    assert pod.assignment.lost
    pod.beat()
    blocks.current()
    assert block.is_over, "a block that was given up does not come back"


def test_a_worker_that_started_again_has_lost_its_trial_at_once(coordinate, store, tmp_path):
    blocks, pod, run = coordinate(lease_seconds=60.0), Pod(store), run_of(tmp_path)
    block = one_ready(blocks, pod)
    block.start(RUN, run.path)
    Pod(store, incarnation="2026-b")
    Pod(store, worker=1)
    blocks.current()
    assert block.ended() == LOST
    assert sum(not each.is_over for each in blocks.current()) == 2


def test_a_new_coordinator_follows_what_blocks_train(coordinate, store, tmp_path):
    first, one, two = coordinate(lease_seconds=60.0), Pod(store), Pod(store, worker=1)
    first.current()
    one.beat()
    two.beat()
    by_worker = {block.status.worker: block for block in first.current()}
    by_worker[0].start(RUN, run_of(tmp_path).path)
    one.beat(assignment=1, code=75)
    by_worker[1].start(RUN, run_of(tmp_path).path)
    first.close(finished=False)
    second = coordinate(lease_seconds=60.0)
    second.current()
    assert second.training() == {RUN: by_worker[1].index}, "not the block that gave the trial back"


def test_a_second_coordinator_is_refused_while_the_first_lives(coordinate):
    first = coordinate()
    with pytest.raises(ConfigError, match="another process coordinates the search"):
        coordinate(beat_seconds=20.0)  # it watches for 2.5 of its beats
    first.close(finished=False)
    coordinate()


def test_another_search_of_the_same_name_in_the_store_is_refused(coordinate):
    coordinate().close(finished=True)
    with pytest.raises(ConfigError, match="has another search other"):
        coordinate("other")


def test_a_coordinator_without_blocks_does_not_wait_forever(coordinate):
    blocks = coordinate(absent_seconds=0.0)
    time.sleep(0.01)
    with pytest.raises(TryAgain, match="cloudgan deploy -- join s"):
        blocks.current()
