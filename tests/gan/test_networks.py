"""Networks of the tables: shapes, parameter counts, first weights, and the effect of each preset key."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from cloudgan.gan.cell_marginals import MarginalOutput
from cloudgan.gan.footprint import network_sizes
from cloudgan.gan.networks import (
    DepthToSpace,
    InitializerOfTensorFlow,
    MeanPooling,
    SpaceToDepth,
    build_discriminator,
    build_generator,
)
from cloudgan.gan.shower_frame import latent_length
from cloudgan.schema.presets import PROFILES, find_preset

pytestmark = pytest.mark.tf
PAPER, SMOKE = find_preset("paper"), find_preset("smoke")


def generator(preset):
    return build_generator(preset)


def discriminator(preset):
    return build_discriminator(preset, None)


def latents(preset, count=3):
    values = np.random.default_rng(0).standard_normal((count, latent_length(preset)))
    values[:, 0], values[:, 1] = 0.5, 1.5
    return values.astype(np.float32)


def sizes(network):
    """What Keras counts, without measured tables."""
    tables = sum(one.count_params() for one in network.layers if isinstance(one, MarginalOutput))
    trainable = sum(int(np.prod(weight.shape)) for weight in network.trainable_weights)
    return {"parameters": network.count_params() - tables, "trainable": trainable}


# The first row is that of arXiv:2111.04628; the others detect changes.
@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [
        ("paper", (1_365_047, 1_364_983), (87_402, 87_354)),
        ("fixed25", (872_948, 872_808), (73_450, 73_402)),
        ("mini", (28_776, 28_760), (12_954, 12_906)),
    ],
)
def test_networks_have_the_number_of_parameters_that_the_paper_and_the_readme_say(
    name, ours, theirs
):
    counts = network_sizes(find_preset(name)).values()
    assert [tuple(count.values()) for count in counts] == [ours, theirs]


SHAPES = {
    "its own": {},
    "calorimeter of rings": {"image_shape": (45, 16, 9), "periodic_axes": ("y",)},
    "cube": {"image_shape": (12, 12, 12)},
}


@pytest.mark.parametrize("changes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", PROFILES)
def test_a_generator_makes_what_its_discriminator_reads(name, changes):
    preset = find_preset(name).model_copy(update=changes)
    made, judge = generator(preset), discriminator(preset)
    image = made(latents(preset))
    assert image.shape == (3, *preset.image_shape, 1)
    assert np.all(image.numpy() >= 0)
    said = judge(image)
    assert [tuple(one.shape) for one in said] == [(3, 1)] * (4 if preset.has_angle else 3)
    assert np.all((said[0].numpy() >= 0) & (said[0].numpy() <= 1))
    counted = {"generator": sizes(made), "discriminator": sizes(judge)}
    assert network_sizes(preset) == counted, "as `train --describe` says"


def test_a_turned_image_has_the_same_features_turned_about_its_periodic_axis():
    changes = {"image_shape": (10, 12, 9), "periodic_axes": ("y",)}
    judge = discriminator(find_preset("paper").model_copy(update=changes))
    features = keras.Model(judge.input, judge.get_layer("conv3").output)
    image = np.random.default_rng(0).gamma(0.2, 1.0, (1, 10, 12, 9, 1)).astype(np.float32)
    turned = features(np.roll(image, 3, 2)).numpy()
    np.testing.assert_allclose(turned, np.roll(features(image), 3, 2), atol=1e-5)


def test_each_coarse_cell_has_its_own_noise_where_the_preset_asks_for_it():
    preset = find_preset("smoke").model_copy(update={"noise_channels": 2})
    generator = build_generator(preset)
    cells = 5 * 5 * 13
    assert latent_length(find_preset("smoke")) == preset.latent_size
    assert generator.input_shape == (None, preset.latent_size + 2 * cells)
    latent = np.random.default_rng(0).normal(size=(1, latent_length(preset))).astype(np.float32)
    latent[:, 0] = 0.5
    other = latent.copy()
    other[0, preset.latent_size] += 5.0  # the first channel of the first coarse cell
    changed = np.abs(np.array(generator(latent)) - np.array(generator(other)))[0, ..., 0] > 0
    assert changed.any()
    assert not changed[6:, 6:, 6:].any(), "two convolutions of 3 reach six fine cells"


def test_depth_to_space_undoes_space_to_depth():
    image = np.random.default_rng(1).random((2, 9, 9, 25, 1)).astype(np.float32)
    coarse = SpaceToDepth(2)(image)
    assert coarse.shape == (2, 5, 5, 13, 8)
    np.testing.assert_array_equal(DepthToSpace(2, (9, 9, 25))(coarse), image)


def test_space_to_depth_pads_with_empty_cells():
    coarse = SpaceToDepth(2)(np.ones((1, 3, 3, 3, 1), np.float32)).numpy()
    assert coarse.sum() == 27
    np.testing.assert_array_equal(coarse[0, 0, 0, 0], np.ones(8))
    np.testing.assert_array_equal(coarse[0, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0, 0])


def test_an_energy_scaled_output_grows_as_the_power_of_the_energy():
    scaled = SMOKE.model_copy(update={"energy_scaled_output": True})
    plain = SMOKE.model_copy(update={"energy_scaled_output": False})
    one, other = generator(scaled), generator(plain)
    other.set_weights(one.get_weights())
    latent = latents(SMOKE)
    factor = 0.5**SMOKE.image_power
    np.testing.assert_allclose(one(latent), other(latent).numpy() * factor, rtol=1e-5)


def test_a_negative_energy_counts_as_zero_and_gives_no_nan():
    latent = latents(SMOKE)
    latent[:, 0] = -0.1
    assert np.all(generator(SMOKE)(latent).numpy() == 0)


def test_a_squared_relu_is_the_square_of_a_relu():
    square = SMOKE.model_copy(update={"energy_scaled_output": False})
    plain = square.model_copy(update={"output_activation": "relu"})
    one, other = generator(square), generator(plain)
    other.set_weights(one.get_weights())
    latent = latents(SMOKE)
    np.testing.assert_allclose(one(latent), other(latent).numpy() ** 2, rtol=1e-5)


def test_the_calibration_multiplies_the_image_and_is_not_learned():
    network = generator(SMOKE)
    latent = latents(SMOKE)
    before = network(latent).numpy()
    constant = network.get_layer("output").calibration
    constant.assign(3.0)
    np.testing.assert_allclose(network(latent), 3 * before, rtol=1e-5)
    assert not constant.trainable
    plain = generator(SMOKE.model_copy(update={"calibrated_output": False}))
    assert not hasattr(plain.get_layer("output"), "calibration")


def test_all_extras_of_mini_are_off_in_paper():
    assert not PAPER.energy_scaled_output
    assert not PAPER.calibrated_output
    assert PAPER.output_activation == "relu"
    assert PAPER.loss_weights["longitudinal"] == 0
    assert PAPER.ema_decay == 0
    assert PAPER.batch_norm_momentum == 0.99
    assert PAPER.image_power == 0.85


@pytest.mark.parametrize("synchronized", [True, False])
def test_batch_norm_is_synchronised_in_every_layer_or_in_none(synchronized):
    for network in (
        build_generator(SMOKE, synchronized=synchronized),
        build_discriminator(SMOKE, None, synchronized=synchronized),
    ):
        kind = keras.layers.BatchNormalization
        norms = [layer.synchronized for layer in network.layers if isinstance(layer, kind)]
        assert norms
        assert set(norms) == {synchronized}


def test_pooling_in_float64_is_that_of_float32():
    cells = np.random.default_rng(0).random((2, 5, 4, 7, 3)).astype(np.float32)
    expected = keras.layers.AveragePooling3D(2)(cells)
    np.testing.assert_allclose(MeanPooling(2)(cells), expected, rtol=1e-6)
    keras.config.set_dtype_policy("float64")
    preset = PAPER.model_copy(update={"image_shape": (12, 12, 12)})
    image = np.zeros((1, 12, 12, 12, 1))
    assert {str(one.dtype.name) for one in discriminator(preset)(image)} == {"float64"}


@pytest.mark.parametrize("name", ["he_uniform", "glorot_uniform", "glorot_normal"])
@pytest.mark.parametrize("shape", [(7, 5), (3, 3, 4, 6, 5)])
def test_the_weights_of_a_seed_are_those_that_keras_draws_under_tensorflow(name, shape):
    theirs = keras.initializers.get({"class_name": name, "config": {"seed": 987_654_321}})
    ours = np.asarray(InitializerOfTensorFlow(theirs)(shape))
    np.testing.assert_allclose(ours, np.asarray(theirs(shape)), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("preset", ["smoke", "mini", "paper"])
def test_each_initializer_of_a_preset_has_such_a_distribution(preset):
    network = build_generator(find_preset(preset))
    used = [getattr(layer, "kernel_initializer", None) for layer in network.layers]
    scaled = [each for each in used if isinstance(each, keras.initializers.VarianceScaling)]
    assert scaled
    assert {each.distribution for each in scaled} <= {"uniform", "truncated_normal"}
