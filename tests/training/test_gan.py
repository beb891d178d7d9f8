"""Networks, optimisers and learning rates."""

from __future__ import annotations

import math
import random
import threading

import numpy as np
import pytest

from cloudgan.schema.config import parse_config
from cloudgan.schema.presets import find_preset
from cloudgan.training.gan import build_gan, make_lr_schedules, scaled_learning_rate
from cloudgan.training.rng import Rng

pytestmark = pytest.mark.tf


SMOKE = find_preset("smoke")


def weights(seed=1):
    variables = build_gan(SMOKE, Rng(seed)).variables().values()
    return np.concatenate([weight.numpy().ravel() for weight in variables])


@pytest.fixture
def thread_that_draws():
    """A server's thread, say, that takes numbers from Python's `random` all the time."""
    stop = threading.Event()

    def draw():
        while not stop.wait(1e-4):
            random.random()

    thread = threading.Thread(target=draw)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.usefixtures("thread_that_draws")
def test_the_first_weights_depend_on_the_seed_alone_and_not_on_other_random_draws():
    first = weights()
    np.testing.assert_array_equal(first, weights())
    assert not np.array_equal(first, weights(seed=2))


def test_an_averaged_generator_begins_as_the_generator_does():
    gan = build_gan(SMOKE.model_copy(update={"ema_decay": 0.9}), Rng(1))
    for ema_generator, weight in zip(gan.ema_generator.weights, gan.generator.weights, strict=True):
        np.testing.assert_array_equal(ema_generator, weight)


def config(**training):
    return parse_config({"training": {"reference_batch_size": 64} | training}, "x")


@pytest.mark.parametrize(
    ("scale", "factor"), [("none", 1.0), ("linear", 4.0), ("sqrt", math.sqrt(4.0))]
)
def test_the_rate_grows_with_the_global_batch_as_asked(scale, factor):
    assert scaled_learning_rate(config(scale_lr=scale), 256) == pytest.approx(1e-3 * factor)


def test_warm_up_rises_from_the_base_rate_to_the_scaled_one_over_each_networks_own_updates():
    rates = make_lr_schedules(config(scale_lr="linear", warmup_epochs=2), 256, steps_per_epoch=10)
    for rate, updates_per_step in zip(rates, (2, 2), strict=True):  # generator, discriminator
        end = 2 * 10 * updates_per_step
        assert float(rate(0)) == pytest.approx(1e-3)
        assert float(rate(end / 2)) == pytest.approx(2.5e-3)
        assert float(rate(end)) == pytest.approx(4e-3)
        assert float(rate(10 * end)) == pytest.approx(4e-3)


def test_a_rate_that_does_not_rise_needs_no_warm_up():
    rates = make_lr_schedules(config(scale_lr="linear"), 32, steps_per_epoch=10)
    assert rates == pytest.approx((5e-4, 5e-4))
