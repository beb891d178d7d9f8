"""Two bytes for the networks' arithmetic, four for everything that is summed or kept."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from cloudgan.models.networks import build_generator
from cloudgan.schema.losses import loss_columns
from cloudgan.schema.presets import LossWeights, find_preset
from cloudgan.training.gan import LearningRates, build_gan
from cloudgan.training.precision import LossScale, resolve_precision, with_loss_scaling
from cloudgan.training.rng import Rng
from cloudgan.training.step import GanStep
from cloudgan.training.update import update

pytestmark = [pytest.mark.tf, pytest.mark.slow]
SMOKE = find_preset("smoke")
ROWS = 4


@pytest.fixture(autouse=True)
def policy_of_others():
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def two_replicas():
    # Without collective operations: TensorFlow remembers their shapes from test to test.
    return tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


@pytest.fixture
def gpus(monkeypatch):
    """Makes TensorFlow report GPUs with these compute capabilities."""

    def pretend(*capabilities):
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(capabilities))
        monkeypatch.setattr(
            tf.config.experimental,
            "get_device_details",
            lambda known: {"compute_capability": known} if known else {},
        )

    return pretend


@pytest.mark.parametrize(
    ("capabilities", "means"),
    [(((7, 0),), "float16"), (((8, 0),), "bfloat16"), ((None,), "bfloat16")],
)
def test_mixed_means_float16_only_on_gpus_that_have_no_bfloat16(gpus, capabilities, means):
    gpus(*capabilities)
    assert resolve_precision("mixed") == means
    assert [resolve_precision(asked) for asked in ("float32", "bfloat16")] == [
        "float32",
        "bfloat16",
    ]


@pytest.mark.parametrize(
    ("features", "means"),
    [
        ({"avx2"}, "float32"),
        (set(), "float32"),
        ({"avx512_bf16"}, "bfloat16"),
        ({"bf16"}, "bfloat16"),
    ],
)
def test_mixed_means_bfloat16_only_on_cpus_that_have_it(monkeypatch, features, means):
    monkeypatch.setattr("cloudgan.training.precision.cpu_features", lambda: frozenset(features))
    assert resolve_precision("mixed") == means
    assert resolve_precision("bfloat16") == "bfloat16"
    monkeypatch.setenv("CLOUDGAN_TPU", "local")
    assert resolve_precision("mixed") == "bfloat16"


def weight_and_optimizer(**scale):
    weight = keras.Variable(1.0)
    optimizer = LossScale(keras.optimizers.RMSprop(0.5), **scale)
    optimizer.build([weight])
    return weight, optimizer


def scale_of(optimizer):
    return float(optimizer.scale_loss(tf.constant(1.0)))


def test_only_float16_scales_its_losses():
    for precision in ("float32", "bfloat16", "float64"):
        optimizer = keras.optimizers.Adam(1.0)
        assert with_loss_scaling(optimizer, precision) is optimizer
    optimizer = with_loss_scaling(keras.optimizers.Adam(1.0), "float16")
    optimizer.build([keras.Variable(1.0)])
    assert scale_of(optimizer) == 2.0**15


def test_the_scale_doubles_after_good_updates_and_a_checkpoint_holds_it():
    weight, optimizer = weight_and_optimizer(first=8.0, growth_steps=2)
    scales, moved = [], []
    for gradient in (8.0, float("nan"), 4.0, 4.0, 8.0):
        before = weight.numpy()
        update(optimizer, [weight], [tf.constant(gradient)])
        scales.append(scale_of(optimizer))
        moved.append(bool(weight.numpy() != before))
    assert scales == [8.0, 4.0, 4.0, 8.0, 8.0]
    assert moved == [True, False, True, True, True]
    names = [variable.name for variable in optimizer.variables]
    assert names[-2:] == ["loss_scale", "good_updates"]


@pytest.mark.parametrize("wrong", [None, 0, 1])
def test_a_gradient_that_one_replica_cannot_represent_moves_no_weight_and_halves_the_scale(
    two_replicas, wrong
):
    with two_replicas.scope():
        weight, optimizer = weight_and_optimizer(first=8.0)

    @tf.function
    def run(gradients):
        two_replicas.run(lambda gradient: update(optimizer, [weight], [gradient]), (gradients,))

    run(
        two_replicas.experimental_distribute_values_from_function(
            lambda place: tf.constant(
                float("inf") if place.replica_id_in_sync_group == wrong else 2.0
            )
        )
    )
    for copy in two_replicas.experimental_local_results(weight.value):
        assert (copy.numpy() == 1.0) == (wrong is not None)
    (velocity,) = optimizer.optimizer._velocities
    assert velocity.numpy() == pytest.approx(0.1 * ((2 + 2) / 8) ** 2 if wrong is None else 0)
    assert scale_of(optimizer) == (8.0 if wrong is None else 4.0)


def batch_of(replica):
    image = np.random.default_rng(replica).gamma(0.05, 1.0, (ROWS, *SMOKE.image_shape, 1))
    return {
        "image": tf.constant(image, tf.float32),
        "energy": tf.fill((ROWS, 1), 0.5),
        "angle": tf.fill((ROWS, 1), 1.5),
        "ecal": tf.constant(image.sum((1, 2, 3)), tf.float32),
        "step": tf.zeros((1,), tf.int64),
        "first_row": tf.constant([replica * ROWS], tf.int64),
    }


PLAIN = SMOKE.model_copy(update={"generator_updates": 1, "loss_weights": LossWeights()})


def made(precision):
    """The networks, and a compiled step that returns its losses."""
    rng = Rng(1)
    gan = build_gan(
        PLAIN,
        rng,
        seed=1,
        precision=precision,
        synchronized=False,
        learning_rates=LearningRates(1e-3, 1e-3),
        conv_impl="phases",
    )
    step = GanStep(gan, PLAIN, rng, global_batch_size=ROWS)
    batch = batch_of(0)
    return gan, tf.function(lambda: step(batch), autograph=False)


def trained(gan):
    return [weight.numpy() for weight in gan.generator.trainable_weights]


def kept(gan):
    return {str(variable.dtype) for variable in gan.variables().values()}


def test_networks_learn_in_float16_once_the_scale_fits():
    gan, run = made("float16")
    before = trained(gan)
    losses = np.stack([run().numpy() for _ in range(8)])
    assert np.isfinite(losses).all()
    assert all(np.any(a != b) for a, b in zip(before, trained(gan), strict=True))
    assert kept(gan) <= {"float32", "int32", "int64"}


def test_with_bfloat16_what_is_measured_summed_and_kept_has_four_bytes():
    gan, run = made("bfloat16")
    losses = run().numpy()
    assert losses.dtype == np.float32
    image = batch_of(0)["image"]
    angle, total = gan.discriminator.get_layer("measure")(image)
    # The measured real showers have no convolution before them: two bytes would show.
    found = losses[0, [loss_columns().index("angle"), loss_columns().index("ecal_sum")]]
    target = batch_of(0)["ecal"]
    wanted = np.mean(abs(1.5 - angle)), np.mean(100 * abs(target - total) / target)
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
    ends = []
    for wrap in (lambda optimizer: optimizer, LossScale):
        rng, preset = Rng(1), PLAIN.model_copy(update={"optimizer": "rmsprop"})
        gan = build_gan(
            preset,
            rng,
            seed=1,
            precision="float32",
            synchronized=False,
            learning_rates=LearningRates(1e-3, 1e-3),
        )
        optimizers = gan.generator_optimizer, gan.discriminator_optimizer
        wrapped = [wrap(optimizer) for optimizer in optimizers]
        networks = (gan.generator, gan.discriminator)
        for optimizer, network in zip(wrapped, networks, strict=True):
            optimizer.build(network.trainable_variables)
        gan = replace(gan, generator_optimizer=wrapped[0], discriminator_optimizer=wrapped[1])
        GanStep(gan, preset, rng, global_batch_size=ROWS)(batch_of(0))
        slots = [slot for optimizer in optimizers for slot in optimizer._velocities]
        weights = [weight for network in networks for weight in network.trainable_weights]
        ends.append([variable.numpy() for variable in (*weights, *slots)])
    for plain, scaled_back in zip(*ends, strict=True):
        np.testing.assert_allclose(scaled_back, plain, rtol=1e-4, atol=1e-12)
