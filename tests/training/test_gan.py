"""What a run begins with."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from cloudgan.core.presets import PRESETS
from cloudgan.training.draws import Draws
from cloudgan.training.gan import Rates, build_gan

pytestmark = pytest.mark.tf
SMOKE = PRESETS["smoke"]


def weights(seed=1):
    rates = Rates(1e-3, 1e-3)
    gan = build_gan(
        SMOKE, Draws(seed), seed=seed, precision="float32", synchronized=False, rates=rates
    )
    return np.concatenate([weight.numpy().ravel() for weight in gan.variables().values()])


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
def test_the_first_weights_depend_on_the_seed_alone_whatever_else_draws_random_numbers():
    first = weights()
    np.testing.assert_array_equal(first, weights())
    assert not np.array_equal(first, weights(seed=2))


def test_an_averaged_generator_begins_as_the_generator_does():
    gan = build_gan(
        SMOKE.model_copy(update={"generator_average": 0.9}),
        Draws(1),
        seed=1,
        precision="float32",
        synchronized=False,
        rates=Rates(1e-3, 1e-3),
    )
    for average, weight in zip(gan.average.weights, gan.generator.weights, strict=True):
        np.testing.assert_array_equal(average, weight)
