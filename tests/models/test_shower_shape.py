"""What is read off an image with a gradient, against the same from NumPy, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.core.presets import PRESETS
from cloudgan.models.shower_shape import shape_weights, shower_shape

pytestmark = pytest.mark.tf
SMOKE = PRESETS["smoke"]
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


def shape_of(cells_gev, energy_gev):
    """The features of one shower, by their part."""
    image = (np.asarray(cells_gev, np.float64) * SMOKE.image_scale) ** SMOKE.image_power
    energy = tf.constant([[energy_gev / 100]], tf.float64)
    (row,) = shower_shape(SMOKE, tf.constant(image[None, ..., None]), energy).numpy()
    ends = np.cumsum(list(PARTS.values()))
    assert ends[-1] == len(row)
    return dict(zip(PARTS, np.split(row, ends[:-1]), strict=True))


def share(root):
    """A share of the energy back from its root; 1 is all of what is seen of a shower."""
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
    assert weights[:Z].sum() == pytest.approx(1 / 9)
    assert weights[-PARTS["hits"] :].sum() == pytest.approx(1 / 9)


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
