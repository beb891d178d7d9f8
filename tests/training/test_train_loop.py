"""The loop, block by block: when it stops and saves, and what it records."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Silent
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.quality import QualityHistory
from cloudgan.training.stopping import STOP_REASONS, Exchange, StopFlag, StopTraining
from cloudgan.training.train_loop import TrainLoop

pytestmark = pytest.mark.tf


SHAPE = (len(PASSES), len(loss_columns()))


class Work:
    """Stub of the compiled steps: records its calls, returns ones."""

    def __init__(self):
        self.blocks, self.loss = [], 1.0
        self.others = np.zeros(len(STOP_REASONS), np.int32)
        self.held_out_losses = None

    def run_steps(self, _iterator, steps, votes):
        self.blocks.append(int(steps))
        return np.full(SHAPE, self.loss * int(steps)), np.asarray(votes) + self.others


class Checkpoints:
    """Stub that keeps the saved steps; their copies are made when `copied` is set, or after `waits`."""

    def __init__(self):
        self.saved, self.copied, self.copy_problem, self.waits = [], True, None, 0

    def save(self, state, arrays):
        self.saved.append(state.step)
        return f"step-{state.step}.npz", len(arrays)

    def is_copied(self, *, within=0.0):
        if within is None:
            self.copied = True
        elif within and not self.copied:
            self.waits -= 1
            self.copied = self.waits < 0
        return self.copied

    def path_of(self, step):
        return f"step-{step}.npz"


@pytest.fixture
def train_loop(tmp_path):
    """Makes the loop of a run with ten steps an epoch; keyword arguments are keys of `training`."""

    def make(
        work,
        *,
        step=0,
        steps_per_loop=4,
        checkpoint=None,
        is_chief=True,
        exchange=None,
        **training,
    ):
        document = {"model": {"preset": "smoke"}, "training": {"epochs": 3} | training}
        config = parse_config(document | {"checkpoint": checkpoint or {}}, "a test")
        state = SimpleNamespace(step=step, train_seconds=0.0)
        context = SimpleNamespace(
            config=config,
            folder=RunFolder(tmp_path),
            sampler=EpochSampler((10, 10), 1, 2),
            saved=SimpleNamespace(state=state) if step else None,
            steps_per_loop=steps_per_loop,
            is_chief=is_chief,
            last_step=30,
            end_step=min(30, config.training.max_steps or 30),
            engine=work,
            numerics=record.Numerics.model_construct(threads=1, device="CPU"),
            training_set=SimpleNamespace(summary=TrainingSummary.model_construct()),
            checkpoints=Checkpoints(),
            flag=StopFlag(),
            progress=Silent(),
            start_time=0.0,
        )
        history = QualityHistory(TrainingConfig(), None)
        one = TrainLoop(
            context,
            SimpleNamespace(arrays=lambda _: {}, inference=list),
            SimpleNamespace(
                history=history, is_due=lambda _: False, evaluate=lambda *_: None, work=None
            ),
            exchange,
        )
        one.checkpoints = context.checkpoints
        return one

    return make


def run_epoch(one):
    one.begin_epoch()
    while one.steps_left_in_epoch:
        one.advance(None)


def test_the_liveness_file_has_the_step(train_loop, tmp_path, monkeypatch):
    path = tmp_path / "liveness.json"
    monkeypatch.setenv("CLOUDGAN_LIVENESS", str(path))
    train_loop(Work()).advance(None)
    assert LivenessFile(path).read()[:2] == (4, 0)


@pytest.mark.parametrize(
    ("step", "blocks", "epoch"), [(0, [4, 4, 2], 0), (13, [4, 3], 1), (29, [1], 2)]
)
def test_a_block_never_passes_the_end_of_an_epoch(train_loop, step, blocks, epoch):
    one = train_loop(work := Work(), step=step)
    run_epoch(one)
    one.advance(None)  # past the end it runs nothing
    assert work.blocks == blocks
    assert (one.epoch.number, one.next_epoch, one.blocks_per_epoch) == (epoch, epoch + 1, 3)


def test_losses_are_means_over_the_steps_of_this_epoch(train_loop):
    one = train_loop(work := Work())
    run_epoch(one)
    one.begin_epoch()
    work.loss = 3.0
    one.advance(None)
    assert one.epoch.losses()["generator"]["total"] == 3.0


@pytest.mark.parametrize(
    ("limit", "others", "reason", "blocks"),
    [
        ({"max_steps": 7}, None, "max_steps", [4, 3]),
        ({"max_seconds": 1e-9}, None, "max_seconds", [4, 4]),
        ({}, "terminated", "terminated", [4]),  # another worker got SIGTERM
    ],
)
def test_it_stops_at_its_limit_or_when_another_worker_asks(
    train_loop, limit, others, reason, blocks
):
    one = train_loop(work := Work(), **limit)
    if others:
        work.others[STOP_REASONS.index(others)] = 1
    with pytest.raises(StopTraining) as stop:
        run_epoch(one)
    assert (stop.value.reason, one.step, work.blocks) == (reason, sum(blocks), blocks)


def test_after_an_epoch_all_stop_before_the_next_step_where_one_asks(train_loop):
    one = train_loop(work := Work())
    run_epoch(one)
    one.stop_if_requested()
    work.others[STOP_REASONS.index("reached")] = 1  # the chief looked at the generator
    with pytest.raises(StopTraining) as stop:
        one.stop_if_requested()
    assert (stop.value.reason, one.step, work.blocks[3:]) == ("reached", 10, [0, 0])


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_step(train_loop):
    one = train_loop(work := Work())
    work.loss = float("nan")
    with pytest.raises(CloudganError, match="a loss is NaN or infinite up to step 4"):
        one.advance(None)


def test_it_saves_when_that_is_due_and_counts_the_seconds_apart(train_loop, tmp_path):
    one = train_loop(Work(), checkpoint={"every_steps": 6})
    run_epoch(one)
    one.save()
    one.save()
    one.record_epoch()
    assert one.checkpoints.saved == [8, 10]
    _, _, epoch = lines_of(tmp_path)
    assert epoch.checkpoint_seconds > 0
    assert epoch.train_seconds == one.epoch_seconds < 0.5


def test_the_speed_leaves_the_first_call_out(train_loop):
    one = train_loop(Work())
    assert one.epoch.steps_per_second() == 0.0
    one.advance(None)
    assert one.epoch.steps_per_second() == 0.0
    one.advance(None)
    wanted = 4 / (one.epoch.seconds - one.epoch.trace_seconds)
    assert one.epoch.steps_per_second() == pytest.approx(wanted)


def lines_of(tmp_path):
    return record.read(RunFolder(tmp_path).record_file).lines


def test_a_failure_inside_an_epoch_leaves_the_steps_of_its_last_checkpoint(train_loop, tmp_path):
    one = train_loop(Work())
    one.advance(None)
    one.save()
    one.advance(None)
    one.fail("a worker is gone")
    _, epoch, stopped = lines_of(tmp_path)
    assert (epoch.kind, epoch.step, epoch.steps, epoch.complete) == ("epoch", 4, 4, False)
    assert (stopped.reason, stopped.step, stopped.message) == ("failed", 8, "a worker is gone")


def test_an_epoch_that_was_written_is_not_written_again(train_loop, tmp_path):
    one = train_loop(Work(), checkpoint={"every_steps": 8})
    run_epoch(one)
    one.finish_epoch()
    one.advance(None)
    one.fail("a worker is gone")
    assert [line.kind for line in lines_of(tmp_path)] == ["checkpointed", "epoch", "stopped"]


def test_where_the_held_out_losses_fail_the_epoch_before_them_is_kept(train_loop, tmp_path):
    def fails():
        raise RuntimeError("a worker is gone")

    one = train_loop(work := Work())
    run_epoch(one)
    one.save()
    work.held_out_losses = fails
    with pytest.raises(RuntimeError):
        one.finish_epoch()
    one.fail("a worker is gone")
    _, epoch, stopped = lines_of(tmp_path)
    assert (epoch.complete, epoch.steps, epoch.held_out_losses) == (True, 10, None)
    assert stopped.reason == "failed"


def test_a_process_that_waits_for_the_copy_of_a_checkpoint_shows_signs_of_life(
    train_loop, tmp_path, monkeypatch
):
    monkeypatch.setenv("CLOUDGAN_LIVENESS", str(tmp_path / "liveness.json"))
    monkeypatch.setattr("cloudgan.schema.heartbeat._EVERY_SECONDS", 0.0)
    signs = []

    class Asked(Exchange):
        waits_for_copies = True

        def waits(self):
            signs.append(LivenessFile(tmp_path / "liveness.json").read().blocks)

    checkpoint = {"every_steps": 8, "url": "gs://lab/run"}
    one = train_loop(Work(), checkpoint=checkpoint, exchange=Asked())
    one.checkpoints.copied, one.checkpoints.waits = False, 3
    one.advance(None)
    one.advance(None)
    assert (one.checkpoints.saved, signs) == ([8], [1, 2, 3])


def test_a_checkpoint_is_recorded_when_its_copy_is_made_at_the_latest_at_the_end(
    train_loop, tmp_path
):
    one = train_loop(Work(), checkpoint={"every_steps": 4, "url": "gs://lab/run"})
    one.checkpoints.copied, one.checkpoints.copy_problem = False, "no answer"
    one.advance(None)
    assert (one.checkpoints.saved, RunFolder(tmp_path).record_file.exists()) == ([4], False)
    one.checkpoints.copied = True
    one.advance(None)
    one.checkpoints.copied, one.checkpoints.copy_problem = False, None
    one.advance(None)
    one.end("terminated")
    found = [(line.kind, line.step, getattr(line, "copied", "")) for line in lines_of(tmp_path)]
    assert found == [
        ("checkpointed", 4, False),
        ("checkpointed", 8, False),
        ("checkpointed", 10, True),
        ("stopped", 10, ""),
    ]


def test_only_the_chief_saves_records_and_tracks(train_loop, tmp_path):
    for is_chief in (False, True):
        one = train_loop(Work(), is_chief=is_chief, track="tensorboard")
        one.advance(None)
        assert one.end("finished").step == 4
        assert (tmp_path / "tensorboard").exists() is is_chief
        assert RunFolder(tmp_path).record_file.exists() is is_chief
        assert one.checkpoints.saved == [4] * is_chief
