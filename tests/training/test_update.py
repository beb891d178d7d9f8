"""One update of a network beside that of Keras' own optimisers."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.training.gan import WarmUp
from cloudgan.training.update import sum_over_replicas, update

pytestmark = pytest.mark.tf
SHAPES = ((3, 4), (5,), ())


def optimizers():
    return {
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
        gradients = [tf.constant(rng.normal(size=shape), dtype) for shape in SHAPES]
        apply(optimizer, weights, gradients)
    return [variable.numpy() for variable in (*weights, *optimizer.variables)]


# Keras rounds Adam's betas to float32 before it takes them to a power, in float64 too.
@pytest.mark.parametrize(
    ("name", "dtype", "digits"),
    [
        *[(name, "float32", 2e-6) for name in optimizers()],
        ("adam", "float64", 1e-6),
        ("rmsprop", "float64", 1e-12),
    ],
)
def test_an_update_is_that_of_keras(name, dtype, digits):
    def theirs(optimizer, weights, gradients):
        optimizer.apply(gradients, weights)

    make = optimizers()[name]
    wanted, found = after(make(), theirs, dtype), after(make(), update, dtype)
    assert len(wanted) > 2 * len(SHAPES)
    for ours, keras_own in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, keras_own, rtol=digits, atol=digits)


def test_all_gradients_of_a_network_go_in_one_collective(two_replicas):
    def share(context):
        mine = float(context.replica_id_in_sync_group + 1)
        return tuple(tf.fill(shape, mine) for shape in SHAPES)

    values = two_replicas.experimental_distribute_values_from_function(share)

    @tf.function(autograph=False)
    def total(values):
        return two_replicas.run(lambda *one: sum_over_replicas(one), args=values)

    graph = total.get_concrete_function(values).graph
    collectives = [op for op in graph.get_operations() if "Collective" in op.type]
    assert len(collectives) == 2  # one for each replica
    for shape, one in zip(SHAPES, total(values), strict=True):
        for replica in two_replicas.experimental_local_results(one):
            np.testing.assert_array_equal(replica, np.full(shape, 3.0))


def test_every_replica_updates_its_own_copy_by_the_sum_of_all(two_replicas):
    with two_replicas.scope():
        weight = keras.Variable(np.zeros(3), dtype="float32")
        optimizer = keras.optimizers.Adam(1.0, beta_1=0.0, beta_2=0.0, epsilon=1e6)
        optimizer.build([weight])

    @tf.function(autograph=False)
    def step():
        def one():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            update(optimizer, [weight], [tf.fill((3,), tf.cast(replica + 1, tf.float32))])

        two_replicas.run(one)

    step()
    # With so large an epsilon the update is the gradient over it: 1 + 2.
    for copy in two_replicas.experimental_local_results(weight.value):
        np.testing.assert_allclose(copy.numpy(), -3e-6, rtol=1e-5)
    for count in two_replicas.experimental_local_results(optimizer.iterations.value):
        assert int(count) == 1


def test_averaged_variables_get_their_mean_in_the_collective_of_the_gradients(two_replicas):
    with two_replicas.scope():
        weight = keras.Variable(np.zeros(3), dtype="float32")
        norm = keras.layers.BatchNormalization()
        norm.build((None, 4))
        optimizer = keras.optimizers.Adam(1.0)
        optimizer.build([weight])

    @tf.function(autograph=False)
    def step():
        def one():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            norm.moving_mean.assign(tf.fill((4,), tf.cast(4 * replica, tf.float32)))
            update(optimizer, [weight], [tf.ones(3)], [norm.moving_mean])

        two_replicas.run(one)

    graph = step.get_concrete_function().graph
    reductions = [one for one in graph.get_operations() if one.type == "CollectiveReduceV2"]
    assert [one.inputs[0].shape.num_elements() for one in reductions] == [3 + 4] * 2
    step()
    for copy in two_replicas.experimental_local_results(norm.moving_mean.value):
        np.testing.assert_array_equal(copy.numpy(), np.full(4, 2.0))
