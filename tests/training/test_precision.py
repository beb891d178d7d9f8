"""Two bytes for the networks' arithmetic, four for everything that is summed or kept."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.gan.networks import build_generator
from cloudgan.schema.losses import loss_columns
from cloudgan.schema.presets import LossWeights
from cloudgan.training.gan import LossScale
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep
from cloudgan.training.tensorflow_backend import resolve_precision
from training.narrow_gan import ROWS, SMOKE, batch, build

pytestmark = pytest.mark.tf
PLAIN = SMOKE.model_copy(update={"generator_updates": 1, "loss_weights": LossWeights()})


@pytest.mark.parametrize(
    ("capabilities", "means"),
    [(((7, 0),), "float16"), (((8, 0),), "bfloat16"), ((None,), "bfloat16")],
)
def test_mixed_means_float16_only_on_gpus_that_have_no_bfloat16(monkeypatch, capabilities, means):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(capabilities))
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda known: {"compute_capability": known} if known else {},
    )
    found = [resolve_precision(asked) for asked in ("mixed", "float32", "bfloat16")]
    assert found == [means, "float32", "bfloat16"]


@pytest.mark.parametrize(
    ("features", "means"),
    [({"avx2"}, "float32"), ({"avx512_bf16"}, "bfloat16"), ({"bf16"}, "bfloat16")],
)
def test_mixed_means_bfloat16_only_on_cpus_that_have_it(monkeypatch, features, means):
    monkeypatch.setattr(
        "cloudgan.training.tensorflow_backend.cpu_features", lambda: frozenset(features)
    )
    assert resolve_precision("mixed") == means
    monkeypatch.setenv("CLOUDGAN_TPU", "local")
    assert resolve_precision("mixed") == "bfloat16"


def built(precision, preset=PLAIN):
    return build(preset, precision=precision, conv_impl="phases")[0]


def stepping(gan, preset=PLAIN):
    step, given = GanStep(gan, preset, Rng(1), global_batch_size=ROWS), batch(preset)
    return tf.function(lambda: step(given), autograph=False)


def kept(gan):
    return {str(variable.dtype) for variable in gan.variables().values()}


def trained(gan):
    return [weight.numpy() for weight in gan.generator.trainable_weights]


def test_networks_learn_in_float16_alone_with_scaled_losses_once_the_scale_fits():
    gan = built("float16")
    assert isinstance(gan.generator_optimizer, LossScale)
    before, run = trained(gan), stepping(gan)
    losses = np.stack([run().numpy() for _ in range(8)])
    assert np.isfinite(losses).all()
    assert all(np.any(a != b) for a, b in zip(before, trained(gan), strict=True))
    assert kept(gan) <= {"float32", "int32", "int64"}


def test_with_bfloat16_what_is_measured_summed_and_kept_has_four_bytes():
    gan = built("bfloat16")
    assert not isinstance(gan.generator_optimizer, LossScale)
    losses, given = stepping(gan)().numpy(), batch()
    assert losses.dtype == np.float32
    angle, total = gan.discriminator.get_layer("measure")(given["image"])
    # The measured real showers have no convolution before them: two bytes would show.
    found = losses[0, [loss_columns().index("angle"), loss_columns().index("ecal_sum")]]
    target = given["ecal"]
    wanted = np.mean(abs(given["angle"] - angle)), np.mean(100 * abs(target - total) / target)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert kept(gan) <= {"float32", "int32", "int64"}
    inside = [layer for layer in gan.generator.layers if layer.name.startswith("conv")]
    assert {layer.compute_dtype for layer in inside} == {"bfloat16"}


def test_batch_norm_takes_its_statistics_in_four_bytes():
    keras.config.set_dtype_policy("mixed_bfloat16")
    network = build_generator(SMOKE)
    norm = next(layer for layer in network.layers if "norm" in layer.name)
    channels = int(norm.moving_mean.shape[0])
    values = 1 + np.random.default_rng(0).normal(0, 0.2, (4, 8, 8, 8, channels))
    given = tf.cast(tf.constant(values, tf.float32), tf.bfloat16)
    norm.moving_mean.assign(np.zeros(channels))
    norm(given, training=True)
    exact = given.numpy().astype(np.float64).mean((0, 1, 2, 3)) * (1 - norm.momentum)
    np.testing.assert_allclose(norm.moving_mean.numpy(), exact, rtol=1e-5)


def test_a_scaled_loss_leads_to_the_same_update():
    ends, preset = [], PLAIN.model_copy(update={"optimizer": "rmsprop"})
    for wrap in (lambda optimizer: optimizer, LossScale):
        gan = built("float32", preset)
        optimizers = gan.generator_optimizer, gan.discriminator_optimizer
        wrapped = [wrap(optimizer) for optimizer in optimizers]
        for optimizer, network in zip(wrapped, (gan.generator, gan.discriminator), strict=True):
            optimizer.build(network.trainable_variables)
        gan = replace(gan, generator_optimizer=wrapped[0], discriminator_optimizer=wrapped[1])
        stepping(gan, preset)()
        kinds = (gan.generator, gan.discriminator, *optimizers)
        ends.append([variable.numpy() for kind in kinds for variable in kind.variables])
    for plain, scaled_back in zip(*ends, strict=True):
        np.testing.assert_allclose(scaled_back, plain, rtol=1e-4, atol=1e-12)
