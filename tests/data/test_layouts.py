"""Files of the field, written with h5py as their authors write them, and read back by readers of their own."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from cloudgan.api.training_result import describe_training
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.data.batches import check_cells
from cloudgan.data.convert import convert
from cloudgan.data.draft import draft
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.layouts import LAYOUTS, Geometry, read_layouts
from cloudgan.data.showers import as_read_out, from_images, to_images
from cloudgan.data.sources import open_source
from cloudgan.data.store import Store
from cloudgan.schema.config import parse_config
from cloudgan.schema.presets import find_preset
from cloudgan.schema.run_folder import RunFolder
from cloudgan.training.showers import find_showers
from shower_layouts import (
    SECOND,
    THIRD,
    datasets,
    layer_sums,
    write_calogan,
    write_challenge,
    write_file,
    write_getting_high,
    write_par04,
    write_xml,
)

REGULAR = [((0, 4.65, 9.3, 13.95), 4)] * 5
IRREGULAR = [((0, 5, 10, 30), 1), ((0, 2, 5, 30), 4), ((0,), 1), ((0, 10, 60), 2)]


@pytest.fixture
def challenge(tmp_path):
    def write(layers, **more):
        binning = write_xml(tmp_path / "binning.xml", layers)
        return write_challenge(tmp_path / "challenge.hdf5", layers, **more), binning

    return write


@pytest.mark.parametrize("kind", ["regular", "irregular", "calogan", "getting_high", "par04"])
def test_a_file_of_the_field_comes_back_from_a_store_bit_for_bit_in_its_layout(
    tmp_path, challenge, kind
):
    binning = ""
    if kind in {"regular", "irregular"}:
        path, binning = challenge(REGULAR if kind == "regular" else IRREGULAR)
    else:
        write = {"calogan": write_calogan, "getting_high": write_getting_high, "par04": write_par04}
        path = write[kind](tmp_path / "file.h5")
    convert(path, tmp_path / "store", binning=binning)
    convert(str(tmp_path / "store"), tmp_path / "back.h5")
    before, after = datasets(path), datasets(tmp_path / "back.h5")
    assert before.keys() == after.keys()
    for key, values in before.items():
        assert (after[key].dtype, after[key].shape) == (values.dtype, values.shape), key
        np.testing.assert_array_equal(after[key], values, err_msg=key)


@pytest.mark.parametrize("layers", [REGULAR, IRREGULAR])
def test_an_independent_reader_finds_the_same_energy_in_each_layer(tmp_path, challenge, layers):
    path, binning = challenge(layers)
    source = open_source(path, binning=binning)
    (block,) = source.blocks(100)
    expected = layer_sums(path, binning)
    np.testing.assert_allclose(1e3 * block.ecal_gev.sum((1, 2)), expected, rtol=1e-5)
    generated = np.random.default_rng(0).gamma(1, 1, block.ecal_gev.shape).astype("f4")
    cells = from_images(source.layout, generated)[0]
    with h5py.File(tmp_path / "generated.h5", "w") as file:
        file["showers"] = cells
    found = layer_sums(tmp_path / "generated.h5", binning)
    np.testing.assert_allclose(found, generated.sum((1, 2)), rtol=1e-5)


def test_cells_of_a_shower_are_at_their_radius_and_angle(challenge):
    path, binning = challenge(IRREGULAR)
    layout = open_source(path, binning=binning).layout
    assert layout.geometry.shape == (5, 4, 3)  # edges 0, 2, 5, 10, 30, 60
    voxels = np.arange(1.0, 20)[None]
    image = to_images(layout, [voxels])[0]
    np.testing.assert_array_equal(image[:, 0, 0], [1, 0, 2, 3, 0])
    np.testing.assert_array_equal(image[:, 1, 1], [7, 8, 9, 0, 0])
    np.testing.assert_array_equal(image[:, 2, 2], [18, 0, 0, 19, 0])


def test_generated_energy_is_read_out_in_the_cells_of_the_detector_and_above_the_threshold(
    challenge,
):
    path, binning = challenge(IRREGULAR)
    layout = open_source(path, binning=binning).layout
    image = np.zeros((1, *layout.geometry.shape), np.float32)
    image[0, 0, :, 0] = 4e-6  # 4 x 4 keV in one voxel of the first layer: above 10 keV
    image[0, 0, 0, 1] = 4e-6  # below
    image[0, 4, 0, 1] = 1.0  # beyond the last ring of the second layer
    found = as_read_out(layout, image)
    assert found[0, 0, 0, 0] == pytest.approx(16e-6)
    assert found[0, 0, 0, 1] == 0
    assert found[0, 2, 0, 1] == 1.0
    assert np.count_nonzero(found) == 2


def test_the_geometry_the_angle_and_the_particle_travel_with_the_store(tmp_path, challenge):
    path, binning = challenge(REGULAR)
    convert(path, tmp_path / "store", binning=binning)
    (info,) = Store(tmp_path / "store").manifest.sources
    assert (info.particle, info.shape, info.ecal_per_gev) == ("electron", (3, 4, 5), 1e3)
    assert info.dataset.geometry == Geometry(
        kind="cylindrical", bins=[{"x": REGULAR[0][0], "y": 4, "layers": 5}]
    )
    assert (info.dataset.periodic_axes, info.dataset.spans_decades) == (("y",), True)
    assert info.dataset.threshold_mev == pytest.approx(0.01515, rel=1e-3)
    energy, theta, mtheta = Store(tmp_path / "store").primaries()
    assert energy.max() < 1000
    assert np.all(theta == np.float32(np.pi / 2))
    np.testing.assert_array_equal(mtheta, theta)


def test_images_that_do_not_tilt_are_conditioned_on_the_angle_of_the_primary(tmp_path):
    (block,) = open_source(write_par04(tmp_path / "par04.h5")).blocks(100)
    np.testing.assert_array_equal(block.theta_rad, block.mtheta_rad)
    assert np.ptp(block.theta_rad) > 0.5


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (None, r"showers is \[30, 60\], showers without a grid; give .* --binning=FILE\.xml"),
        (IRREGULAR, r"showers is \[30, 60\], and the binning has 19 cells in 3 layers"),
        ([((0, 5, 4), 2)], r"geometry|edges of cells must rise"),
        ([((0,), 1)], r"has no layer with cells"),
    ],
)
def test_a_binning_that_does_not_fit_is_refused_with_key_and_shape(
    tmp_path, challenge, layers, message
):
    path, _ = challenge(REGULAR)
    binning = write_xml(tmp_path / "other.xml", layers) if layers else ""
    with pytest.raises(DataError, match=message):
        open_source(path, binning=binning)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<Bins", "is not a binning of CaloChallenge: "),
        (
            '<Bins><Bin name="e"><Layer id="0" n_bin_alpha="1"/></Bin></Bins>',
            "'r_edges' is missing",
        ),
        ('<Bins><Bin name="e"><Layer id="0" r_edges="0,x" n_bin_alpha="1"/></Bin></Bins>', "float"),
        ("<Bins/>", "has no layer with cells"),
    ],
)
def test_a_damaged_binning_is_refused(tmp_path, text, message):
    (tmp_path / "b.xml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_layouts(str(tmp_path / "b.xml"))


MAPPING = """\
keys: {cells: images, energy: e0, theta: angle}
axes: zxy
unit: {cells: MeV, energy: GeV}
particle: photon
geometry: cartesian
"""


def write_own(path, **more):
    rng = np.random.default_rng(8)
    energy = rng.uniform(10, 90, 20)
    cells = np.zeros((20, 12, 5, 6), np.float32)
    cells[:, 2:9, 1:4, 2:4] = rng.gamma(2, 1, (20, 7, 3, 2))
    cells *= (20 * energy / cells.sum((1, 2, 3)))[:, None, None, None].astype("f4")
    return write_file(path, {"images": cells, "e0": energy, "angle": np.full(20, 1.2)} | more)


def test_a_file_of_another_layout_is_read_with_a_mapping_of_five_lines(tmp_path):
    path, mapping = write_own(tmp_path / "own.h5"), tmp_path / "dataset.yaml"
    with pytest.raises(DataError, match=r"it has angle, e0, images\. .*cloudgan init dataset"):
        open_source(path)
    mapping.write_text(MAPPING)
    source = open_source(path, binning=str(mapping))
    assert (source.shape, source.particles) == ((5, 6, 12), {"photon"})
    convert(path, tmp_path / "store", binning=str(mapping))
    convert(str(tmp_path / "store"), tmp_path / "back.h5")
    for key, values in datasets(path).items():
        np.testing.assert_array_equal(datasets(tmp_path / "back.h5")[key], values)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("axes: zxy\n", "", "axes: .*required.* drafts them"),
        ("energy: e0", "energie: e0", "keys.energy: .*required"),
        ("energy: e0", "energy: e1", "has no dataset e1, which .*yaml needs; it has angle, e0"),
        ("theta: angle", "theta: tilt", "has no dataset tilt, the angle of dataset.yaml"),
        ("cells: MeV", "cells: GeV", r"ECAL is stated as GeV .* would not hold"),
        ("cells: MeV", "cells: barn", "unit.cells"),
        ("axes: zxy", "axes: xyz", "showers are longest along axis 1"),
        ("cartesian", "spherical", "geometry.kind"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused_with_its_key(tmp_path, old, new, message):
    path, mapping = write_own(tmp_path / "own.h5"), tmp_path / "dataset.yaml"
    mapping.write_text(MAPPING.replace(old, new))
    with pytest.raises(DataError, match=message):
        open_source(path, binning=str(mapping))


def test_a_unit_of_an_attribute_that_contradicts_the_layout_is_refused(tmp_path):
    path = write_par04(tmp_path / "par04.h5")
    with h5py.File(path, "a") as file:
        file["showers"].attrs["unit"] = "GeV"
    with pytest.raises(DataError, match="unit of cells is GeV, and Par04 / LEMURS has MeV"):
        open_source(path)


def test_files_of_different_geometries_are_not_read_together(tmp_path):
    layers = [((0, 1, 2, 3), 2)] * 2
    one = write_challenge(tmp_path / "a.hdf5", layers)
    first = write_xml(tmp_path / "a.xml", layers)
    second = write_xml(tmp_path / "b.xml", [((0, 1, 2, 4), 2)] * 2)
    for number, binning in enumerate((first, second)):
        convert(one, tmp_path / f"store{number}", binning=binning)
    with pytest.raises(DataError, match="cells of different geometries"):
        open_source(f"{tmp_path}/store0,{tmp_path}/store1")
    other = write_challenge(tmp_path / "c.hdf5", layers, extra=np.ones(30))
    convert(other, tmp_path / "store2", binning=first)
    with pytest.raises(ConfigError, match="convert them separately"):
        convert(f"{tmp_path}/store0,{tmp_path}/store2", tmp_path / "both.h5")


def test_every_public_layout_has_keys_of_its_own():
    keys = [frozenset((*one.keys.cells, one.keys.energy)) for one in LAYOUTS]
    assert len(set(keys)) == len(keys)


def test_the_draft_of_a_mapping_reads_the_file_that_it_was_made_of(tmp_path):
    path = write_own(tmp_path / "own.h5", theta=np.full(20, 1.2))
    (tmp_path / "dataset.yaml").write_text(draft(Path(path))[0])
    layout = open_source(path, binning=str(tmp_path / "dataset.yaml")).layout
    assert (layout.keys.cells, layout.keys.energy, layout.keys.theta) == (
        ("images",),
        "e0",
        "theta",
    )
    assert (layout.axes, layout.unit.cells, layout.unit.energy) == ("zxy", "MeV", "GeV")


def test_a_draft_takes_the_units_that_a_file_states_and_the_angle_that_was_requested(tmp_path):
    path = write_own(tmp_path / "own.h5", mtheta=np.full(20, 1.1), theta=np.full(20, 1.2))
    with h5py.File(path, "a") as file:
        file["images"][:] *= np.float32(0.05)  # MeV in GeV*50
        file["images"].attrs["unit"], file["e0"].attrs["unit"] = "GeV*50 (public)", "GeV"
        del file["angle"]
    (tmp_path / "dataset.yaml").write_text(draft(Path(path))[0])
    layout = open_source(path, binning=str(tmp_path / "dataset.yaml")).layout
    assert layout.keys.theta == "theta"
    assert (layout.unit.cells, layout.unit.energy) == ("GeV*50", "GeV")


@pytest.mark.parametrize(
    ("write", "layers", "said"),
    [
        (write_par04, None, "is read without it, as Par04 / LEMURS"),
        (write_calogan, None, "is read without it, as CaloGAN"),
        (partial(write_challenge, layers=SECOND), SECOND, ""),
        (partial(write_challenge, layers=THIRD, count=4), THIRD, ""),
    ],
    ids=["Par04", "CaloGAN", "dataset 2", "dataset 3"],
)
def test_the_draft_of_a_public_file_has_its_axes_units_and_geometry(tmp_path, write, layers, said):
    path = write(tmp_path / "a.h5")
    text, note = draft(Path(path))
    assert note == (f"{path} {said}" if said else "")
    (tmp_path / "dataset.yaml").write_text(text)
    drafted = open_source(path, binning=str(tmp_path / "dataset.yaml"))
    known = open_source(path, binning=write_xml(tmp_path / "b.xml", layers) if layers else "")
    first, second = (next(iter(source.blocks(9))) for source in (drafted, known))
    np.testing.assert_array_equal(first.ecal_gev, second.ecal_gev)
    np.testing.assert_array_equal(first.energy_gev, second.energy_gev)
    mine, theirs = drafted.layout, known.layout
    assert (mine.axes, mine.unit, mine.keys) == (theirs.axes, theirs.unit, theirs.keys)
    assert (mine.threshold_mev or 0) == pytest.approx(theirs.threshold_mev or 0, rel=1e-3)
    assert mine.geometry.kind == theirs.geometry.kind
    for one, other in zip(mine.geometry.bins, theirs.geometry.bins, strict=True):
        assert (one.y, one.layers) == (other.y, other.layers)
        assert one.x == pytest.approx(other.x)


def test_the_draft_of_cells_in_a_row_asks_for_bins(tmp_path):
    path = write_challenge(tmp_path / "a.hdf5", IRREGULAR)
    text, note = draft(Path(path))
    assert note == "first complete its line geometry: cells in a row need bins"
    (tmp_path / "dataset.yaml").write_text(text)
    with pytest.raises(DataError, match=r"dataset.yaml has no bins: give their cells as geometry"):
        open_source(path, binning=str(tmp_path / "dataset.yaml"))


def test_a_fixed_angle_file_needs_no_draft(tmp_path):
    values = {"ECAL": np.ones((2, 5, 5, 5), "f4"), "target": np.ones((2, 1, 5))}
    path = write_file(tmp_path / "a.h5", values)
    with pytest.raises(DataError, match=r"needs no dataset.yaml.*cloudgan convert --verify"):
        draft(Path(path))


@pytest.mark.parametrize("shapes", [{"x": 5}, {"x": (0, 3, 4, 5), "y": 0}])
def test_a_file_without_showers_has_no_draft(tmp_path, shapes):
    path = write_file(tmp_path / "a.h5", {key: np.ones(shape) for key, shape in shapes.items()})
    with pytest.raises(DataError, match="has no cells and energies of showers; it has x"):
        draft(Path(path))


@pytest.mark.parametrize("layers", [REGULAR, IRREGULAR])
def test_generated_showers_are_written_in_the_layout_and_units_that_were_read(
    tmp_path, challenge, layers
):
    path, binning = challenge(layers)
    source = open_source(path, binning=binning)
    write_hdf5(tmp_path / "generated.h5", source.blocks(7), layout=source.layout)
    before, after = datasets(path), datasets(tmp_path / "generated.h5")
    assert after.keys() == before.keys()
    for key, values in before.items():
        assert after[key].shape == values.shape
        np.testing.assert_allclose(after[key], values, rtol=1e-5)


@pytest.mark.parametrize("preset", ["smoke", "paper"])
def test_the_networks_of_a_run_have_the_geometry_of_its_showers(challenge, preset, tmp_path):
    path, binning = challenge(REGULAR)
    given = {"name": "x", "data": {"path": path, "binning": binning}, "model": {"preset": preset}}
    folder = RunFolder(tmp_path / "run")
    model = find_showers(parse_config(given, ""), folder)[0].model
    assert describe_training(parse_config(given, ""), folder).config.model == model
    assert (model.image_shape, model.periodic_axes, model.log_energy) == ((3, 4, 5), ("y",), True)
    assert model.loss_weights.angle == 0


@pytest.mark.parametrize("shape", [(9, 9, 25), (2, 4, 5)])
def test_rings_have_no_centre_to_cut_and_are_not_filled_up(challenge, shape):
    path, binning = challenge(REGULAR)
    layout = open_source(path, binning=binning).layout
    other = find_preset("smoke").model_copy(update={"image_shape": shape})
    needed = "x".join(map(str, shape))
    with pytest.raises(DataError, match=f"its showers have 3x4x5 cells, the preset needs {needed}"):
        check_cells(other, (3, 4, 5), "x", layout)


@pytest.mark.tf
@pytest.mark.parametrize(
    "words",
    [
        ("train", "STORE", "--max-steps=2", "--batch=4", "--no-report", "--run=runs/one"),
        (
            *("evolve", "STORE", "--grid=1x2", "--iterations=1", "--batches=1", "--batch=4"),
            *("--fitness-samples=4", "--score-samples=8", "--run=runs/one"),
        ),
        (
            *("search", "space.yaml", "STORE", "--trials=1", "--epochs=1"),
            *("--batch=102", "--held-out=0.5", "--run=runs/one"),
        ),
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_trains_takes_the_geometry_of_the_showers(
    challenge, tmp_path, run_cloudgan, monkeypatch, words
):
    pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    path, binning = challenge(REGULAR, count=410)
    convert(path, tmp_path / "STORE", binning=binning)
    Path("space.yaml").write_text("model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n")
    # As a worker of a cluster, which converts nothing.
    task = {"cluster": {"worker": ["127.0.0.1:2222"]}, "task": {"type": "worker", "index": 0}}
    environment = {"TF_CONFIG": json.dumps(task)} if words[0] == "train" else {}
    run_cloudgan(*words, "--preset=smoke", **environment)
    folder = "runs/one/trials/0000" if words[0] == "search" else "runs/one"
    model = RunFolder(folder).read_config().model
    assert (model.image_shape, model.periodic_axes, model.log_energy) == ((3, 4, 5), ("y",), True)
