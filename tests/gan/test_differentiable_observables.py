"""Measured angle, energy sum, shape features and powers, in value and gradient."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.data.showers import measured_angle
from cloudgan.gan.differentiable_observables import (
    AngleAndSum,
    safe_power,
    shape_weights,
    shower_shape,
)
from cloudgan.schema.presets import find_preset

pytestmark = pytest.mark.tf
CELLS = np.array([0.0, 1e-20, 1e-6, 0.3, 1.0, 7.5, 400.0], np.float32)


@pytest.mark.parametrize("exponent", [1.0, 1 / 0.85, 2.0])
def test_safe_power_is_the_power(exponent):
    np.testing.assert_allclose(
        safe_power(tf.constant(CELLS), exponent), CELLS**exponent, rtol=2e-5, atol=1e-30
    )


@pytest.mark.parametrize("exponent", [1 / 0.85, 2.0])
def test_its_gradient_is_that_of_the_power_and_zero_at_zero(exponent):
    cells = tf.constant(CELLS)
    with tf.GradientTape() as tape:
        tape.watch(cells)
        value = safe_power(cells, exponent)
    gradient = tape.gradient(value, cells).numpy()
    np.testing.assert_allclose(gradient, exponent * CELLS ** (exponent - 1), rtol=3e-5, atol=1e-19)
    assert gradient[0] == 0


def test_denormal_numbers_stay_finite():
    cells = tf.constant([1e-45, 1e-38, 1.2e-38], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(cells)
        value = safe_power(cells, 1 / 0.85)
    assert np.isfinite(value).all()
    assert np.isfinite(tape.gradient(value, cells)).all()


POWER, SCALE = 0.85, 50.0


@pytest.fixture(scope="module")
def ecal():
    """Forty parametric showers of the whole calorimeter at all angles, in GeV."""
    from cloudgan.simulation.gflash import simulate

    return np.concatenate([block.ecal_gev for block in simulate(40, seed=3)])


def powered(ecal):
    return ((ecal * SCALE) ** POWER)[..., None].astype(np.float32)


def test_the_angle_is_the_measured_angle_of_the_data(ecal):
    angle, _ = AngleAndSum(POWER)(powered(ecal))
    np.testing.assert_allclose(angle[:, 0], measured_angle(ecal), atol=2e-4)
    assert np.ptp(angle) > 0.5


def test_the_sum_is_that_of_the_scaled_cells(ecal):
    _, total = AngleAndSum(POWER)(powered(ecal))
    np.testing.assert_allclose(total[:, 0], SCALE * ecal.sum((1, 2, 3)), rtol=1e-4)


def single_cell():
    image = np.zeros((1, 9, 9, 25, 1), np.float32)
    image[0, 4, 4, 10] = 1
    return image


def one_layer():
    image = np.zeros((1, 9, 9, 25, 1), np.float32)
    image[0, :, :, 7] = 0.5
    return image


HARD = {
    "empty": np.zeros((1, 9, 9, 25, 1), np.float32),
    "single cell": single_cell(),
    "one layer": one_layer(),
    "dust": np.full((1, 9, 9, 25, 1), 1e-30, np.float32),
    "one value": np.ones((1, 9, 9, 25, 1), np.float32),
}


@pytest.mark.parametrize("image", HARD.values(), ids=HARD.keys())
def test_values_and_gradients_are_finite_where_the_published_code_gives_nan(image):
    measure, image = AngleAndSum(POWER), tf.constant(image)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(image)
        angle, total = measure(image)
    assert np.isfinite(angle).all()
    assert np.isfinite(total).all()
    for value in (angle, total):
        assert np.isfinite(tape.gradient(value, image)).all()


def test_an_empty_image_measures_zero_and_zero():
    angle, total = AngleAndSum(POWER)(HARD["empty"])
    assert (float(angle[0, 0]), float(total[0, 0])) == (0.0, 0.0)


def test_the_angle_pulls_cells_the_right_way(ecal):
    """A small step along the gradient changes the angle by the predicted amount."""
    measure, image = AngleAndSum(POWER), tf.constant(powered(ecal[:4]))
    with tf.GradientTape() as tape:
        tape.watch(image)
        angle = measure(image)[0]
    gradient = tape.gradient(angle, image)
    norm = tf.norm(tf.reshape(gradient, (4, -1)), axis=1)
    step = 1e-3 / norm[:, None, None, None, None]
    lit = tf.cast(image > 0, tf.float32)  # a dark cell has no slope to follow
    turned = measure(image + step * gradient * lit / norm[:, None, None, None, None])[0]
    assert np.all(turned.numpy() > angle.numpy())


SMOKE = find_preset("smoke")
X, Y, Z = SMOKE.image_shape
RINGS, SECTIONS = 7, 5
PARTS = {
    "layers": Z,
    "x": X,
    "y": Y,
    "rings": RINGS * SECTIONS,
    "total": 1,
    "centres": 2 * SECTIONS,
}
PARTS |= {"width x": 2, "width y": 2, "width z": 2, "largest": 1, "hits": 3}
PARTS |= {"layer centres": 2 * Z, "layer widths": Z}


def shape_of(cells_gev, energy_gev):
    """The features of one shower, by their part."""
    image = (np.asarray(cells_gev, np.float64) * SMOKE.image_scale) ** SMOKE.image_power
    energy = tf.constant([[energy_gev / 100]], tf.float64)
    (row,) = shower_shape(SMOKE, tf.constant(image[None, ..., None]), energy).numpy()
    ends = np.cumsum(list(PARTS.values()))
    assert ends[-1] == len(row)
    return dict(zip(PARTS, np.split(row, ends[:-1]), strict=True))


def share(root):
    """Share of the visible energy from its root."""
    return (root + 1e-2) ** 2 - 1e-4


def random_cells(seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(0.05, 0.02, (X, Y, Z))


def test_layers_columns_and_the_sum_are_roots_of_shares_of_the_energy():
    cells = random_cells()
    found = shape_of(cells, 40.0)
    wanted = cells * SMOKE.image_scale / 40.0
    np.testing.assert_allclose(share(found["layers"]), wanted.sum((0, 1)), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(share(found["x"]), wanted.sum((1, 2)), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(share(found["y"]), wanted.sum((0, 2)), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(share(found["total"]), wanted.sum(), rtol=1e-6)
    np.testing.assert_allclose(share(found["largest"]), wanted.max(), rtol=1e-6)


def test_rings_hold_all_energy_of_their_section_and_a_cell_lies_in_its_own():
    cells = np.zeros((X, Y, Z))
    cells[X // 2, Y // 2, 2] = 0.1  # the middle, in the first section
    cells[X // 2 + 3, Y // 2, 22] = 0.3  # three cells off, in the last
    rings = share(shape_of(cells, 50.0)["rings"]).reshape(RINGS, SECTIONS)
    assert np.argwhere(rings > 1e-3).tolist() == [[0, 0], [3, 4]]
    np.testing.assert_allclose(rings[[0, 3], [0, 4]], [0.1, 0.3], rtol=1e-6)


def test_barycentres_and_widths_are_in_cells():
    cells = random_cells(1)
    found = shape_of(cells, 40.0)
    place = np.arange(Y)
    along_y = cells.sum((0, 2)) / cells.sum()
    mean = along_y @ place
    width = np.sqrt(along_y @ (place - mean) ** 2)
    np.testing.assert_allclose(found["width y"], [mean, width], rtol=1e-6)
    section = cells[:, :, :5]
    off = np.arange(X) - (X - 1) / 2
    wanted = section.sum((1, 2)) @ off / section.sum()
    np.testing.assert_allclose(found["centres"].reshape(2, SECTIONS)[0, 0], wanted, rtol=1e-6)


def test_each_layer_has_its_barycentre_and_its_width():
    cells = random_cells(1)
    cells[:, :, 7] = 0.0
    found = shape_of(cells, 40.0)
    centres = found["layer centres"].reshape(2, Z)
    for layer in (0, 12):
        plane = cells[:, :, layer]
        off_x, off_y = np.meshgrid(
            np.arange(X) - (X - 1) / 2, np.arange(Y) - (Y - 1) / 2, indexing="ij"
        )
        means = [(plane * off).sum() / plane.sum() for off in (off_x, off_y)]
        square = (off_x - means[0]) ** 2 + (off_y - means[1]) ** 2
        np.testing.assert_allclose(centres[:, layer], means, rtol=2e-3, atol=1e-4)
        width = np.sqrt((plane * square).sum() / plane.sum())
        np.testing.assert_allclose(found["layer widths"][layer], width, rtol=2e-3)
    assert not centres[:, 7].any(), "an empty layer is in the centre"


def test_hits_count_cells_above_their_threshold():
    cells = np.zeros((X, Y, Z))
    cells.reshape(-1)[:50] = 0.01  # far above each threshold
    hits = shape_of(cells, 50.0)["hits"] ** 2 - 1
    np.testing.assert_allclose(hits, [50, 50, 50], rtol=0.01)
    cells.reshape(-1)[:50] = 1e-3  # above two of them
    hits = shape_of(cells, 50.0)["hits"] ** 2 - 1
    np.testing.assert_allclose(hits, [50, 50, 0], rtol=0.01, atol=1)


def test_every_kind_of_feature_weighs_alike():
    weights = shape_weights(SMOKE)
    assert len(weights) == sum(PARTS.values())
    assert weights.sum() == pytest.approx(1)
    assert weights[:Z].sum() == pytest.approx(1 / 11)
    assert weights[-PARTS["layer widths"] :].sum() == pytest.approx(1 / 11)


@pytest.mark.parametrize("cells", [np.zeros((X, Y, Z)), random_cells(2)], ids=["empty", "full"])
def test_value_and_gradient_are_finite(cells):
    image = tf.constant(cells[None, ..., None], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(image)
        shape = shower_shape(SMOKE, image, tf.zeros((1, 1)))
    assert np.isfinite(shape.numpy()).all()
    assert np.isfinite(tape.gradient(shape, image).numpy()).all()


def test_every_feature_of_a_full_shower_has_a_gradient():
    image = tf.constant(random_cells(3)[None, ..., None])
    with tf.GradientTape() as tape:
        tape.watch(image)
        shape = shower_shape(SMOKE, image, tf.constant([[0.4]], tf.float64))
    slopes = tape.jacobian(shape, image).numpy()[0]
    flat = np.abs(slopes).max((1, 2, 3, 4, 5)) == 0
    assert flat.sum() == 2 * SECTIONS, "only two rings lie outside of 9 x 9 cells"
