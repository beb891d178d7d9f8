"""Validation of the generator: its metrics, which epochs, the best one, and when a run ends by it."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from cloudgan.core.errors import CloudganError, DataError
from cloudgan.core.progress import Silent
from cloudgan.data.epoch_sampler import EpochSampler
from cloudgan.data.showers import join_showers, measured_angle
from cloudgan.gan.networks import build_generator
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.schema.presets import find_preset
from cloudgan.schema.stop_criterion import METRICS, BestCheckpoint
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.simulation.gflash import simulate
from cloudgan.training import quality as judging
from cloudgan.training.inference import Conditions, ShowerGenerator
from cloudgan.training.quality import HeldOutMetrics, QualityEvaluator, QualityHistory
from cloudgan.training.shared_work import ALONE, SharedWork
from cloudgan.training.stopping import StopFlag
from cloudgan.validation.assess import quick_metrics
from cloudgan.validation.observables import PER_SHOWER, observe

pytestmark = pytest.mark.tf


PRESET = find_preset("smoke")


class HeldBack:
    """The part of a training set that a QualityEvaluator reads."""

    def __init__(self, showers):
        self.showers, self.held_out_count = showers, len(showers)
        self.read = []

    def held_out(self, rows):
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
            self.given[own] = words
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
        except CloudganError as error:
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
    monkeypatch.setattr(judging, "MOST_TO_JUDGE", 20)
    one, other = (held_out(showers, [], seed=seed) for seed in (1, 2))
    for each in (one, one, other):
        numbers(each, weights)
    (rows,), (others,) = (each.reference._showers.read for each in (one, other))
    assert len(rows) == len(set(rows)) == len(one) == 20
    assert max(rows) >= 40, "not only the first of the file"
    assert set(rows) != set(others)


def test_a_validation_shows_that_it_goes_on_after_the_last_step(
    showers, weights, tmp_path, monkeypatch
):
    monkeypatch.setenv("CLOUDGAN_LIVENESS", str(tmp_path / "liveness.json"))
    liveness = LivenessFile(tmp_path / "liveness.json")
    liveness.update(7, 2)
    numbers(held_out(showers, []), weights)
    assert (liveness.read().step, liveness.read().blocks) == (7, 1)  # once a second at most


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


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((None, None), None),
        ((40, 40), None),
        ((40, 30), "worker 0: step 40, worker 1: step 30"),
        ((0, None), "worker 0: step 0, worker 1: none"),
    ],
)
def test_processes_that_found_different_checkpoints_are_to_be_started_again(steps, said):
    found = together(2, lambda work: work.agree_on_checkpoint(steps[work.own]))
    assert [error and error.exit_code for error in found] == [75 if said else None] * 2
    assert not said or all(said in str(error) for error in found)


def test_the_numbers_that_can_be_asked_for_are_those_that_are_measured():
    many = join_showers(simulate(200, seed=4, cells=(9, 9), block=50))
    first, second = (observe(many[slice(part, None, 2)]) for part in (0, 1))
    assert tuple(quick_metrics(first, second)) == METRICS


class FakeMetrics:
    """Returns its results in turn."""

    def __init__(self, *answers):
        self.answers, self.meanwhile = list(answers), lambda: None
        self.work, self.reference = ALONE, SimpleNamespace(measured=())

    def __len__(self):
        return 200

    def compute(self, weights, progress, *, cancelled):
        del progress
        self.meanwhile()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:  # the chief has the numbers
            return {}
        return None if cancelled() else {"metric": answer, "hits": weights[0]}


class RecordedProgress(Silent):
    """Keeps the printed lines."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def evaluator(held_out, *, flag=None, progress=None, **training):
    config = TrainingConfig(**{"validate_every": 1, "epochs": 9} | training)
    return QualityEvaluator(
        config,
        EpochSampler((10, 11), 1, 2),  # the last batch is carried: 11, 10, 11 ... steps an epoch
        held_out,
        QualityHistory(config, None),
        flag=flag or StopFlag(),
        progress=progress or Silent(),
        start_time=0.0,
    )


def evaluate(one, step):
    return one.evaluate(step, lambda: [0.5])


@pytest.mark.parametrize(("every", "due"), [(2, [21, 42]), (0, [])])
def test_it_is_due_at_the_end_of_each_nth_epoch(every, due):
    one = evaluator(FakeMetrics(0.3), validate_every=every)
    assert [step for step in range(1, 50) if one.is_due(step)] == due
    for step in due[:1]:
        evaluate(one, step)
        assert not one.is_due(step), "once"


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
    one = evaluator(FakeMetrics(None), until="metric<0.5")
    assert one.is_due(11)
    assert evaluate(one, 11) is None
    assert not one.is_due(11)
    assert one.history.best is None


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
