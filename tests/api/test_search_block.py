"""A search whose blocks are in pods: the program of a pod, and who follows it; the trainer has no TensorFlow."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from optuna.trial import TrialState

from cloudgan.api import search_block
from cloudgan.api.search_block import SearchBlock
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Silent
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import Dimension, SearchConfig, TrialRun
from cloudgan.search import shared
from cloudgan.search.blocks import LOG
from cloudgan.search.folder import SearchFolder
from cloudgan.worker.pod_environment import Peers, PodEnvironment
from s3_bucket import s3_bucket

PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "search" / "trainer_program.py"))
EVERY_STEP = [10 * (epoch + 1) for epoch in range(10)]
SHOWERS = "data/0123456789abcdef"
SPACE = {"model.learning_rate": Dimension(low=1e-5, high=1e-1, log=True)}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(shared, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(search_block, "_ASK_SECONDS", 0.05)
    monkeypatch.setattr(search_block.Pod, "look_seconds", 0.05)
    # The stub needs no showers.
    monkeypatch.setattr(search_block, "stage_showers", lambda pod, progress: None)
    monkeypatch.setenv("BEHAVIOUR", "waits")


class Deployment:
    """Blocks in threads; `ended` has their exit codes."""

    def __init__(self, tmp_path, name, nodes):
        self._path, self._name, self._nodes = tmp_path, name, nodes
        self.blocks, self.ended, self._threads = [], [], []
        for index in range(nodes):
            block = self.block(index)
            self.blocks.append(block)
            thread = threading.Thread(target=lambda one=block: self.ended.append(one.run()))
            thread.start()
            self._threads.append(thread)

    def block(self, index):
        pod = PodEnvironment(
            peers=Peers(tuple(f"h{n}:1" for n in range(max(1, self._nodes))), index),
            store_url=str(self._path / "store"),
            run=self._name,
            config=parse_config({"task": "join", "join": "s"}, "test"),
            config_hash="",
            work=self._path / self._name / str(index),
        )
        pod.work.mkdir(parents=True, exist_ok=True)
        timing = {"beat_seconds": 0.05, "lease_seconds": 600.0}
        return SearchBlock(pod, LivenessFile(None), print, program=PROGRAM, **timing)

    def stop(self):
        for block in self.blocks:
            block.stop(signal.SIGTERM)
        return self.join()

    def join(self):
        for thread in self._threads:
            thread.join()
        return self.ended


def published(tmp_path, trials, place=None, **given):
    """The folder of a search and its study; `run` follows it."""
    training = {"seed": 3} | given.pop("training", {})
    base = parse_config(given | {"model": {"preset": "smoke"}, "training": training}, "test")
    url = place or str(tmp_path / "store")
    config = SearchConfig(base=base, space=SPACE, sampler="random", trials=trials, store=url)
    folder = SearchFolder(tmp_path / "s")
    folder.write_config(config)
    store = shared.store_of(folder, config)
    found = shared.study_in(store, "s", config)
    shared.publish(store, config, SHOWERS)
    follower = shared.Follower(folder, config, found, Silent())
    return folder, found[0], follower.run


def trained_steps(folder, number):
    found = record.read(RunFolder(folder.run(TrialRun(number))).record_file)
    return [line.step for line in found.validations()]


def test_trials_of_two_deployments_and_a_block_that_leaves_end_as_those_of_one_machine(tmp_path):
    """A block that leaves saves its trial, which another one continues from its checkpoint."""
    folder, study, run = published(tmp_path, 3)
    first = Deployment(tmp_path, "first", 1)
    second = Deployment(tmp_path, "second", 1)
    leaves = first.blocks[0]

    def leave():
        while not list(tmp_path.glob("first/0/runs/*/epoch")):
            time.sleep(0.01)
        leaves.stop(signal.SIGTERM)

    leaving = threading.Thread(target=leave, daemon=True)
    leaving.start()
    try:
        run()
        assert (first.join(), second.join()) == ([75], [0]), "the search ends its blocks"
    finally:
        first.stop(), second.stop()
    assert [trial.state for trial in study.trials()] == [TrialState.COMPLETE] * 3
    cut = next(path for path in tmp_path.glob("first/0/runs/*/epoch"))
    steps = trained_steps(folder, int(cut.parent.name))
    assert steps == EVERY_STEP, "no epoch was trained twice"
    assert [trial.number for trial in study.trials()] == [0, 1, 2], "nothing was asked twice"


def test_a_restarted_block_shows_itself_only_after_its_old_trainer_has_ended(tmp_path):
    """Else another block might train the trial while the old trainer still saves."""
    old, began = RunFolder(tmp_path / "d/0/runs/0000"), threading.Event()

    def start():
        began.set()
        found.append(Deployment(tmp_path, "d", 1))

    found: list[Deployment] = []
    with old.locked():
        starting = threading.Thread(target=start)
        starting.start()
        assert began.wait(60)
        time.sleep(0.5)
        assert not found
    starting.join()
    assert found[0].stop() == [75]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"data": {"path": "s3://elsewhere/data"}}, "s3://elsewhere/data"),
        ({"data": {"path": "/etc"}}, "/etc"),
        ({"data": {"path": SHOWERS}, "training": {"init_from": "/srv/run"}}, "/srv/run"),
    ],
)
def test_a_published_search_cannot_name_other_showers_or_another_place_for_checkpoints(
    tmp_path, given, named
):
    deployment = Deployment(tmp_path, "d", 1)
    deployment.stop()
    (block,) = deployment.blocks
    with pytest.raises(DataError, match=named):
        block._place._own_config(parse_config(given, "test"), "trials/0000")
    fair = parse_config({"data": {"path": SHOWERS}, "checkpoint": {"url": "s3://b/x"}}, "test")
    place = tmp_path / "store/searches/s/trials/0000/checkpoints"
    assert block._place._own_config(fair, "trials/0000").checkpoint.url == str(place)


@pytest.mark.parametrize(("keep", "kept"), [(1, 3), (3, 3), (5, 5)])
def test_a_trial_keeps_the_checkpoints_that_its_record_in_the_store_may_not_name_yet(
    tmp_path, keep, kept
):
    """The trainer copies and prunes at once, the record follows: of one checkpoint none would be left."""
    block = Deployment(tmp_path, "d", 0).block(0)
    given = parse_config({"data": {"path": SHOWERS}, "checkpoint": {"keep": keep}}, "test")
    own = block._place._own_config(given, "trials/0000")
    block.stop(signal.SIGTERM)
    block.run()  # ends the thread that writes its status
    assert own.checkpoint.keep == kept
    assert own.config_hash() == given.config_hash(), "the same run continues"


@pytest.mark.parametrize(
    ("base", "flag"),
    [
        ({"parallel": {"mode": "easgd", "ranks": 2}}, "--parallel=easgd"),
        ({"training": {"engine": "jax"}}, "--engine=jax"),
    ],
    ids=["ports of ranks are open", "no JAX"],
)
def test_a_block_trains_no_trial_for_which_its_deployment_is_not_made(tmp_path, base, flag):
    folder, study, _ = published(tmp_path, 1, **base)
    assert shared.join_command(folder.read_config(), "s").endswith(f"-- join s {flag}")
    deployment = Deployment(tmp_path, "d", 0)
    with pytest.raises(ConfigError, match=f"-- join s {flag}`"):
        deployment.block(0).run()
    assert study.trials() == []


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("asking", marks=pytest.mark.slow),
        pytest.param("staging", marks=pytest.mark.slow),
        "training",
        pytest.param("saving", marks=pytest.mark.slow),
        pytest.param("reporting", marks=pytest.mark.slow),
    ],
)
def test_a_pod_killed_in_any_phase_costs_no_trial_and_no_epoch_that_was_saved(tmp_path, phase):
    folder, study, run = published(tmp_path, 1)
    program = Path(__file__).with_name("block_program.py")
    killed = subprocess.Popen([sys.executable, str(program), str(tmp_path), phase])
    replaced = []

    def replace():
        killed.wait()
        replaced.append(Deployment(tmp_path, "d", 1))

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        run()
        replacing.join()
        assert (killed.returncode, replaced[0].join()) == (-signal.SIGKILL, [0])
    finally:
        killed.kill()
        replacing.join()
        replaced[0].stop()
    assert [trial.state for trial in study.trials()] == [TrialState.COMPLETE]
    assert trained_steps(folder, 0) == EVERY_STEP, "each validation is in the record, and once"
    if phase == "training":
        assert "began at epoch 0" not in (folder.run(TrialRun(0)) / LOG).read_text()


@pytest.fixture
def s3_store():
    """The URL of a store in a bucket."""
    with s3_bucket("physics"):
        yield "s3://physics/gan"


@pytest.mark.parametrize(
    ("trials", "trials_per_kill"), [(4, 1), pytest.param(16, 2, marks=pytest.mark.slow)]
)
def test_three_processes_search_one_journal_in_s3_while_one_is_killed_again_and_again(
    tmp_path, s3_store, monkeypatch, trials, trials_per_kill
):
    monkeypatch.setenv("BEHAVIOUR", "")
    folder, study, run = published(tmp_path, trials, s3_store)
    program = Path(__file__).with_name("block_program.py")

    def start(worker):
        command = [sys.executable, program, tmp_path, "works", s3_store, str(worker)]
        return subprocess.Popen(command)

    processes, over, kills = [start(worker) for worker in range(3)], threading.Event(), []
    journal = shared.StoreJournal(shared.store_of(folder, folder.read_config()))

    # Trials count, not seconds: a fast machine ends all before a time, a busy one never ends a trial.
    def due():
        logs = list(journal.read_logs(0))
        ended = sum(one.get("state") == TrialState.COMPLETE for one in logs)
        return ended >= len(kills) * trials_per_kill and any("param_name" in one for one in logs)

    def kill():
        while not over.wait(0.2):
            if not due():
                continue
            worker = len(kills) % 3
            processes[worker].kill()
            processes[worker].wait()
            processes[worker] = start(worker)
            kills.append(worker)

    killing = threading.Thread(target=kill)
    killing.start()
    try:
        run()
    finally:
        over.set()
        killing.join()
        for process in processes:
            process.kill()
            process.wait()
    assert kills
    assert [trial.number for trial in study.trials()] == list(range(trials))
    assert {trial.state for trial in study.trials()} == {TrialState.COMPLETE}
    assert len({tuple(trial.params.values()) for trial in study.trials()}) == trials
    asked = [one["trial_id"] for one in journal.read_logs(0) if "param_name" in one]
    assert len(asked) == len(set(asked)), "the value of a trial was asked twice"
    for number in range(trials):
        steps = trained_steps(folder, number)
        assert steps == EVERY_STEP
