"""When a generator is looked at, which one is the best, and when it suffices."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from cloudgan.core.config import TrainingConfig
from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.data.order import Order
from cloudgan.training.best import Best
from cloudgan.training.stopping import StopFlag
from cloudgan.training.validating import Validator

pytestmark = pytest.mark.tf


class FakeJudge:
    """Gives answers in turn."""

    def __init__(self, *answers):
        self.answers, self.meanwhile = list(answers), lambda: None

    def __len__(self):
        return 200

    def prepare(self):
        pass

    def numbers(self, weights, progress, *, gives_up):
        del progress
        self.meanwhile()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return None if gives_up() else {"metric": answer, "hits": weights[0]}


class Told(Silent):
    """Keeps the lines that stay."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def validator(judge, *, flag=None, saved=None, progress=None, **training):
    training = {"validate_every": 1, "epochs": 9} | training
    setting = SimpleNamespace(
        config=SimpleNamespace(training=TrainingConfig(**training)),
        order=Order((10, 11), 1, 2),  # the last batch is carried: 11, 10, 11 ... steps an epoch
        saved=saved and (None, saved),
    )
    return Validator(setting, judge, flag or StopFlag(), progress or Silent(), began_seconds=0.0)


def look(one, step):
    return one.look(step, lambda: [0.5])


def test_it_is_due_at_the_end_of_each_nth_epoch_and_once():
    one = validator(FakeJudge(0.3), validate_every=2)
    assert [step for step in range(1, 50) if one.is_due(step)] == [21, 42]
    look(one, 21)
    assert not one.is_due(21)
    assert one.is_due(42)


def test_without_being_asked_for_it_is_never_due():
    one = validator(FakeJudge(), validate_every=0)
    assert not any(one.is_due(step) for step in range(50))


def test_the_smallest_metric_is_the_best_and_later_ones_say_which_that_was():
    one = validator(FakeJudge(0.3, 0.2, 0.25))
    found = [look(one, step) for step in (11, 21, 32)]
    assert [each.best for each in found] == [True, True, False]
    assert (one.best.step, one.best.epoch, one.validated_step) == (21, 1, 32)
    assert [each.epoch for each in found] == [0, 1, 2]
    told = one.describe(found[2])
    assert told.startswith("epoch 3: metric 0.25 (best 0.2 after epoch 2), hits 0.5;")


def test_it_goes_on_from_what_the_checkpoint_knows():
    best = Best(step=11, epoch=0, numbers={"metric": 0.2, "hits": 0.4})
    one = validator(FakeJudge(0.25), saved=SimpleNamespace(best=best, validated_step=21))
    assert not one.is_due(21)
    assert not look(one, 32).best
    assert one.best == best


def test_the_number_that_was_asked_for_ranks_and_older_ones_by_it_too():
    best = Best(step=11, epoch=0, numbers={"metric": 0.1, "hits": 0.4})
    saved = SimpleNamespace(best=best, validated_step=11)
    one = validator(FakeJudge(0.9), saved=saved, until="hits>0.8")
    found = look(one, 21)
    assert found.best
    assert (found.by, found.until, found.reached) == ("hits", "hits>0.8", False)


def test_what_was_asked_for_asks_all_to_stop_when_it_holds():
    flag = StopFlag()
    one = validator(FakeJudge(0.3, 0.1), flag=flag, until="metric<0.15")
    assert not look(one, 11).reached
    assert (flag.reason, one.reached) == (None, False)
    assert look(one, 21).reached
    assert (flag.reason, one.reached) == ("reached", True)
    assert one.ending() == "metric<0.15 holds: the best is 0.1 after epoch 2 (step 21)"


def test_what_was_not_reached_says_how_far_it_came():
    one = validator(FakeJudge(0.3), until="metric<0.15")
    assert one.ending() == "metric<0.15 was not reached: no epoch was validated"
    look(one, 11)
    assert one.ending() == "metric<0.15 was not reached: the best is 0.3 after epoch 1 (step 11)"
    assert validator(FakeJudge()).ending() == ""


@pytest.mark.parametrize(("reason", "looks"), [("terminated", False), ("max_seconds", True)])
def test_who_loses_the_machine_looks_later_and_whose_time_is_over_looks_now(reason, looks):
    flag = StopFlag()
    one = validator(judge := FakeJudge(0.3), flag=flag)
    judge.meanwhile = lambda: flag.ask(reason)
    assert (look(one, 11) is not None) == looks
    assert one.is_due(11) != looks
    assert (one.best is not None) == looks


def test_a_generator_that_cannot_be_measured_is_told_and_never_the_best():
    one = validator(FakeJudge(DataError("a cell of nan GeV")), progress=(told := Told()))
    found = look(one, 11)
    assert math.isnan(found.numbers["metric"])
    assert (found.best, one.best, one.is_due(11)) == (False, None, False)
    assert told.lines == ["this generator cannot be measured: a cell of nan GeV"]


def test_workers_other_than_the_chief_look_at_nothing_and_know_when_it_is_due():
    one = validator(None)
    assert one.is_due(11)
    assert look(one, 11) is None
    assert one.ending() == ""
