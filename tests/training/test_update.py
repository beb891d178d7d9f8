"""First weights, learning rates, and one update: that of Keras' own optimisers, and the same on all replicas."""

from __future__ import annotations

import math
import random
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.schema.config import parse_config
from cloudgan.schema.presets import find_preset
from cloudgan.training.gan import (
    LossScale,
    WarmUp,
    build_gan,
    make_lr_schedules,
    scaled_learning_rate,
)
from cloudgan.training.rng import Rng
from cloudgan.training.step import descend
from cloudgan.training.tensorflow_backend import apply_gradients

pytestmark = pytest.mark.tf
SHAPES = ((3, 4), (5,), ())
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(1e-2, beta_1=0.5, beta_2=0.99),
    "rmsprop": lambda: keras.optimizers.RMSprop(1e-2),
    "warming up": lambda: keras.optimizers.RMSprop(WarmUp(1e-3, 1e-2, 3)),
}


def after(optimizer, apply, dtype, updates=4):
    """All weights and all state of the optimiser after some updates."""
    rng = np.random.default_rng(0)
    weights = [keras.Variable(rng.normal(size=shape), dtype=dtype) for shape in SHAPES]
    optimizer.build(weights)
    for _ in range(updates):
        apply(optimizer, weights, [tf.constant(rng.normal(size=shape), dtype) for shape in SHAPES])
    return [variable.numpy() for variable in (*weights, *optimizer.variables)]


# Keras rounds Adam's betas to float32 before it takes them to a power, in float64 too.
@pytest.mark.parametrize(
    ("name", "dtype", "digits"),
    [
        *[(name, "float32", 2e-6) for name in OPTIMIZERS],
        ("adam", "float64", 1e-6),
        ("rmsprop", "float64", 1e-12),
    ],
)
def test_an_update_is_that_of_keras(name, dtype, digits):
    def theirs(optimizer, weights, gradients):
        optimizer.apply(gradients, weights)

    make = OPTIMIZERS[name]
    wanted, found = after(make(), theirs, dtype), after(make(), apply_gradients, dtype)
    assert len(wanted) > 2 * len(SHAPES)
    for ours, keras_own in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, keras_own, rtol=digits, atol=digits)


def measuring():
    """A network of one weight that also takes the mean of its input."""
    x = keras.Input((1,))
    norm = keras.layers.BatchNormalization(momentum=0.0, center=False, scale=False)
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    return keras.Model(x, [dense(x), norm(x)]), norm


# With so large an epsilon an update of Adam is the gradient over it.
def linear():
    return keras.optimizers.Adam(1.0, beta_1=0.0, beta_2=0.0, epsilon=1e6)


def test_replicas_update_by_the_sum_of_gradients_and_average_in_the_same_collective(two_replicas):
    with two_replicas.scope():
        (network, norm), optimizer = measuring(), linear()
        optimizer.build(network.trainable_variables)
    averaged = [norm.moving_mean, norm.moving_variance]

    def one():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        given = tf.fill((4, 1), tf.cast(replica + 1, tf.float32))
        descend(
            [network],
            optimizer,
            lambda: (None, tf.reduce_sum(network(given, training=True)[0])),
            averaged,
        )

    step = tf.function(lambda: two_replicas.run(one), autograph=False)
    graph = step.get_concrete_function().graph
    reductions = [each for each in graph.get_operations() if each.type == "CollectiveReduceV2"]
    assert [each.inputs[0].shape.num_elements() for each in reductions] == [1 + 2] * 2
    step()
    local = two_replicas.experimental_local_results
    (weight,) = network.trainable_variables
    for variable, wanted in (
        (weight, 1 - 1e-6 * (4 * 1 + 4 * 2)),
        (norm.moving_mean, 1.5),
        (norm.moving_variance, 0.0),
        (optimizer.iterations, 1),
    ):
        for copy in local(variable.value):
            assert copy.numpy().item() == pytest.approx(wanted, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_a_gradient_that_one_replica_cannot_represent_moves_no_weight_and_halves_the_scale(
    two_replicas, wrong
):
    with two_replicas.scope():
        (network, _), optimizer = measuring(), LossScale(linear(), first=8.0)
        optimizer.build(network.trainable_variables)

    def one():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        given = tf.where(tf.equal(replica, -1 if wrong is None else wrong), float("inf"), 2.0)
        given = tf.reshape(given, (1, 1))
        descend([network], optimizer, lambda: (None, tf.reduce_sum(network(given)[0])))

    tf.function(lambda: two_replicas.run(one), autograph=False)()
    (weight,) = network.trainable_variables
    for copy in two_replicas.experimental_local_results(weight.value):
        moved = 0 if wrong is not None else 1e-6 * (2 + 2)
        assert copy.numpy().item() == pytest.approx(1 - moved, rel=1e-7)
    assert float(optimizer.scale) == (8.0 if wrong is None else 4.0)


def test_the_scale_doubles_after_good_updates_and_a_checkpoint_holds_it():
    network, _ = measuring()
    optimizer = LossScale(keras.optimizers.RMSprop(0.5), first=8.0, growth_steps=2)
    optimizer.build(network.trainable_variables)
    scales, moved = [], []
    for given in (1.0, float("nan"), 2.0, 2.0, 1.0):
        before = network.trainable_variables[0].numpy()
        x = tf.fill((1, 1), given)
        descend([network], optimizer, lambda x=x: (None, tf.reduce_sum(network(x)[0])))
        scales.append(float(optimizer.scale))
        moved.append(bool(network.trainable_variables[0].numpy() != before))
    assert scales == [8.0, 4.0, 4.0, 8.0, 8.0]
    assert moved == [True, False, True, True, True]
    names = [variable.name for variable in optimizer.variables]
    assert names[-2:] == ["loss_scale", "good_updates"]


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
