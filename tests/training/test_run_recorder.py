"""The record of a failed run has every step that a checkpoint has, once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cloudgan.core.progress import Silent
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.pipeline.image_buffers import ReadingTime
from cloudgan.data.summary import TrainingSummary
from cloudgan.schema import record
from cloudgan.schema.config import parse_config
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.quality_history import QualityHistory
from cloudgan.training.run_recorder import RunRecorder

pytestmark = pytest.mark.tf
EPOCH = 10  # steps


class Checkpoints:
    copy_problem = None

    def save(self, state, arrays):
        return f"step-{state.step}.npz", len(arrays)


@pytest.fixture
def recorder(tmp_path):
    folder = RunFolder(tmp_path)
    context = SimpleNamespace(
        saved=None,
        config=parse_config({"model": {"preset": "smoke"}}, "a test"),
        is_chief=True,
        folder=folder,
        sampler=EpochSampler((2 * EPOCH,), 1, 2),
        numerics=record.Numerics.model_construct(threads=1),
        training_set=SimpleNamespace(summary=TrainingSummary.model_construct()),
        checkpoints=Checkpoints(),
    )
    gan = SimpleNamespace(variables=dict, ema_generator=None)
    history = QualityHistory(TrainingConfig(), None)
    evaluator = SimpleNamespace(history=history, is_due=lambda _: False)
    return RunRecorder(
        context, gan, None, Silent(), ReadingTime(), evaluator=evaluator, start_time=0.0
    )


def test_only_the_chief_tracks_its_run(recorder, tmp_path):
    context = recorder._context
    context.config = parse_config({"training": {"track": "tensorboard"}}, "a test")
    for context.is_chief in (False, True):
        again = RunRecorder(
            *(context, None, None, Silent(), ReadingTime()), evaluator=None, start_time=0.0
        )
        again.record_stop(at(0), "finished")
        assert (tmp_path / "tensorboard").exists() is context.is_chief


def at(step, *, begun=0):
    """A session after `step`, in the epoch that it began with `begun`."""
    return SimpleNamespace(
        step=step,
        start_step=begun,
        start_epoch=begun // EPOCH,
        includes_tracing=begun == 0,
        epoch_seconds=float(step - begun),
        train_seconds=float(step),
        trace_seconds=0.0,
        checkpoint_seconds=0.0,
        losses=dict,
        samples_per_second=lambda: 2.0,
    )


def lines_of(tmp_path):
    return record.read(RunFolder(tmp_path).record_file).lines


def test_a_failure_inside_an_epoch_leaves_the_steps_of_its_last_checkpoint(recorder, tmp_path):
    recorder.save_state(at(4))
    recorder.record_failure(at(6), "a worker is gone")
    _, epoch, stopped = lines_of(tmp_path)
    assert (epoch.kind, epoch.step, epoch.steps, epoch.complete) == ("epoch", 4, 4, False)
    assert epoch.train_seconds == 4.0
    assert (stopped.reason, stopped.step, stopped.message) == ("failed", 6, "a worker is gone")


def test_an_epoch_that_was_written_is_not_written_again(recorder, tmp_path):
    recorder.save_state(at(8))
    recorder.finish_epoch(at(10), None)
    recorder.record_failure(at(12, begun=10), "a worker is gone")
    assert [line.kind for line in lines_of(tmp_path)] == ["checkpointed", "epoch", "stopped"]


def test_where_the_losses_of_held_out_showers_fail_the_epoch_before_them_is_kept(
    recorder, tmp_path
):
    def fails():
        raise RuntimeError("a worker is gone")

    recorder.save_state(at(10))
    with pytest.raises(RuntimeError):
        recorder.finish_epoch(at(10), fails)
    recorder.record_failure(at(10), "a worker is gone")
    _, epoch, stopped = lines_of(tmp_path)
    assert (epoch.complete, epoch.steps, epoch.held_out_losses) == (True, 10, None)
    assert stopped.reason == "failed"
