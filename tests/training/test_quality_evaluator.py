"""Validation of the generator: which epochs, and their metrics."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.core.progress import Silent
from cloudgan.data.pipeline.epoch_sampler import EpochSampler
from cloudgan.data.showers import join_showers, measured_angle
from cloudgan.models.networks import build_generator
from cloudgan.schema.presets import find_preset
from cloudgan.schema.stop_criterion import METRICS
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.simulation.gflash import simulate
from cloudgan.training import quality_evaluator as judging
from cloudgan.training.conditions import Conditions
from cloudgan.training.inference import ShowerGenerator
from cloudgan.training.quality_evaluator import HeldOutMetrics, QualityEvaluator
from cloudgan.training.quality_history import QualityHistory
from cloudgan.training.shared_work import SharedWork
from cloudgan.training.stopping import StopFlag
from cloudgan.validation.acceptance.assess import quick_metrics
from cloudgan.validation.observables.observables import PER_SHOWER, observe

pytestmark = pytest.mark.tf


PRESET = find_preset("smoke")


class HeldBack:
    """The part of a training set that a QualityEvaluator reads."""

    def __init__(self, showers):
        self.showers, self.held_out_count = showers, len(showers)
        self.read = []

    def held_out_rows(self, rows):
        self.read.append(rows)
        return self.showers[rows]


@pytest.fixture(scope="module")
def showers():
    return join_showers(simulate(60, seed=3, cells=(11, 11), block=50))


@pytest.fixture(scope="module")
def weights():
    return build_generator(PRESET).get_weights()


def held_out(showers, seen, *, seed=1, **options):
    def measure(generated, reference):
        seen.append((generated, reference))
        return {"metric": generated.sum_gev.mean() / reference.sum_gev.mean()}

    return HeldOutMetrics(PRESET, HeldBack(showers), seed=seed, measure=measure, **options)


class Exchange:
    """Adds what the processes give, each in a thread of its own."""

    def __init__(self, processes):
        self.given, self.barrier = [None] * processes, threading.Barrier(processes, timeout=300)

    def share(self, own):
        def add(words):
            self.given[own] = words.numpy()
            self.barrier.wait()
            total = sum(self.given)
            self.barrier.wait()
            return total

        return SharedWork(len(self.given), own, add)


def together(processes, work):
    """Calls `work` with each process' share; returns their results or errors."""
    exchange = Exchange(processes)

    def one(own):
        try:
            return work(exchange.share(own))
        except DataError as error:
            return error

    with ThreadPoolExecutor(processes) as pool:
        return list(pool.map(one, range(processes)))


def numbers(one, weights):
    return one.compute(weights, Silent(), cancelled=lambda: False)


def test_the_same_generator_gets_the_same_numbers_and_another_one_others(showers, weights):
    one = held_out(showers, [])
    first = numbers(one, weights)
    other = numbers(one, [weight * 1.5 for weight in weights])
    assert other != first
    assert numbers(one, weights) == first == numbers(held_out(showers, []), weights)


def test_each_reference_shower_has_a_generated_one_of_its_energy_and_angle(showers, weights):
    one = held_out(showers, seen := [])
    numbers(one, weights)
    ((generated, reference),) = seen
    np.testing.assert_array_equal(generated.energy_gev, reference.energy_gev)
    np.testing.assert_array_equal(generated.requested_rad, reference.requested_rad)
    rows = np.argsort(showers.theta_rad)
    sampler = np.argsort(reference.requested_rad)
    np.testing.assert_array_equal(reference.energy_gev[sampler], showers.energy_gev[rows])
    angles = measured_angle(showers.ecal_gev[rows, 1:-1, 1:-1])
    generator = ShowerGenerator(PRESET)
    generator.set_weights(weights)
    asked = Conditions(reference.energy_gev.astype(np.float32), angles[np.argsort(sampler)])
    same = observe(join_showers(generator.showers(asked, seed=1)))
    np.testing.assert_allclose(generated.profile_z_gev, same.profile_z_gev, rtol=1e-4, atol=1e-9)


def test_what_the_network_cannot_see_is_cut_off(showers, weights):
    numbers(held_out(showers, seen := []), weights)
    whole = showers.ecal_gev[:, 1:-1, 1:-1].sum((1, 2, 3))
    np.testing.assert_allclose(np.sort(seen[0][1].sum_gev), np.sort(whole), rtol=1e-4)


def test_a_few_of_many_are_taken_from_all_over_by_the_seed(showers, weights, monkeypatch):
    monkeypatch.setattr(judging, "SHOWERS", 20)
    one, other = (held_out(showers, [], seed=seed) for seed in (1, 2))
    for each in (one, one, other):
        numbers(each, weights)
    (rows,), (others,) = (each._reference._showers.read for each in (one, other))
    assert len(rows) == len(set(rows)) == len(one) == 20
    assert max(rows) >= 40, "not only the first of the file"
    assert set(rows) != set(others)


def test_a_cancelled_evaluation_ends_after_a_few_showers(showers, weights):
    asked = []
    one = held_out(showers, seen := [])
    assert one.compute(weights, Silent(), cancelled=lambda: asked.append(1) or True) is None
    assert (len(asked), seen) == (1, [])


def test_a_generator_without_numbers_is_no_reference_without_numbers(showers, weights):
    with pytest.raises(DataError, match="generated showers"):
        numbers(held_out(showers, []), [np.full_like(weight, np.nan) for weight in weights])


def test_each_process_measures_its_share_and_the_bits_are_those_of_one(showers, weights):
    """60 showers in blocks of 25: the third process has the short block only, and the fourth nothing."""
    alone, seen = [], []
    expected = numbers(held_out(showers, alone), weights)
    devices = ("CPU:0", "CPU:1")

    def one(work):
        return numbers(held_out(showers, seen, work=work, devices=devices), weights)

    assert together(4, one) == [expected, {}, {}, {}]
    for name in PER_SHOWER:
        ours, theirs = (getattr(found[0][0], name) for found in (seen, alone))
        np.testing.assert_array_equal(ours, theirs)


def test_all_processes_stop_when_one_is_cancelled_or_cannot_measure(showers, weights):
    def cancelled(work):
        one = held_out(showers, [], work=work)
        return one.compute(weights, Silent(), cancelled=lambda: work.own == 1)

    assert together(2, cancelled) == [None, None]
    broken = [np.full_like(weight, np.nan) for weight in weights]
    with pytest.raises(DataError) as alone:
        numbers(held_out(showers, []), broken)
    first, second = together(2, lambda work: numbers(held_out(showers, [], work=work), broken))
    assert (str(first), second) == (str(alone.value), {})


def test_the_numbers_that_can_be_asked_for_are_those_that_are_measured():
    many = join_showers(simulate(200, seed=4, cells=(9, 9), block=50))
    first, second = (observe(many[slice(part, None, 2)]) for part in (0, 1))
    assert tuple(quick_metrics(first, second)) == METRICS


class FakeMetrics:
    """Returns its results in turn."""

    def __init__(self, *answers):
        self.answers, self.meanwhile = list(answers), lambda: None

    def __len__(self):
        return 200

    def prepare(self):
        pass

    def compute(self, weights, progress, *, cancelled):
        del progress
        self.meanwhile()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return None if cancelled() else {"metric": answer, "hits": weights[0]}


class RecordedProgress(Silent):
    """Keeps the printed lines."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def evaluator(held_out, *, flag=None, progress=None, is_chief=True, **training):
    training = {"validate_every": 1, "epochs": 9} | training
    context = SimpleNamespace(
        config=SimpleNamespace(training=TrainingConfig(**training)),
        is_chief=is_chief,
        quality_history=lambda: QualityHistory(TrainingConfig(**training), None),
        sampler=EpochSampler(
            (10, 11), 1, 2
        ),  # the last batch is carried: 11, 10, 11 ... steps an epoch
    )
    return QualityEvaluator(
        context, held_out, flag or StopFlag(), progress or Silent(), start_time=0.0
    )


def evaluate(one, step):
    return one.evaluate(step, lambda: [0.5])


def test_it_is_due_at_the_end_of_each_nth_epoch_and_once():
    one = evaluator(FakeMetrics(0.3), validate_every=2)
    assert [step for step in range(1, 50) if one.is_due(step)] == [21, 42]
    evaluate(one, 21)
    assert not one.is_due(21)
    assert one.is_due(42)


def test_without_being_asked_for_it_is_never_due():
    one = evaluator(FakeMetrics(), validate_every=0)
    assert not any(one.is_due(step) for step in range(50))


@pytest.mark.parametrize(
    ("training", "reason"), [({"until": "metric<0.15"}, "reached"), ({"patience": 1}, "plateau")]
)
def test_all_workers_are_asked_to_stop_when_the_run_should_end(training, reason):
    flag = StopFlag()
    numbers = (0.3, 0.1) if reason == "reached" else (0.3, 0.4)
    one = evaluator(FakeMetrics(*numbers), flag=flag, **training)
    assert not evaluate(one, 11).reached
    assert (flag.reason, one.history.stop) == (None, None)
    found = evaluate(one, 21)
    assert {"reached": found.reached, "plateau": found.plateau}[reason]
    assert (flag.reason, one.history.stop) == (reason, reason)
    assert "the best is" in one.stop_message()


@pytest.mark.parametrize(("reason", "looks"), [("terminated", False), ("max_seconds", True)])
def test_who_loses_the_machine_looks_later_and_whose_time_is_over_looks_now(reason, looks):
    flag = StopFlag()
    one = evaluator(held_out := FakeMetrics(0.3), flag=flag)
    held_out.meanwhile = lambda: flag.request(reason)
    assert (evaluate(one, 11) is not None) == looks
    assert one.is_due(11) != looks
    assert (one.history.best is not None) == looks


def test_a_generator_that_cannot_be_measured_is_reported_and_never_the_best():
    one = evaluator(
        FakeMetrics(DataError("a cell of nan GeV")), progress=(progress := RecordedProgress())
    )
    found = evaluate(one, 11)
    assert math.isnan(found.metrics["metric"])
    assert (found.best, one.history.best, one.is_due(11)) == (False, None, False)
    assert progress.lines == ["validation failed for this generator: a cell of nan GeV"]


def test_workers_other_than_the_chief_have_no_numbers_and_know_when_it_is_due():
    one = evaluator(FakeMetrics(0.3), is_chief=False, until="metric<0.5")
    assert one.is_due(11)
    assert evaluate(one, 11) is None
    assert not one.is_due(11)
    assert (one.history.best, one.stop_message()) == (None, "")
