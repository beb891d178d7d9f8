"""How a session counts, stops and saves; a stand-in for the compiled step keeps it quick."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.config import TrainingConfig
from cloudgan.core.errors import CloudganError
from cloudgan.core.progress import Silent
from cloudgan.core.pulse import PulseFile
from cloudgan.data.order import Order
from cloudgan.training.session import REASONS, Session
from cloudgan.training.step import COLUMNS, PASSES
from cloudgan.training.stopping import StopFlag, StopTraining

pytestmark = pytest.mark.tf
SHAPE = (len(PASSES), len(COLUMNS))


class Work:
    """Stands where the compiled steps are: notes what it is asked, answers with ones."""

    def __init__(self):
        self.blocks, self.loss = [], 1.0
        self.others = np.zeros(len(REASONS), np.int32)

    def __call__(self, _iterator, steps, votes):
        self.blocks.append(int(steps))
        return np.full(SHAPE, self.loss * int(steps)), np.asarray(votes) + self.others


def session(
    work, *, step=0, steps_per_loop=4, save_due=lambda _: False, saved=None, pulse=None, **training
):
    saved = [] if saved is None else saved
    return Session(
        work,
        Order((10, 10), 1, 2),  # ten steps an epoch
        TrainingConfig(**({"epochs": 3} | training)),
        flag=StopFlag(),
        progress=Silent(),
        step=step,
        train_seconds=0.0,
        steps_per_loop=steps_per_loop,
        save=lambda done: saved.append(done.step) or 0.5,
        save_due=save_due,
        pulse=pulse,
    )


def run_epoch(one):
    one.begin_epoch()
    while one.steps_left_in_epoch:
        one.advance(None)


def test_whoever_watches_sees_how_far_it_is(tmp_path):
    pulse = PulseFile(tmp_path / "pulse.json")
    session(Work(), pulse=pulse).advance(None)
    assert pulse.read()[:2] == (4, 0)


def test_a_block_never_passes_the_end_of_an_epoch():
    one = session(work := Work())
    run_epoch(one)
    assert work.blocks == [4, 4, 2]
    assert (one.step, one.epoch, one.blocks_per_epoch) == (10, 1, 3)


def test_a_resumed_session_finishes_the_epoch_that_it_is_in():
    one = session(work := Work(), step=13)
    run_epoch(one)
    assert work.blocks == [4, 3]
    assert (one.begun_epoch, one.epoch) == (1, 2)


def test_a_block_past_the_end_runs_nothing():
    one = session(work := Work())
    run_epoch(one)
    one.advance(None)
    assert sum(work.blocks) == 10


def test_losses_are_means_over_the_steps_of_this_epoch():
    one = session(work := Work())
    run_epoch(one)
    one.begin_epoch()
    work.loss = 3.0
    one.advance(None)
    assert one.losses()["generator"]["total"] == 3.0


def test_it_stops_at_the_asked_step_exactly():
    one = session(work := Work(), max_steps=7)
    with pytest.raises(StopTraining) as stop:
        run_epoch(one)
    assert (one.step, stop.value.reason, work.blocks) == (7, "max_steps", [4, 3])


def test_it_stops_when_its_time_is_over():
    one = session(Work(), max_seconds=1e-9)
    one.begin_epoch()
    one.advance(None)
    with pytest.raises(StopTraining) as stop:
        one.advance(None)
    assert stop.value.reason == "max_seconds"


def test_one_worker_that_asks_stops_all_after_the_same_step():
    one = session(work := Work())
    one.begin_epoch()
    work.others[REASONS.index("terminated")] = 1  # another worker got SIGTERM
    with pytest.raises(StopTraining) as stop:
        one.advance(None)
    assert (stop.value.reason, one.step) == ("terminated", 4)


def test_after_an_epoch_all_stop_before_the_next_step_where_one_asks():
    one = session(work := Work())
    run_epoch(one)
    one.stop_if_asked()
    work.others[REASONS.index("reached")] = 1  # the chief looked at the generator
    with pytest.raises(StopTraining) as stop:
        one.stop_if_asked()
    assert (stop.value.reason, one.step, work.blocks[3:]) == ("reached", 10, [0, 0])


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_step():
    one = session(work := Work())
    one.begin_epoch()
    work.loss = float("nan")
    with pytest.raises(CloudganError, match="no number any more in the steps up to 4"):
        one.advance(None)


def test_it_saves_when_that_is_due_and_counts_the_seconds_apart():
    saved = []
    one = session(Work(), save_due=lambda done: done.step >= 8, saved=saved)
    run_epoch(one)
    assert saved == [8, 10]
    assert one.checkpoint_seconds == 1.0
    assert one.epoch_seconds < 0.5


def test_throughput_leaves_the_first_call_out():
    one = session(Work())
    one.begin_epoch()
    assert one.samples_per_second() == 0.0
    one.advance(None)
    assert one.samples_per_second() == 0.0
    one.advance(None)
    wanted = 4 * 2 / (one.epoch_seconds - one.trace_seconds)
    assert one.samples_per_second() == pytest.approx(wanted)
