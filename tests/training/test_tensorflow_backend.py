"""Devices, strategies, lost workers, and layers on two devices."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.schema.config import parse_config
from cloudgan.schema.presets import find_preset
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.cluster import Cluster
from cloudgan.training.gan import build_gan
from cloudgan.training.rng import Rng
from cloudgan.training.tensorflow_backend import (
    choose_strategy,
    lost_worker,
    make_strategy,
    slots,
    translated_errors,
)

pytestmark = pytest.mark.tf


CONFIG = parse_config({"name": "gan"}, "a test")
CLUSTER = Cluster(("a:1", "b:1"), index=0, ordinary=2)


def error(kind, text):
    return kind(None, None, text)


@pytest.mark.parametrize(
    ("found", "who"),
    [
        (error(tf.errors.UnavailableError, "failed to connect"), "another worker"),
        (error(tf.errors.AbortedError, "restarted"), "another worker"),
        (
            error(
                tf.errors.InternalError,
                "Collective ops is aborted by: ... /job:worker/replica:0/task:1 ...",
            ),
            r"worker 1 \(b:1\)",
        ),
        (
            error(
                tf.errors.InternalError,
                "/job:worker/replica:0/task:0: Failed to send RPC to coordination service",
            ),
            "another worker",
        ),
    ],
)
def test_a_lost_worker_is_no_mistake_of_the_user(found, who):
    translated = lost_worker(found, CLUSTER)
    assert translated.exit_code == 75
    with pytest.raises(TryAgain, match=f"{who} stopped answering"), translated_errors(CLUSTER):
        raise found


def test_other_errors_and_those_of_a_process_alone_stay_what_they_are():
    wrong = error(tf.errors.InvalidArgumentError, "shapes differ")
    assert lost_worker(wrong, CLUSTER) is None
    with pytest.raises(tf.errors.InvalidArgumentError), translated_errors(CLUSTER):
        raise wrong
    gone = error(tf.errors.UnavailableError, "failed to connect")
    assert lost_worker(gone, None) is None
    assert lost_worker(gone, Cluster(("a:1",), 0, 1)) is None


@pytest.mark.parametrize(
    ("variable", "value"), [("CLOUDGAN_TPU", "local"), ("TPU_WORKER_HOSTNAMES", "localhost")]
)
def test_a_machine_that_says_it_has_a_tpu_trains_on_it(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    assert choose_strategy(TrainingConfig(), None) == "tpu"
    assert choose_strategy(TrainingConfig(strategy="one"), None) == "one"
    monkeypatch.delenv(variable)
    assert choose_strategy(TrainingConfig(), None) == "one"


def test_a_tpu_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setenv("CLOUDGAN_TPU", "local")
    with pytest.raises(ConfigError, match="no TPU found on this machine"):
        make_strategy(CONFIG, "tpu")


@pytest.mark.parametrize("name", ["one", "mirrored", "multiworker"])
def test_fewer_accelerators_than_planned_end_the_process_before_it_trains_on_the_cpu(
    monkeypatch, name
):
    monkeypatch.setenv("CLOUDGAN_ACCELERATORS", "8")
    with pytest.raises(ConfigError) as refused:
        make_strategy(CONFIG, name)
    assert refused.value.exit_code == 2
    said = str(refused.value)
    assert "\n" not in said, "the worker reports one line"
    assert "the plan has 8 accelerators" in said
    assert "TensorFlow finds 0; nothing was trained" in said
    assert "libcuda.so.1) is missing" in said
    assert "/usr/local/nvidia/lib64" in said
    assert "site-packages/nvidia/*/lib" in said
    assert "cloudgan check" in said


SMOKE = find_preset("smoke")
CONVOLUTIONS = {"Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2"}


def gradients(stages):
    """Gradients of all weights, the convolutions of the traced function, and the networks."""
    gan = build_gan(SMOKE, Rng(1), device_stages=stages)
    latent = tf.constant(np.random.default_rng(0).normal(size=(4, 64)).astype("f"))
    weights = [*gan.generator.trainable_weights, *gan.discriminator.trainable_weights]

    @tf.function(autograph=False)
    def run(latent):
        with tf.GradientTape() as tape:
            real, energy, *_ = gan.discriminator(gan.generator(latent, training=True))
            loss = tf.reduce_sum(tf.square(real - 0.3)) + tf.reduce_sum(tf.square(energy - 0.5))
        return tape.gradient(loss, [weight.value for weight in weights])

    graph = run.get_concrete_function(latent).graph
    operations = [one for one in graph.get_operations() if one.type in CONVOLUTIONS]
    return [part.numpy() for part in run(latent)], operations, gan


@pytest.fixture(scope="module")
def both():
    return gradients(()), gradients(("conv1",))


def test_placed_gradients_equal_unplaced_ones(both):
    (plain, _, _), (placed, _, _) = both
    for one, two in zip(plain, placed, strict=True):
        scale = np.abs(one).max()
        assert scale > 0
        np.testing.assert_allclose(two, one, atol=1e-6 * scale, rtol=0)


def test_the_convolutions_of_both_passes_are_where_their_weights_are(both):
    _, (_, operations, gan) = both
    for network in (gan.generator, gan.discriminator):
        for layer in network.layers:
            number = layer.name.removeprefix("conv")
            if number != layer.name and number.isdecimal():
                device = f"CPU:{int(int(number) >= 1)}"
                assert all(weight.value.device.endswith(device) for weight in layer.weights)
    pairs = (
        (gan.generator_optimizer, gan.generator),
        (gan.discriminator_optimizer, gan.discriminator),
    )
    for optimizer, network in pairs:
        moments = slots(optimizer, "momentum")
        for slot, weight in zip(moments, network.trainable_weights, strict=True):
            assert slot.value.device == weight.value.device
    of_device = {"CPU:0": set(), "CPU:1": set()}
    for one in operations:
        of_device[one.device[-5:] or "CPU:0"].add(one.type)
    assert of_device["CPU:1"] == CONVOLUTIONS
    moved = sum(one.device.endswith("CPU:1") for one in operations)
    plain = len(both[0][1])
    assert len(operations) == plain
    assert 0 < moved < plain
