"""Update rules against values worked by hand, and against Keras's formulas."""

import numpy as np
import pytest

from cloudgan.parallel.update_rules import Easgd, Gem, make_rule
from cloudgan.schema.parallel import ParallelConfig


def floats(*values):
    return np.array(values, np.float32)


def downpour(*, workers=2, trainable=2, rate=1.0, worker_rate=1.0, **options):
    parallel = ParallelConfig(mode="downpour", master_learning_rate=rate, **options)
    return make_rule(parallel, workers=workers, trainable=trainable, learning_rate=worker_rate)


def test_easgd_moves_worker_and_centre_towards_each_other():
    rule, own, centre = Easgd(workers=1, trainable=2, force=0.25), floats(1, 2), floats(3, 0)
    sent = rule.to_send(own, floats(0, 0)).copy()
    answer = centre.copy()
    assert rule.answers_first
    rule.at_master(centre, sent, staleness=7)
    rule.at_worker(own, answer)
    np.testing.assert_array_equal(centre, [3 + 0.25 * (1 - 3), 0 + 0.25 * 2])
    np.testing.assert_array_equal(own, [1 + 0.25 * (3 - 1), 2 + 0.25 * (0 - 2)])


def test_easgd_without_force_changes_no_bit():
    rule, own, centre = (
        Easgd(workers=1, trainable=2, force=0.0),
        floats(1.1, -2e-30),
        floats(3.3, 0),
    )
    rule.at_master(centre, rule.to_send(own, own), staleness=0)
    rule.at_worker(own, centre)
    np.testing.assert_array_equal(own, floats(1.1, -2e-30))
    np.testing.assert_array_equal(centre, floats(3.3, 0))


@pytest.mark.parametrize(
    ("damping", "staleness", "factor"),
    [("none", 4, 1), ("mean", 4, 0.5), ("staleness", 4, 0.25), ("staleness", 0, 1)],
)
def test_downpour_adds_the_damped_change_of_a_worker(damping, staleness, factor):
    rule, centre = downpour(damping=damping), floats(10, 20, 4)
    sent = rule.to_send(floats(2, 5, 8), fetched=floats(1, 9, 4))
    np.testing.assert_array_equal(sent, [-1, 4, 8])
    rule.at_master(centre, sent, staleness)
    np.testing.assert_array_equal(centre, [10 + factor, 20 - 4 * factor, 4 + (8 - 4) / 2])
    own = floats(0, 0, 0)
    rule.at_worker(own, centre)
    np.testing.assert_array_equal(own, centre)


def test_downpour_of_one_worker_takes_over_its_weights():
    rule, centre = downpour(workers=1), floats(1, 9, 4)
    rule.at_master(centre, rule.to_send(floats(2, 5, 8), centre.copy()), staleness=0)
    np.testing.assert_array_equal(centre, [2, 5, 8])


def test_downpour_with_gradients_sends_their_sum_from_plain_sgd_of_a_worker():
    rule = downpour(sends="gradients", worker_rate=0.5, rate=0.1)
    fetched = floats(1, 2)
    own = fetched - np.float32(0.5) * floats(3, -1) - np.float32(0.5) * floats(1, 1)
    sent = rule.to_send(own, fetched)
    np.testing.assert_array_equal(sent, [4, 0])
    centre = floats(1, 2)
    rule.at_master(centre, sent, staleness=2)
    np.testing.assert_allclose(centre, [1 - 0.1 * 4 / 2, 2], rtol=1e-7)


def test_synchronous_downpour_applies_the_mean_of_one_update_per_worker():
    rule, centre = downpour(workers=3, synchronous=True), floats(0, 0, 1)
    for number, sent in enumerate([floats(3, 0, 2), floats(6, 3, 2), floats(0, 0, 5)]):
        assert rule.pending == number
        np.testing.assert_array_equal(centre, [0, 0, 1])
        rule.at_master(centre, sent, staleness=number)
    assert rule.pending == 0
    np.testing.assert_array_equal(centre, [-3, -1, 3])


def test_synchronous_downpour_does_not_wait_for_a_worker_that_ended():
    rule, centre = downpour(workers=2, synchronous=True), floats(0, 0)
    rule.at_master(centre, floats(4, 2), staleness=0)
    rule.worker_ended(centre)
    assert rule.pending == 0
    np.testing.assert_array_equal(centre, [-4, -2])
    rule.at_master(centre, floats(4, 2), staleness=0)
    np.testing.assert_array_equal(centre, [-8, -4])


def test_synchronous_downpour_continues_a_round_from_a_checkpoint():
    first, centre = downpour(workers=2, synchronous=True), floats(0, 0)
    first.at_master(centre, floats(4, 2), staleness=0)
    second = downpour(workers=2, synchronous=True)
    second.restore({name: value.copy() for name, value in first.state().items()})
    second.at_master(centre, floats(2, 2), staleness=0)
    np.testing.assert_array_equal(centre, [-3, -2])


def test_gem_scales_each_change_to_the_energy_of_training_with_momentum():
    rule = Gem(workers=2, trainable=3, momentum=0.5, kappa=2)
    assert rule.fetches_first
    rule.begin(floats(0, 0, 0, 1))
    own = floats(1, -2, 0, 9)
    # The centre has not moved: kappa |m| / |u| = 2, and 0 where there is no change.
    sent = rule.to_send(own, fetched=floats(0, 0, 0, 1))
    np.testing.assert_allclose(sent, [2, -4, 0, 9], rtol=1e-6)
    rule.at_worker(own, floats(0, 0, 0, 1))
    np.testing.assert_allclose(own, [2, -4, 0, 1 + (9 - 1) / 2], rtol=1e-6)
    # From (2, -4, 0) the worker moves by (1, 1, 1): m = .5 (1, -2, 0) + (1, 1, 1) = (1.5, 0, 1); the
    # centre moved by (1, 3, 0): (3 - 1) / 1 = 2; (0 - 3) / 1 -> 0; 2 / 1 = 2.
    own += floats(1, 1, 1, 4)
    sent = rule.to_send(own, fetched=floats(1, 3, 0, 1))
    np.testing.assert_allclose(sent, [2, 0, 2, 9], rtol=1e-6)
    rule.at_worker(own, floats(1, 3, 0, 1))
    np.testing.assert_allclose(own, [3, 3, 2, 5], rtol=1e-6)
    # m = .5 m + (.125, 0, 0) = (.875, 0, .5), the centre stands: 1.75 / .125 -> 5.
    own += floats(0.125, 0, 0, 0)
    sent = rule.to_send(own, fetched=floats(1, 3, 0, 1))
    np.testing.assert_allclose(sent, [0.625, 0, 0, 5], rtol=1e-5)
    centre = floats(1, 1, 1, 1)
    rule.at_master(centre, floats(1, 2, 3, 9), staleness=3)
    np.testing.assert_array_equal(centre, [2, 3, 4, 5])


def test_gem_continues_from_a_checkpoint():
    first, second = Gem(workers=2, trainable=2), Gem(workers=2, trainable=2)
    assert first.state() == {}
    own = floats(1, 2)
    first.begin(floats(0, 0))
    first.to_send(own, floats(0, 0.5))
    first.at_worker(own, floats(0, 0.5))
    second.restore({name: value.copy() for name, value in first.state().items()})
    own += floats(0.5, 0.25)
    again = first.to_send(own, floats(1, 1)).copy()
    np.testing.assert_array_equal(second.to_send(own, floats(1, 1)), again)


def by_hand(name, rate, factors):
    """Two updates of one weight from 1.0 with gradients 2 and -1, in Python's floats."""
    w, v, m, s = 1.0, 0.0, 0.0, 0.0
    for t, (g, factor) in enumerate(zip((2.0, -1.0), factors, strict=True), 1):
        if name == "sgd":
            step = g
        elif name == "rmsprop":
            v = 0.9 * v + 0.1 * g * g
            step = g / (v + 1e-7) ** 0.5
        elif name == "adam":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            step = (m / (1 - 0.9**t)) / (v / (1 - 0.999**t)) ** 0.5
        else:
            v = 0.95 * v + 0.05 * g * g
            step = g * ((s + 1e-7) / (v + 1e-7)) ** 0.5
            s = 0.95 * s + 0.05 * step * step
        w -= rate * factor * step
    return w


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adam", "adadelta"])
def test_an_optimizer_of_the_master_follows_its_formula_from_a_checkpoint_too(name):
    weights, options = floats(1), {"workers": 1, "trainable": 1, "rate": 0.25}
    first = downpour(master_optimizer=name, **options)
    first.at_master(weights, floats(2), staleness=1)
    second = downpour(master_optimizer=name, **options)
    second.restore({key: value.copy() for key, value in first.state().items()})
    second.at_master(weights, floats(-1), staleness=2)
    assert weights[0] == pytest.approx(by_hand(name, 0.25, (1.0, 0.5)), rel=2e-5)
