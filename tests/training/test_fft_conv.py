"""The generated code inside a network: the same functions, updates and checkpoints as the layers'."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.gan.convolutions import CONV_IMPLS
from cloudgan.schema.presets import find_preset
from training.narrow_gan import ONCE, SMOKE, batch, build, weights_of

pytestmark = pytest.mark.tf
pytest.importorskip("llvmlite")
GIVEN = {"rows": 3, "step": 4, "hits": 1.0}


def after_one_step(conv_impl):
    """First weights, losses and updates of a step, and what a changed discriminator infers."""
    gan, step = build(ONCE, rows=3, linear=1e3, conv_impl=conv_impl)
    before = [weight.numpy() for weight in weights_of(gan)]
    losses = tf.function(step, autograph=False)(batch(**GIVEN)).numpy()
    updates = [w.numpy() - b for w, b in zip(weights_of(gan), before, strict=True)]
    for weight, first in zip(weights_of(gan), before, strict=True):
        moved = 0.5 * weight.name.startswith(("moving", "gamma"))
        weight.assign(first + moved)
    inferred = [each.numpy() for each in gan.discriminator(batch(**GIVEN)["image"])]
    return before, losses, updates, inferred


@pytest.fixture(scope="module")
def published():
    return after_one_step("published")


@pytest.mark.parametrize("conv_impl", CONV_IMPLS[1:])
def test_a_form_begins_with_the_same_numbers_and_a_step_with_dropout_makes_the_same_updates(
    conv_impl, published
):
    before, losses, updates, inferred = after_one_step(conv_impl)
    for a, b in zip(before, published[0], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(losses, published[1], rtol=1e-4)
    for found, expected in zip(updates, published[2], strict=True):
        size = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * size + 1e-7)
    # Without training the moving statistics count, and nothing is dropped.
    for a, b in zip(inferred, published[3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


@pytest.mark.parametrize("preset", ["paper", "mini", "fixed25"])
def test_a_checkpoint_of_one_form_is_one_of_every_other(preset):
    published, *others = (
        {name: tuple(each.shape) for name, each in gan.variables().items()}
        for gan, _ in (build(find_preset(preset), conv_impl=form) for form in CONV_IMPLS)
    )
    assert others == [published] * 2


def test_the_statistics_are_nearer_to_float64_than_the_layers_are():
    """A sum of squares minus a squared mean loses digits, unless both are summed in float64."""
    gan, step = build(conv_impl="fft")
    stage = gan.discriminator.get_layer("conv1")
    channels = stage._sizes.channels
    cells = 100 + np.random.default_rng(0).random((8, *stage._sizes.size, channels))
    first, unchanged = tf.zeros((), tf.int64), [tf.ones((channels,)), tf.zeros((channels,))]
    with step._rng.at(first, first, 0):
        active, *_ = stage([tf.constant(cells, tf.float32), *unchanged], training=True)
    momentum = SMOKE.batch_norm_momentum
    variance = (stage._norm.moving_variance.numpy() - momentum) / (1 - momentum)
    expected = active.numpy().astype(float).var((0, 1, 2, 3))
    np.testing.assert_allclose(variance, expected, rtol=2e-4)
