"""Replica invariance in float32, on two logical devices of this process."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.gan.footprint import learned
from cloudgan.schema.losses import PASSES, loss_columns
from cloudgan.schema.presets import find_preset
from cloudgan.training.gan import LearningRates, build_gan
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep
from cloudgan.training.tensorflow_engine import compile_steps, no_votes

pytestmark = [pytest.mark.tf, pytest.mark.slow]
SMOKE = find_preset("smoke")
BATCH = 8


def showers():
    rng = np.random.default_rng(3)
    cells = rng.gamma(0.1, 1.0, (BATCH, *SMOKE.image_shape)) * (
        rng.random((BATCH, *SMOKE.image_shape)) < 0.2
    )
    return {
        "image": cells[..., None] ** SMOKE.image_power,
        "energy": rng.uniform(0.1, 1, (BATCH, 1)),
        "angle": rng.uniform(1, 2, (BATCH, 1)),
        "ecal": cells.sum((1, 2, 3))[:, None],
    }


def linear():
    """Steps by what is a large number's part of the gradient: Adam with such an epsilon.

    Others divide by the gradient's own size, and blow its rounding up where it is small.
    """
    return keras.optimizers.Adam(1.0, beta_1=0.0, beta_2=0.0, epsilon=1e4)


def update(strategy, *, conv_impl="published", synchronized=True, preset=SMOKE):
    """What one linear step does to all weights, as one vector, and the sizes of its collectives."""
    rng, size, data = Rng(1), BATCH // strategy.num_replicas_in_sync, showers()
    with strategy.scope():
        gan = build_gan(
            preset,
            rng,
            seed=1,
            precision="float32",
            synchronized=synchronized,
            learning_rates=LearningRates(1e-3, 1e-3),
            conv_impl=conv_impl,
        )
        gan = replace(gan, generator_optimizer=linear(), discriminator_optimizer=linear())
        gan.generator_optimizer.build(gan.generator.trainable_variables)
        gan.discriminator_optimizer.build(gan.discriminator.trainable_variables)
    step = GanStep(gan, preset, rng, global_batch_size=BATCH, layer_target=np.full(25, 8e-4))

    def share(context):
        first = context.replica_id_in_sync_group * size
        part = {
            name: tf.constant(value[first : first + size], tf.float32)
            for name, value in data.items()
        }
        places = {"step": tf.constant([2], tf.int64), "first_row": tf.constant([first], tf.int64)}
        return part | places

    weights = [*gan.generator.weights, *gan.discriminator.weights]
    before = np.concatenate([weight.numpy().ravel() for weight in weights])
    batch = strategy.experimental_distribute_values_from_function(share)
    run = tf.function(lambda one: strategy.run(step, args=(one,)), autograph=False)
    graph = run.get_concrete_function(batch).graph
    run(batch)
    after = np.concatenate([weight.numpy().ravel() for weight in weights])
    reductions = [one for one in graph.get_operations() if one.type == "CollectiveReduceV2"]
    return after - before, [one.inputs[0].shape.num_elements() for one in reductions]


@pytest.fixture(scope="module")
def one_and_two(two_replicas):
    """The update on one replica, and that on two with its collectives."""
    return update(tf.distribute.OneDeviceStrategy("CPU:0"))[0], *update(two_replicas)


def test_one_step_of_a_linear_optimiser_in_float32_agrees_to_1e_3_on_1_and_2_replicas(one_and_two):
    one, two, _ = one_and_two
    assert np.linalg.norm(one) > 0
    assert np.linalg.norm(one - two) <= 1e-3 * np.linalg.norm(one)


def test_the_gradients_of_one_network_go_in_one_collective_the_last_with_the_statistics(
    one_and_two,
):
    _, _, collectives = one_and_two
    generator, discriminator = learned(SMOKE)
    replicas, statistics = 2, 24  # without the output's calibration, a constant
    assert collectives.count(generator) == replicas * (SMOKE.generator_updates - 1)
    assert collectives.count(generator + statistics) == replicas
    assert collectives.count(discriminator) == replicas * 2


def test_the_mean_of_the_layers_needs_a_collective_forward_and_none_backward(one_and_two):
    _, _, collectives = one_and_two
    assert collectives.count(SMOKE.image_shape[2]) == 2 * SMOKE.generator_updates


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
    images = np.random.default_rng(1).random((3, BATCH, 2), np.float32)
    batches = tf.data.Dataset.from_tensor_slices({"image": images})
    with strategy.scope():
        run = compile_steps(strategy, CountedStep())
        given = iter(strategy.experimental_distribute_dataset(batches.unbatch().batch(BATCH)))
        arguments = given, tf.constant(3), no_votes()
        graph = run.get_concrete_function(*arguments).graph
        return run(*arguments)[0].numpy(), graph


def test_the_generated_code_runs_on_two_replicas_as_the_layers_do(two_replicas):
    pytest.importorskip("llvmlite")
    once = SMOKE.model_copy(update={"generator_updates": 1})
    (layers, _), (generated, _) = (
        update(two_replicas, conv_impl=form, synchronized=False, preset=once)
        for form in ("published", "fft")
    )
    assert np.linalg.norm(layers - generated) <= 1e-3 * np.linalg.norm(layers)
