"""A master below rank 0 that resumes, among ranks whose messages are written here."""

from __future__ import annotations

import json
from collections import deque

import numpy as np
import pytest

from cloudgan.bench.sleeping_ranks import _joining
from cloudgan.core.errors import TryAgain
from cloudgan.data.summary import TrainingSummary
from cloudgan.parallel.centre import ResumedSteps, rank_folder
from cloudgan.parallel.communicator import Message, as_bytes
from cloudgan.parallel.flat_weights import FlatLayout
from cloudgan.parallel.layout import make_layout
from cloudgan.parallel.lower_master import LowerMaster
from cloudgan.parallel.messages import Answer, Report, Tag, Update, Wanted
from cloudgan.parallel.profile import Profile, Seconds
from cloudgan.schema.config import RunConfig
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.record import Started
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.checkpoint import Checkpoints, State, read_checkpoint
from cloudgan.training.stopping import REASONS, StopFlag

SIZE = 3
FLAT = FlatLayout(("generator/000/kernel",), ((SIZE,),), 1)


def weights(value):
    return np.full(SIZE, value, np.float32)


class Script:
    """Rank 1 of five: rank 0, two masters, and a worker of each. Others send what is queued."""

    rank, size = 1, 5

    def __init__(self, *arriving):
        self.arriving = deque(arriving)
        self.sent = []

    def wait(self, source=-1, tag=-1, *, seconds=None, meanwhile=None):
        found = self.poll(source, tag)
        assert found, f"nothing waits from {source} with {tag!r}"
        return found

    def poll(self, source=-1, tag=-1):
        for one in self.arriving:
            if source in (-1, one[0]) and tag in (-1, one[1]):
                return Message(one[0], one[1], one[2].nbytes)
        return None

    def receive(self, into, source, tag):
        found = next(one for one in self.arriving if one[:2] == (source, tag))
        self.arriving.remove(found)
        into[...] = found[2]

    def receive_json(self, message):
        into = np.empty(message.bytes, np.uint8)
        self.receive(into, message.source, message.tag)
        return json.loads(into.tobytes())

    def send(self, buffer, to, tag):
        self.sent.append((to, Tag(tag), np.array(buffer)))

    def send_json(self, value, to, tag):
        self.sent.append((to, Tag(tag), value))

    def to(self, rank, tag):
        return [content for to, kind, content in self.sent if (to, kind) == (rank, tag)]


def joining(step):
    return as_bytes({"step": step, **_joining(FLAT, showers=100)})


def update(step):
    losses = np.zeros((len(PASSES), len(loss_columns())))
    return Update(step, Seconds(train=1.5), 0.0, 0, losses).as_array()


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


@pytest.fixture
def config():
    parallel = {"mode": "easgd", "ranks": 5, "masters": 2}
    return RunConfig.model_validate({"model": {"preset": "smoke"}, "parallel": parallel})


@pytest.fixture
def saved(folder, config):
    """Its checkpoints of two points; the second one was not complete."""
    found = _joining(FLAT, showers=100)
    checkpoints = Checkpoints(rank_folder(folder, 1).checkpoints, keep=3)
    for step in (4, 5):
        state = State(
            step=step,
            train_seconds=0.0,
            config_hash=config.config_hash(),
            config=config,
            numerics=Started.model_validate_json(found["started"]).numerics,
            summary=TrainingSummary.model_validate_json(found["summary"]),
        )
        checkpoints.save(state, {"centre": weights(step + 1.0)})
    return checkpoints


def master(script, folder, config):
    layout = make_layout(5, config.parallel)
    resumed = ResumedSteps(workers=(4, 3), masters=(4, 3))
    return LowerMaster(
        script, layout, config, folder, flag=StopFlag(), profile=Profile(), resumed=resumed
    )


def test_it_continues_from_its_own_centre_and_moves_towards_rank_0_by_the_rule(
    folder, config, saved
):
    finished = float(REASONS.index("finished"))
    script = Script(
        (3, Tag.JOIN, joining(4)),
        (0, Tag.CENTRE, weights(10.0)),
        (3, Tag.UPDATE, update(6)),
        (3, Tag.WEIGHTS, weights(7.0)),
        (3, Tag.DONE, np.array([finished, 6.0])),
        (0, Tag.ANSWER, Answer(Wanted.NOTHING).as_array()),
        (0, Tag.CENTRE, weights(20.0)),
        (0, Tag.ANSWER, Answer(Wanted.END).as_array()),
    )
    master(script, folder, config).run()
    assert not script.arriving
    [joined] = script.to(0, Tag.JOIN)
    assert joined["step"] == 4
    # The worker begins from, and is answered with, the saved centre, not that of rank 0.
    first, answered = script.to(3, Tag.CENTRE)
    np.testing.assert_array_equal([first, answered], [weights(5.0)] * 2)
    # One worker: 5 + 0.9 (7 - 5). Two masters: 6.8 + 0.45 (20 - 6.8).
    [sent] = script.to(0, Tag.WEIGHTS)
    np.testing.assert_allclose(sent, weights(6.8), rtol=1e-6)
    [report] = map(Report.from_json, script.to(0, Tag.REPORT))
    assert (report.workers[0].update.step, dict(report.staleness)) == (6, {0: 1})
    assert report.workers[0].update.seconds.train == 1.5
    [done] = script.to(0, Tag.DONE)
    assert done.tolist() == [finished, 6, 6]  # its own steps, then those of its worker
    assert saved.steps() == [4, 6]  # that of the incomplete point is gone
    kept = read_checkpoint(saved.path_of(6)).arrays["centre"]
    np.testing.assert_allclose(kept, weights(12.74), rtol=1e-6)
    assert Answer.from_array(script.to(3, Tag.ANSWER)[-1]).wanted == Wanted.END


def test_a_worker_that_resumes_elsewhere_ends_the_world(folder, config, saved):
    script = Script((3, Tag.JOIN, joining(2)))
    with pytest.raises(TryAgain, match=r"rank 3 resumes after its step 2, .* has step 4"):
        master(script, folder, config).run()
    assert saved.steps() == [4, 5]


def test_a_stop_and_a_point_of_rank_0_reach_the_worker(folder, config, saved):
    """Rank 0 wants both in its answer to the first exchange; the worker saves and ends."""
    config = config.model_copy(
        update={"parallel": config.parallel.model_copy(update={"master_sync_every": 1})}
    )
    stopped = REASONS.index("max_seconds")
    script = Script(
        (3, Tag.JOIN, joining(4)),
        (0, Tag.CENTRE, weights(10.0)),
        (3, Tag.UPDATE, update(5)),
        (3, Tag.WEIGHTS, weights(7.0)),
        (0, Tag.ANSWER, Answer(Wanted.SAVE | Wanted.STOP, stopped).as_array()),
        (0, Tag.CENTRE, weights(20.0)),
        (3, Tag.UPDATE, update(6)),
        (3, Tag.WEIGHTS, weights(7.0)),
        (0, Tag.ANSWER, Answer(Wanted.STOP, stopped).as_array()),
        (0, Tag.CENTRE, weights(20.0)),
        (3, Tag.SAVED, np.array([6.0])),
        (3, Tag.DONE, np.array([float(stopped), 6.0])),
        (0, Tag.ANSWER, Answer(Wanted.END).as_array()),
    )
    master(script, folder, config).run()
    answers = [Answer.from_array(content) for content in script.to(3, Tag.ANSWER)]
    assert answers[0].wanted == Wanted.NOTHING  # EASGD answers before the exchange
    assert answers[1] == Answer(Wanted.SAVE | Wanted.STOP, stopped)
    [part] = script.to(0, Tag.SAVED)
    assert part.tolist() == [5, 6]  # its centre is that of step 5, its worker's weights of step 6
