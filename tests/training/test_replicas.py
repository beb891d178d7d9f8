"""Replica invariance in float32, on two logical devices of this process."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.gan.footprint import learned
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.training.tensorflow_engine import compile_steps, no_votes
from training.narrow_gan import SMOKE, build, showers, weights_of

pytestmark = pytest.mark.tf
ROWS = 8


def update(strategy, call, **options):
    """What one linear `call` of a step does to all weights, and the sizes of its collectives."""
    size, data = ROWS // strategy.num_replicas_in_sync, showers(rows=ROWS)
    with strategy.scope():
        gan, step = build(rows=ROWS, linear=1e4, **options)

    def share(context):
        first = context.replica_id_in_sync_group * size
        part = {name: tf.constant(value[first : first + size]) for name, value in data.items()}
        places = {"step": tf.constant([2], tf.int64), "first_row": tf.constant([first], tf.int64)}
        return part | places

    before = np.concatenate([weight.numpy().ravel() for weight in weights_of(gan)])
    given = strategy.experimental_distribute_values_from_function(share)
    run = tf.function(lambda one: strategy.run(call, args=(step, one)), autograph=False)
    graph = run.get_concrete_function(given).graph
    run(given)
    after = np.concatenate([weight.numpy().ravel() for weight in weights_of(gan)])
    reductions = [one for one in graph.get_operations() if one.type == "CollectiveReduceV2"]
    return after - before, [one.inputs[0].shape.num_elements() for one in reductions]


def differ(one, other):
    assert np.linalg.norm(one) > 0
    return np.linalg.norm(one - other) / np.linalg.norm(one)


def test_one_step_of_a_linear_optimiser_agrees_on_1_and_2_replicas_with_few_collectives(
    two_replicas,
):
    def whole(step, given):
        return step(given)

    one, _ = update(tf.distribute.OneDeviceStrategy("CPU:0"), whole, synchronized=True)
    two, collectives = update(two_replicas, whole, synchronized=True)
    assert differ(one, two) <= 1e-3
    # The gradients of one network go in one collective, the last with the statistics.
    generator, discriminator = learned(SMOKE)
    replicas, statistics = 2, 24  # without the output's calibration, a constant
    assert collectives.count(generator) == replicas * (SMOKE.generator_updates - 1)
    assert collectives.count(generator + statistics) == replicas
    assert collectives.count(discriminator) == replicas * 2
    # The mean of the layers needs a collective forward and none backward.
    assert collectives.count(SMOKE.image_shape[2]) == replicas * SMOKE.generator_updates


def test_the_generated_code_runs_on_two_replicas_as_the_layers_do(two_replicas):
    pytest.importorskip("llvmlite")

    def judge(step, given):
        return step.train_discriminator(given, given["image"] * 0.5)

    layers, generated = (
        update(two_replicas, judge, conv_impl=form)[0] for form in ("published", "fft")
    )
    assert differ(layers, generated) <= 1e-3


def test_the_losses_stay_on_each_replica_until_the_last_step_of_a_call(two_replicas):
    losses, graph = losses_of_three_steps(two_replicas)
    (loop,) = (one for one in graph.get_operations() if one.type in ("While", "StatelessWhile"))
    carried = [value.shape.as_list() for value in loop.outputs]
    assert carried.count(list(losses.shape)) == 2
    alone, _ = losses_of_three_steps(tf.distribute.OneDeviceStrategy("CPU:0"))
    np.testing.assert_allclose(losses, alone, rtol=1e-5)


class CountedStep:
    """A step without networks: its losses are the sum of its images."""

    loss_dtype = "float32"

    def __call__(self, batch):
        return tf.fill((len(PASSES), len(loss_columns())), tf.reduce_sum(batch["image"]))


def losses_of_three_steps(strategy):
    """Returns the sums of losses, and the graph of a call."""
    images = np.random.default_rng(1).random((3, ROWS, 2), np.float32)
    batches = tf.data.Dataset.from_tensor_slices({"image": images})
    with strategy.scope():
        run = compile_steps(strategy, CountedStep())
        given = iter(strategy.experimental_distribute_dataset(batches.unbatch().batch(ROWS)))
        arguments = given, tf.constant(3), no_votes()
        graph = run.get_concrete_function(*arguments).graph
        return run(*arguments)[0].numpy(), graph
