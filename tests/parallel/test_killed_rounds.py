"""Runs with masters and workers that are killed at their messages, and started again."""

from __future__ import annotations

import shutil
from concurrent.futures import Future

import numpy as np
import pytest

from cloudgan.core.errors import TryAgain
from cloudgan.core.progress import Silent
from cloudgan.parallel.master import Master
from cloudgan.parallel.messages import Tag
from cloudgan.parallel.rank import Rank
from cloudgan.parallel.run_keeper import RunKeeper
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.stopping import StopFlag
from parallel.world_in_turns import centre, config_of, run_world
from ranks.turns import Killed, Turns

GROUP = {"ranks": 5, "group": 2}
TREE = {"ranks": 5, "masters": 2, "master_sync_every": 1}


def killed_and_resumed(path, config, messages, every=1):
    """Yields the message and the centre of runs that were killed at a message and started again."""
    ranks = config.parallel.ranks
    for message in range(1, messages + 1, every):
        with pytest.raises(Killed):
            run_world(Turns(ranks, kill_at=message), path, config)
        newest = RunFolder(path).saved_steps()[-1:]
        run_world(Turns(ranks), path, config)
        lines = record.read(RunFolder(path).record_file).lines
        assert [line.step for line in lines if line.kind == "resumed"] == newest, message
        yield message, centre(path)
        shutil.rmtree(path)


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # only one rank runs


@pytest.mark.parametrize(
    ("steps", "options", "every"),
    [
        pytest.param(7, {"master_optimizer": "adam"}, 1, id="adam, one worker ends first"),
        pytest.param(8, {}, 1, id="sgd", marks=pytest.mark.slow),
        pytest.param(7, {"sends": "gradients"}, 5, id="gradients"),
        pytest.param(8, GROUP, 5, id="groups"),
        pytest.param(6, TREE, 7, id="tree"),
        pytest.param(6, TREE, 1, id="tree, each message", marks=pytest.mark.slow),
    ],
)
def test_a_synchronous_run_killed_at_any_message_and_resumed_has_the_bits_of_one_undisturbed(
    tmp_path, steps, options, every
):
    config = config_of(
        workers=2, steps=steps, synchronous=True, checkpoint={"every_steps": 1}, **options
    )
    undisturbed = Turns(config.parallel.ranks)
    run_world(undisturbed, tmp_path / "undisturbed", config)
    step, weights = centre(tmp_path / "undisturbed")
    assert (step, undisturbed.sent > 30) == (steps, True)
    wrong = [
        message
        for message, (found, resumed) in killed_and_resumed(
            tmp_path / "run", config, undisturbed.sent, every
        )
        if (found, resumed.tobytes()) != (step, weights.tobytes())
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="downpour"),
        pytest.param({"sends": "gradients"}, id="downpour, gradients"),
        pytest.param(TREE, id="downpour, tree", marks=pytest.mark.slow),
        pytest.param({"mode": "easgd"}, id="easgd"),
        pytest.param({"mode": "gem"}, id="gem"),  # killed before the first step, too
        pytest.param({"mode": "easgd", **TREE}, id="easgd, tree"),
        pytest.param({"mode": "gem", **TREE}, id="gem, tree", marks=pytest.mark.slow),
    ],
)
def test_an_asynchronous_run_killed_at_any_message_and_resumed_ends(tmp_path, options):
    config = config_of(workers=2, steps=6, checkpoint={"every_steps": 2}, **options)
    undisturbed = Turns(config.parallel.ranks)
    run_world(undisturbed, tmp_path / "undisturbed", config)
    found = list(killed_and_resumed(tmp_path / "run", config, undisturbed.sent, every=5))
    assert len(found) >= 8
    for message, (step, weights) in found:
        assert 0 < step <= 6, message  # the centre lacks steps that its workers have trained
        assert np.isfinite(weights).all()


class AtOnce:
    """An executor that does the work where it is submitted: a thread would take no turns."""

    def __init__(self, *_):
        pass

    def submit(self, work, *given):
        done = Future()
        done.set_result(work(*given))
        return done


def test_the_last_state_of_a_killed_run_is_validated_though_its_centre_lacks_steps(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("cloudgan.parallel.run_keeper.ThreadPoolExecutor", AtOnce)
    training = {"validate_every": 1, "global_batch_size": 8, "epochs": 2}
    config = config_of(
        workers=2, steps=6, mode="gem", training=training, checkpoint={"every_steps": 2}
    )
    undisturbed = Turns(3)
    run_world(undisturbed, tmp_path / "undisturbed", config, showers=24)
    lacking = 0
    for message in range(1, undisturbed.sent + 1, 5):
        path = tmp_path / f"killed-at-{message}"
        with pytest.raises(Killed):
            run_world(Turns(3, kill_at=message), path, config, showers=24)
        run_world(Turns(3), path, config, showers=24)
        found = record.read(RunFolder(path).record_file)
        validated, step = [line.step for line in found.validations()], found.stopped().step
        assert validated[-1] == step, message
        assert len(validated) == len(set(validated)), message
        lacking += step < 6
    assert lacking, "no centre lacked a step"


def test_each_master_of_a_tree_moves_towards_rank_0_by_the_rule_of_its_workers(tmp_path):
    config = config_of(workers=2, steps=2, mode="easgd", **TREE)
    *_, first, second = run_world(Turns(5), tmp_path / "run", config)
    _, weights = centre(tmp_path / "run")
    trained = [np.sin(np.float32(1)), np.sin(np.float32(11))]  # of the two workers, from 0
    below = [0.9 * one for one in trained]  # one worker each: force / 1
    orders = [0.45 * a + 0.45 * (b - 0.45 * a) for a, b in (below, below[::-1])]  # force / 2
    assert min(abs(weights[0] - orders[0]), abs(weights[0] - orders[1])) < 1e-6
    for (step, own), one in zip((first, second), trained, strict=True):
        assert step == 1
        assert np.frombuffer(own, np.float32)[0] == pytest.approx(0.1 * one, rel=1e-5)


def test_a_rank_that_resumes_elsewhere_ends_the_world(tmp_path):
    config, folder = config_of(workers=1, steps=2), RunFolder(tmp_path / "run")

    def act(world):
        rank = Rank.join(world, config, folder)
        if world.rank:
            return world.send_json({"step": 2, "run": None}, 0, Tag.JOIN)
        keeper = RunKeeper(rank, Silent(), start_time=0.0, validator=None)
        return Master(rank, StopFlag(), keeper).run()

    with pytest.raises(TryAgain, match=r"rank 1 resumes after its step 2, .* has step 0"):
        Turns(2).run(act)
    assert not folder.path.exists()
