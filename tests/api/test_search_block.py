"""A search whose blocks are in pods: the coordinator and the pods' program, with a trainer without TensorFlow."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from optuna.trial import TrialState

from cloudgan.api import search_block
from cloudgan.api.search_block import SearchBlock
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.liveness import LivenessFile
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import Dimension, SearchConfig
from cloudgan.search import pod_blocks
from cloudgan.search.coordinator import Coordinator
from cloudgan.search.pod_blocks import PodBlocks
from cloudgan.search.study import SearchFolder, SearchStudy
from cloudgan.storage.store import open_store
from cloudgan.worker.pod_environment import Peers, PodEnvironment

PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "search" / "trainer_program.py"))
SHOWERS = "data/0123456789abcdef"
SPACE = {"model.learning_rate": Dimension(low=1e-5, high=1e-1, log=True)}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(pod_blocks, "_LIST_SECONDS", 0.1)
    monkeypatch.setattr(PodBlocks, "poll_seconds", 0.05)
    monkeypatch.setattr(search_block, "_ASK_SECONDS", 0.05)
    # The stub needs no showers.
    monkeypatch.setattr(search_block, "stage_showers", lambda pod, progress: None)
    monkeypatch.setenv("BEHAVIOUR", "waits")


class Deployment:
    """Blocks in threads; `ended` has their exit codes."""

    def __init__(self, tmp_path, name, nodes):
        config = parse_config({"task": "join", "join": "s"}, "test")
        self.blocks, self.ended, self._threads = [], [], []
        for index in range(nodes):
            pod = PodEnvironment(
                peers=Peers(tuple(f"h{n}:1" for n in range(nodes)), index),
                store_url=str(tmp_path / "store"),
                run=name,
                config=config,
                config_hash="",
                work=tmp_path / name / str(index),
            )
            pod.work.mkdir(parents=True)
            block = SearchBlock(pod, LivenessFile(None), print, program=PROGRAM, beat_seconds=0.05)
            self.blocks.append(block)
            thread = threading.Thread(target=lambda one=block: self.ended.append(one.run()))
            thread.start()
            self._threads.append(thread)

    def stop(self):
        for block in self.blocks:
            block.stop.set()
        return self.join()

    def join(self):
        for thread in self._threads:
            thread.join()
        return self.ended


def test_trials_of_two_deployments_and_a_block_that_leaves_end_as_those_of_one_machine(tmp_path):
    """A block that leaves saves its trial, which another one continues from its checkpoint."""
    base = parse_config({"model": {"preset": "smoke"}, "training": {"seed": 3}}, "test")
    config = SearchConfig(base=base, space=SPACE, sampler="random", trials=3, store="x")
    folder = SearchFolder(tmp_path / "s")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    store = open_store(str(tmp_path / "store/searches/s"))
    first = Deployment(tmp_path, "first", 1)
    second = Deployment(tmp_path, "second", 1)
    leaves = first.blocks[0]

    def leave():
        while not list(tmp_path.glob("first/0/runs/*/epoch")):
            time.sleep(0.01)
        leaves.stop.set()

    leaving = threading.Thread(target=leave, daemon=True)
    leaving.start()
    try:
        blocks = PodBlocks(store, folder, SHOWERS, print, beat_seconds=0.05)
        Coordinator(folder, config, study, blocks, Silent()).run()
        assert (first.join(), second.join()) == ([75], [0]), "the search ends its blocks"
    finally:
        first.stop(), second.stop()
    assert [trial.state for trial in study.trials()] == [TrialState.COMPLETE] * 3
    cut = next(path for path in tmp_path.glob("first/0/runs/*/epoch"))
    steps = [
        line.step
        for line in record.read(RunFolder(folder.trial(int(cut.parent.name))).record_file).lines
    ]
    assert steps == [10 * (epoch + 1) for epoch in range(10)], "no epoch was trained twice"
    assert [trial.number for trial in study.trials()] == [0, 1, 2], "nothing was asked twice"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"data": {"path": "s3://elsewhere/data"}}, "s3://elsewhere/data"),
        ({"data": {"path": "/etc"}}, "/etc"),
        ({"data": {"path": SHOWERS}, "training": {"init_from": "/srv/run"}}, "/srv/run"),
    ],
)
def test_an_assignment_cannot_name_other_showers_or_another_place_for_checkpoints(
    tmp_path, given, named
):
    deployment = Deployment(tmp_path, "d", 1)
    deployment.stop()
    (block,) = deployment.blocks
    with pytest.raises(DataError, match=named):
        block._own_config(parse_config(given, "test"), "trials/0000")
    fair = parse_config({"data": {"path": SHOWERS}, "checkpoint": {"url": "s3://b/x"}}, "test")
    place = tmp_path / "store/searches/s/trials/0000/checkpoints"
    assert block._own_config(fair, "trials/0000").checkpoint.url == str(place)
