"""Tables of cell marginals, and the showers that they make before any training."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.data.batches import TrainingSet
from cloudgan.data.convert import convert
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.showers import LEAST_CELL_GEV, Showers
from cloudgan.gan.cell_marginals import MarginalOutput, _scaled
from cloudgan.gan.shower_frame import NODE_STEP, corrected, table_shape
from cloudgan.schema.config import DataConfig
from cloudgan.schema.presets import find_preset
from cloudgan.simulation.gflash import simulate
from cloudgan.training.marginal_tables import _log_hits, _spectrum, measure_marginals
from cloudgan.validation.distances import two_sample_test

pytestmark = pytest.mark.tf

PRESET = find_preset("smoke").model_copy(update={"cell_marginals": True, "angle": "primary"})
X, Y, DEPTH = PRESET.image_shape


@pytest.fixture(scope="module")
def showers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marginals")
    write_hdf5(folder / "showers.h5", simulate(800, seed=5, cells=(X, Y)))
    convert(str(folder / "showers.h5"), folder / "store")
    return TrainingSet.open(folder / "store", PRESET, DataConfig(held_out_fraction=0.5))


@pytest.fixture(scope="module")
def tables(showers):
    return measure_marginals(PRESET, showers)


@pytest.fixture(scope="module")
def output(tables):
    layer = MarginalOutput(PRESET)
    layer.build(None)
    layer.set_tables(tables)
    return layer


def generated(output, energy, angle, *, normals=None, preset=PRESET):
    """Cells in GeV, (N, X, Y, Z), of energies over 100 GeV and angles (N, 1)."""
    count = len(energy)
    if normals is None:
        normals = np.random.default_rng(0).standard_normal((count, table_shape(preset).normals))
    image = output(
        [
            np.zeros((count, *preset.image_shape, 1), np.float32),
            np.concatenate([energy, angle], 1).astype(np.float32),
            normals.astype(np.float32),
        ]
    )
    return (
        np.asarray(image)[..., 0].astype(np.float64) ** (1 / PRESET.image_power)
        / PRESET.image_scale
    )


@pytest.fixture(scope="module")
def both(showers, output):
    """Held-out Monte Carlo, and as many generated showers with its energies and angles."""
    real = showers.held_out_batch()
    cells = real.image.astype(np.float64) ** (1 / PRESET.image_power) / PRESET.image_scale
    return cells, generated(output, real.energy, real.angle), real


def test_an_untrained_generator_has_the_mean_energy_of_every_layer_of_unseen_showers(both):
    theirs, ours, _ = both
    real, made = (cells.sum((1, 2)).mean(0) for cells in (theirs, ours))
    error = theirs.sum((1, 2)).std(0) / np.sqrt(len(theirs))
    assert (np.abs(made - real) < 5 * error + 0.02 * real).all()


def test_it_has_the_occupancy_and_the_energy_of_the_cells_about_the_axis(both):
    theirs, ours, _ = both
    real, made = ((cells >= LEAST_CELL_GEV).mean(0) for cells in (theirs, ours))
    assert np.abs(made - real).mean() < 0.02
    assert made.sum() == pytest.approx(real.sum(), rel=0.05)
    for cells in (theirs, ours):
        assert cells[:, 4, 4].mean() > 5 * cells[:, 0, 4].mean(), "a core"
    assert ours[:, 4, 4].mean() == pytest.approx(theirs[:, 4, 4].mean(), rel=0.1)


def test_hits_have_the_spectrum_of_the_monte_carlo(both):
    theirs, ours, _ = both
    edges = np.geomspace(2e-5, 1e-2, 15)
    real, made = (np.histogram(cells, edges)[0] for cells in (theirs, ours))
    assert np.abs(made / real - 1).mean() < 0.06


def test_the_spectrum_has_the_edge_of_single_particles():
    rng = np.random.default_rng(2)
    threshold = rng.uniform(-2.5, 2.5, 60_000)
    cells = np.stack([threshold, np.full(60_000, np.log(1e-4)), np.full(60_000, 1.5)], 1)
    hits = np.where(rng.random(60_000) < 0.3, rng.uniform(1e-6, 1e-4, 60_000), 1.0)
    hits = np.where(hits < 1, hits, 1e-4 + rng.exponential(5e-5, 60_000))
    table = _spectrum(cells, np.log(hits))
    other = _log_hits(cells, rng.random(60_000))
    made = np.exp(corrected(other, threshold, table, np))
    edges = [2e-5, 6e-5, 9e-5, 1.1e-4, 1.5e-4, 3e-4]
    found, wanted = (np.histogram(each, edges)[0] for each in (made, hits))
    assert np.abs(found / wanted - 1).max() < 0.08
    assert (np.diff(table, axis=1) > -NODE_STEP - 1e-9).all(), "monotone"


def test_the_sum_has_the_spread_of_the_monte_carlo(both):
    theirs, ours, real = both
    spreads = [(cells.sum((1, 2, 3)) / real.energy[:, 0]).std() for cells in (theirs, ours)]
    assert spreads[1] == pytest.approx(spreads[0], rel=0.25)


def test_layers_vary_together_as_in_the_monte_carlo(both):
    theirs, ours, real = both
    found = [np.corrcoef((cells.sum((1, 2)) / real.energy)[:, 6:16].T) for cells in (theirs, ours)]
    assert np.abs(found[1] - found[0]).mean() < 0.1
    assert found[1][0, -1] < 0 < found[1][0, 1], "a late shower has little in front"


def test_no_classifier_tells_generated_layers_from_those_of_unseen_showers(both):
    """Shares of the energy by layer; 0.66 with layers that are normal at given energy and angle, and never empty."""
    theirs, ours, real = both
    layers = [cells.sum((1, 2)) for cells in (ours, theirs)]
    shares = [np.column_stack([e / e.sum(1, keepdims=True), real.energy]) for e in layers]
    assert two_sample_test(*shares, seed=0).auc < 0.62


def with_neighbours(tables, share):
    layer = MarginalOutput(PRESET)
    layer.build(None)
    layer.set_tables(tables | {"neighbours": np.full((2, DEPTH), share, np.float32)})
    return layer


def hits_at_given_layers(tables, share):
    """Hits, (N, X, Y, Z), of showers with the same layers and axis, whose neighbouring cells have this share in each other."""
    count, shape = 2000, table_shape(PRESET)
    normals = np.random.default_rng(1).standard_normal((count, shape.normals))
    normals[:, : shape.normals - X * Y * DEPTH] = 0
    energy, angle = np.full((count, 1), 0.5), np.full((count, 1), np.pi / 2)
    return generated(with_neighbours(tables, share), energy, angle, normals=normals) > 0


def test_neighbouring_cells_are_hit_together_and_a_layer_has_as_many_hits(tables):
    """The energy of the layer is given: more hits on one side are fewer on the other."""
    alone, together = (hits_at_given_layers(tables, share) for share in (0.0, 0.2))
    core = np.s_[:, 2:7, 2:7, 4:12]
    for hits, least, most in ((alone, -0.03, 0.03), (together, 0.1, 0.35)):
        excess = hits[core] - hits[core].mean(0)
        for axis in (1, 2):
            size = excess.shape[axis]
            one, other = (excess.take(range(f, size - 1 + f), axis) for f in (0, 1))
            found = (one * other).mean() / (excess**2).mean()
            assert least < found < most
    assert together.mean(0) == pytest.approx(alone.mean(0), abs=0.07)
    ours, theirs = (hits.sum((1, 2))[:, 4:12].std(0) for hits in (together, alone))
    assert ours == pytest.approx(theirs, rel=0.1)


def test_the_tables_know_how_often_neighbours_are_hit_together(tables, showers, tmp_path):
    assert np.abs(tables["neighbours"]).mean() < 0.03, "the parametric source draws its spots apart"
    real = showers.held_out_batch()
    cells = generated(with_neighbours(tables, 0.2), real.energy, real.angle).astype(np.float32)
    theta = real.angle[:, 0]
    made = [Showers(cells, real.energy[:, 0] * 100, theta, theta)]
    write_hdf5(tmp_path / "showers.h5", made)
    convert(str(tmp_path / "showers.h5"), tmp_path / "store")
    training = TrainingSet.open(tmp_path / "store", PRESET, DataConfig(held_out_fraction=0.1))
    measured = measure_marginals(PRESET, training)["neighbours"]
    assert measured.mean(1) == pytest.approx(0.2, abs=0.06)


def test_layers_are_empty_as_often_as_in_the_monte_carlo(both):
    empty = [(cells.sum((1, 2)) == 0).mean(0) for cells in both[:2]]
    assert empty[0][0] > 0.2, "a late shower has nothing in front"
    np.testing.assert_allclose(empty[1], empty[0], atol=0.06)


def test_a_layer_with_energy_has_one_hit_at_least_and_an_empty_one_none(output, tables):
    layer = MarginalOutput(PRESET)
    layer.build(None)
    never_hit = tables["cells"].copy()
    never_hit[:, 0] = -9
    layer.set_tables(tables | {"cells": never_hit})
    energy, angle = np.full((50, 1), 0.5), np.full((50, 1), 1.3)
    alone, usual = (generated(each, energy, angle) for each in (layer, output))
    filled = usual.sum((1, 2)) > 0
    assert not filled.all()
    np.testing.assert_array_equal((alone > 0).sum((1, 2)), filled)


def test_layers_lie_where_the_axes_cross_them_whatever_hits_are_far_from_the_axis(tmp_path):
    """Albedo fills the window: the mean of all hits had the first of 25 layers of Geant4 showers 1.9 cells too far behind."""
    count, (x, y, layers) = 500, (5, 17, 12)
    preset = PRESET.model_copy(update={"image_shape": (x, y, layers)})
    rng = np.random.default_rng(6)
    angle = rng.uniform(np.deg2rad(60), np.deg2rad(120), count).astype(np.float32)
    axis = (
        8
        + (0.85 * (np.arange(layers) - 6)) / np.tan(angle)[:, None]
        + rng.uniform(-0.5, 0.5, (count, 1))
    )
    core = np.clip(1 - np.abs(np.arange(y)[None, :, None] - axis[:, None, :]), 0, None)
    albedo = 0.1 * np.exp(-np.arange(layers) / 3) * (rng.random((count, y, layers)) < 0.5)
    ecal = np.zeros((count, x, y, layers), np.float32)
    ecal[:, 2] = 1e-3 * (core + albedo)
    energy = np.full(count, 1.0, np.float32)
    write_hdf5(tmp_path / "showers.h5", [Showers(ecal, energy, angle, angle)])
    convert(str(tmp_path / "showers.h5"), tmp_path / "store")
    found = measure_marginals(preset, TrainingSet.open(tmp_path / "store", preset))["depth"]
    np.testing.assert_allclose(found - found[6], 0.85 * (np.arange(layers) - 6), atol=0.2)


def test_the_large_cells_of_a_layer_change_more_than_its_small_ones_and_their_sum_is_its_energy():
    cells = np.array([10e-3] + [1e-3] * 10)
    for energy in (0.03, 0.02, 0.016, 0.1):
        log_cell = np.log(cells, dtype=np.float32).reshape(1, 1, -1, 1)
        found = np.exp(
            _scaled(log_cell, cells.reshape(log_cell.shape) > 0, np.array([[energy]], np.float32))
        )
        change = found.ravel() / cells
        assert found.sum() == pytest.approx(energy, rel=1e-5)
        assert (change[0] - change[1]) * (energy - 0.02) >= 0
    assert change[0] > 1.5 * change[1]


def test_the_axis_follows_the_angle(output):
    energy = np.full((300, 1), 0.5)
    slopes = []
    for degrees in (70.0, 90.0, 110.0):
        cells = generated(output, energy, np.full((300, 1), np.deg2rad(degrees)))
        place = (cells.sum(1) * np.arange(Y)[:, None]).sum(1) / np.maximum(cells.sum((1, 2)), 1e-12)
        slopes.append(np.polyfit(np.arange(6, 16), place[:, 6:16].mean(0), 1)[0])
    assert slopes[0] > 0.1
    assert slopes[2] < -0.1
    assert abs(slopes[1]) < 0.05


def barycentres(cells):
    """Of x, in cells from the middle, (N,)."""
    along = cells.sum((2, 3))
    return along @ (np.arange(X) - (X - 1) / 2) / along.sum(1)


def test_the_barycentre_follows_the_offset_of_the_axis_without_steps(output):
    """One shower whose axis moves over two spreads in 400 steps: a look-up by whole bins jumps by 0.2 cells."""
    count = 400
    normals = np.tile(
        np.random.default_rng(3).standard_normal((1, table_shape(PRESET).normals)),
        (count, 1),
    )
    normals[:, DEPTH + 2] = np.linspace(-1, 1, count)
    place = barycentres(
        generated(output, np.full((count, 1), 0.5), np.full((count, 1), np.pi / 2), normals=normals)
    )
    assert np.abs(np.diff(place)).max() < 0.05
    assert place[-1] - place[0] > 0.3, "it follows"


def test_barycentres_have_the_histogram_of_the_monte_carlo(both):
    theirs, ours, _ = both
    edges = np.linspace(-0.8, 0.8, 33)
    real, made = (np.histogram(barycentres(cells), edges)[0] for cells in (theirs, ours))
    separation = 0.5 * np.sum((real - made) ** 2 / np.maximum(real + made, 1)) / len(theirs)
    assert separation < 0.08, "two halves of the Monte Carlo differ by this; whole bins give 0.31"


def test_equal_energies_give_different_showers(output):
    cells = generated(output, np.full((50, 1), 0.5), np.full((50, 1), np.pi / 2))
    assert len(np.unique((cells >= LEAST_CELL_GEV).sum((1, 2, 3)))) > 20


def test_energies_beyond_the_training_showers_scale_on(output):
    energy = np.array([[1.0], [4.0]] * 100)
    cells = generated(output, energy, np.full((200, 1), np.pi / 2))
    sums = cells.sum((1, 2, 3))
    assert np.isfinite(cells).all()
    assert sums[1::2].mean() / sums[::2].mean() == pytest.approx(4.0, rel=0.05)


def test_no_training_shower_is_reproduced(showers, output):
    """The closest training shower is as far from a generated one as from an unseen one."""
    training = showers.train_rows(np.arange(showers.count))
    unseen = showers.held_out_batch(100)
    made = generated(output, unseen.energy, unseen.angle) * PRESET.image_scale
    made = made**PRESET.image_power

    def nearest(images):
        flat = training.image.reshape(showers.count, -1)
        return np.array([np.abs(flat - image.ravel()).sum(1).min() for image in images])

    assert np.median(nearest(made)) > 0.8 * np.median(nearest(unseen.image))


def test_corrections_of_cells_have_gradients(output):
    import tensorflow as tf

    given = tf.constant([[0.5, 1.6]] * 4, tf.float32)
    normals = tf.random.stateless_normal((4, table_shape(PRESET).normals), (1, 2))
    of_cells = tf.Variable(tf.zeros((4, X, Y, DEPTH, 1)))
    with tf.GradientTape() as tape:
        image = output([of_cells, given, normals])
        total = tf.reduce_sum(image**2)
    slope = tape.gradient(total, of_cells).numpy()
    assert np.isfinite(slope).all()
    assert (slope != 0).any()


def test_the_same_showers_give_the_same_bits(showers, tables):
    again = measure_marginals(PRESET, showers)
    assert all(np.array_equal(again[name], tables[name]) for name in tables)


def test_showers_of_one_angle_have_an_axis_at_right_angles(showers):
    class OneAngle:
        count = showers.count

        def train_cells(self, rows):
            block = showers.train_cells(rows)
            block.angle[:] = np.pi / 2
            return block

    found = measure_marginals(PRESET, OneAngle())
    assert all(np.isfinite(table).all() for table in found.values())
    np.testing.assert_allclose(found["depth"], 0, atol=1e-3)
    np.testing.assert_array_equal(found["layer_depth"], np.arange(DEPTH) + 0.5)


def test_layers_behind_thicker_absorbers_are_later(tables):
    """17 layers with 2.4 mm of tungsten, 5.05 mm in all, then 8 with 4.8 mm."""
    steps = np.diff(tables["layer_depth"])
    assert steps[16:20].mean() > 1.1 * steps[2:16].mean()


RINGS = PRESET.model_copy(update={"image_shape": (6, 8, 12), "periodic_axes": ("y",)})


@pytest.fixture(scope="module")
def of_rings(tmp_path_factory):
    """Showers of a cylindrical geometry: x is the radius, from the inner edge on, and y the angle."""
    rng, count, (radii, angles, layers) = np.random.default_rng(4), 600, RINGS.image_shape
    mean = np.exp(-np.arange(radii) / 1.3)[:, None, None] * np.exp(
        -0.5 * ((np.arange(layers) - 5) / 2.5) ** 2
    )
    energy = rng.uniform(20, 80, count).astype(np.float32)
    share = rng.gamma(0.6, 1 / 0.6, (count, radii, angles, layers)) * mean
    ecal = (0.02 * energy[:, None, None, None] * share / (mean.sum() * angles)).astype(np.float32)
    angle = np.full(count, np.pi / 2, np.float32)
    folder = tmp_path_factory.mktemp("rings")
    write_hdf5(folder / "showers.h5", [Showers(ecal, energy, angle, angle)])
    convert(str(folder / "showers.h5"), folder / "store")
    tables = measure_marginals(RINGS, TrainingSet.open(folder / "store", RINGS))
    layer = MarginalOutput(RINGS)
    layer.build(None)
    layer.set_tables(tables)
    made = generated(layer, energy[:, None] / 100, angle[:, None], preset=RINGS)
    return ecal, made, tables


def test_rings_have_the_energy_and_the_hits_of_each_radius_from_the_inner_edge_on(of_rings):
    theirs, ours, _ = of_rings
    for kind in (lambda cells: cells, lambda cells: cells >= LEAST_CELL_GEV):
        real, made = (kind(cells).mean((0, 2, 3)) for cells in (theirs, ours))
        np.testing.assert_allclose(made, real, rtol=0.1)


def test_rings_have_one_table_for_all_angles_and_an_axis_that_does_not_move(of_rings):
    _, ours, tables = of_rings
    of_angle = ours.mean((0, 1, 3))
    np.testing.assert_allclose(of_angle, of_angle.mean(), rtol=0.05)
    assert table_shape(RINGS).bins == (1, 6)
    assert not tables["offsets"].any()
    assert not tables["depth"].any()
