"""The best checkpoint, the stop criterion and the early stop."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.checkpoint import BestCheckpoint
from cloudgan.training.quality_history import QualityHistory


def history(saved=None, **training):
    training = {"validate_every": 1, "epochs": 60} | training
    return QualityHistory(TrainingConfig(**training), saved and SimpleNamespace(**saved))


def add(one, value, *, hits=0.5, epoch=0):
    metrics = {"metric": value, "hits": hits}
    found = BestCheckpoint(step=11 * (epoch + 1), epoch=epoch, metrics=metrics)
    return one.add(found, showers=200, seconds=1.0, program_seconds=2.0)


def test_the_smallest_metric_is_the_best():
    one = history()
    found = [add(one, value, epoch=epoch) for epoch, value in enumerate((0.3, 0.2, 0.25))]
    assert [each.best for each in found] == [True, True, False]
    assert (one.best.step, one.best.epoch, one.validated_step) == (22, 1, 33)
    assert [each.epoch for each in found] == [0, 1, 2]


def test_it_continues_from_the_state_of_the_checkpoint():
    best = BestCheckpoint(step=11, epoch=0, metrics={"metric": 0.2, "hits": 0.4})
    one = history({"best": best, "validated_step": 21, "recent": ()})
    assert one.validated_step == 21
    assert not add(one, 0.25).best
    assert one.best == best


def test_the_metric_of_the_criterion_ranks_and_older_checkpoints_by_it_too():
    best = BestCheckpoint(step=11, epoch=0, metrics={"metric": 0.1, "hits": 0.4})
    one = history({"best": best, "validated_step": 11, "recent": ()}, until="hits>0.8")
    found = add(one, 0.9)
    assert found.best
    assert (found.ranked_by, found.until, found.reached) == ("hits", "hits>0.8", False)


def test_training_should_end_when_the_criterion_holds_and_says_how_far_it_came():
    one = history(until="metric<0.15")
    assert one.stop_message() == "metric<0.15 not reached: no epoch was validated"
    assert not add(one, 0.3).reached
    assert one.stop is None
    assert one.stop_message() == "metric<0.15 not reached: the best is 0.3 after epoch 1 (step 11)"
    assert add(one, 0.1, epoch=1).reached
    assert one.stop == "reached"
    assert one.stop_message() == "metric<0.15 reached: the best is 0.1 after epoch 2 (step 22)"
    assert history().stop_message() == ""


def test_without_patience_a_checkpoint_keeps_no_numbers_and_nothing_is_smoothed():
    one = history()
    found = [add(one, value) for value in (0.3, 0.4, 0.5)]
    assert [each.smoothed for each in found] == [None] * 3
    assert (one.stop, one.state()["recent"]) == (None, ())


NUMBERS = (0.5, 0.3, 0.2, 0.6, 0.25, 0.3, 0.31, 0.1)  # medians of three: 0.3, 0.3, 0.25, 0.3, 0.3


def test_training_should_end_when_the_median_does_not_improve_and_the_record_says_so():
    one = history(patience=2, smooth=3)
    found = [add(one, value, epoch=epoch) for epoch, value in enumerate(NUMBERS[:7])]
    assert [each.smoothed for each in found] == [None, None, 0.3, 0.3, 0.25, 0.3, 0.3]
    assert [each.plateau for each in found] == [False] * 6 + [True]
    assert one.stop == "plateau"
    assert one.stop_message() == (
        "no improvement of metric in 2 validations (median of 3: 0.3): the best is 0.2 after epoch 3"
        " (step 33)"
    )


@pytest.mark.parametrize("killed_after", range(8))
def test_a_resumed_run_ends_after_the_same_validation(killed_after):
    one = history(patience=2, smooth=3)
    for epoch, value in enumerate(NUMBERS):
        if epoch == killed_after:
            one = history(one.state(), patience=2, smooth=3)
        add(one, value, epoch=epoch)
        if one.stop:
            break
    assert one.stop == "plateau"
    assert one.validated_step == 77
    assert history(one.state(), patience=2, smooth=3).stop == "plateau", "rerun, it stays ended"
    assert history(one.state(), patience=3, smooth=3).stop is None, "more patience goes on"


def test_a_generator_that_could_not_be_measured_is_no_improvement():
    one = history(patience=1)
    assert not add(one, 0.3).plateau
    found = add(one, math.nan, epoch=1)
    assert (found.best, found.plateau) == (False, True)


def test_a_validation_after_the_stop_does_not_revoke_it():
    one = history(patience=1)
    for epoch, value in enumerate((0.3, 0.4, 0.2)):
        found = add(one, value, epoch=epoch)
    assert (found.best, found.plateau, found.smoothed) == (True, True, None)
    assert history(one.state(), patience=1).stop == "plateau"
