"""Files of showers as others write them: each is read right, or refused with what it has and what is needed."""

import gzip
import json
from dataclasses import replace

import h5py
import numpy as np
import pytest

from cloudgan.data.hdf5_writer import GENERATED, write_hdf5
from cloudgan.data.showers import join_showers
from cloudgan.simulation.gflash import simulate

COUNT = 60
CALIBRATED = 1 / 0.0206  # cells that add up to the primary energy


@pytest.fixture(scope="module")
def showers():
    """Electrons of 10 to 100 GeV in 25 x 25 x 25 cells."""
    return join_showers(simulate(COUNT, seed=5, cells=(25, 25)))


@pytest.fixture
def write(tmp_path, showers):
    """Writes ECAL and energy, numbers per GeV as in `scale`, and theta; `changes` replace datasets."""

    def make(name="a.h5", *, scale=(1.0, 1.0), units=(), key="unit", **changes):
        datasets = {
            "ECAL": showers.ecal_gev * np.float32(scale[0]),
            "energy": showers.energy_gev * np.float32(scale[1]),
            "theta": showers.theta_rad,
        } | changes
        with h5py.File(tmp_path / name, "w") as file:
            for each, values in datasets.items():
                if values is not None:
                    file[each] = values
            for each, text in dict(units).items():
                file[each].attrs[key] = text
        return tmp_path / name

    return make


@pytest.fixture
def verify(cloudgan_here):
    """Returns the JSON of `convert --verify`."""

    def run(*words):
        return cloudgan_here("convert", "--verify", *words, "--json").json()

    return run


@pytest.fixture
def refused(cloudgan_here):
    """Returns what `convert --verify` says of a file that it refuses."""

    def run(*words):
        return cloudgan_here("convert", "--verify", *words, exits=2).stderr

    return run


@pytest.mark.parametrize(
    ("ecal", "energy", "units", "flag", "said"),
    [
        (1, 1, {}, "", "ECAL is GeV: the median"),
        (100, 1, {}, "", "ECAL is GeV*100: the median"),
        (1e3, 1, {}, "", "ECAL is MeV: the median"),
        (1, 1e3, {}, "", "Energies are in MeV."),
        (50, 1, {"ECAL": "GeV*50"}, "", "ECAL is GeV*50: declared"),
        (50, 1, {"ECAL": b"GeV*50 (as the authors); divide by 50"}, "", "ECAL is GeV*50: declared"),
        (1e3, 1e3, {"ECAL": "MeV", "energy": "MeV"}, "", "ECAL is MeV: declared"),
        (1e3, 1e3, {"ECAL": ["mev"]}, "", "Energies are in MeV."),
        (1e3, 1e3, {"energy": "MeV"}, "", "ECAL is MeV: the median"),
        (1e6, 1, {"ECAL": "keV", "energy": "GeV"}, "", "ECAL is keV: declared"),
        (CALIBRATED, 1, {"ECAL": "GeV", "energy": "GeV"}, "", "ECAL is GeV: declared"),
        (CALIBRATED, 1, {"ECAL": "GeV"}, "", "they are calibrated"),
        (50, 1, {}, "GeV*50", "ECAL is GeV*50: given by --unit"),
        (CALIBRATED, 1, {}, "GeV", "ECAL is GeV: given by --unit"),
        (1e3, 1e3, {}, "MeV", "Energies are in MeV."),
        (1, 1e3, {"energy": "MeV"}, "GeV", "Energies are in MeV."),
        (20, 1, {}, "GeV*50", "ECAL is GeV*50: given"),  # 0.8 %, such as pions
    ],
)
def test_units_that_are_stated_or_that_alone_fit_are_used(
    *, write, verify, cloudgan_here, tmp_path, showers, ecal, energy, units, flag, said
):
    path = write(scale=(ecal, energy), units=units, key="units" if ecal == 1e3 else "unit")
    flags = [f"--unit={flag}"] * bool(flag)
    assert said in " ".join(verify(path, *flags)["notes"])
    write_hdf5(
        tmp_path / "ours.h5", [showers[:10]]
    )  # states its unit, which --unit does not change
    cloudgan_here("convert", f"{path},{tmp_path / 'ours.h5'}", tmp_path / "both.h5", *flags)
    with h5py.File(tmp_path / "both.h5") as file:  # GeV*50 and GeV, as the two files differ
        np.testing.assert_allclose(file["energy"][:COUNT], showers.energy_gev, rtol=1e-5)
        read = file["ECAL"][:].sum((1, 2, 3)) / 50
    held = showers.ecal_gev.sum((1, 2, 3)) * {CALIBRATED: CALIBRATED, 20: 0.4}.get(ecal, 1)
    np.testing.assert_allclose(read[:COUNT], held, rtol=1e-5)
    np.testing.assert_allclose(read[COUNT:], showers.ecal_gev[:10].sum((1, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize(("scale", "name"), [((50, 1), "GeV*50"), ((1, 1), "GeV")])
def test_a_public_file_holds_deposits_and_energies_in_gev(write, verify, showers, scale, name):
    path = write(scale=scale, mtheta=showers.mtheta_rad)
    assert f"ECAL is {name}: the median" in verify(path)["notes"][1]


def test_energies_above_1_tev_are_asked_for_in_a_public_file_too(write, refused, showers):
    path = write(scale=(1e3, 1e3), mtheta=showers.mtheta_rad)
    assert "Give --unit, the unit of ECAL: GeV, MeV; or" in refused(path)


@pytest.mark.parametrize("name", ["mtheta", None])
def test_energies_that_may_be_mev_are_asked_for_unless_the_file_is_public(
    write, cloudgan_here, showers, name
):
    high = {"energy": np.full(COUNT, 300.0), "ECAL": showers.ecal_gev * 0 + 1e-5}
    high["ECAL"][:, 10:15, 10:15, :20] = 300 * 0.02 / 500
    path = write(**high, **({name: showers.mtheta_rad} if name else {}))
    done = cloudgan_here("convert", "--verify", path, exits=0 if name else 2)
    assert ("ECAL is GeV:" in done.stdout) == bool(name)
    assert ("Give --unit, the unit of ECAL: GeV, MeV" in done.stderr) == (not name)


@pytest.mark.parametrize(
    ("ecal", "energy", "units", "flag", "said"),
    [
        (1e3, 1e3, {}, "", "Give --unit, the unit of ECAL: GeV, MeV; or"),
        (50, 1, {}, "", "Give --unit, the unit of ECAL: GeV*50, GeV; or"),
        (CALIBRATED, 1, {}, "", "Give --unit, the unit of ECAL: GeV*50, GeV; or"),
        (1, 10, {}, "", "the unit of ECAL is unknown"),
        (
            1,
            5,
            {"ECAL": "GeV"},
            "MeV",
            "its attribute unit of ECAL is GeV, and --unit=MeV was given",
        ),
        (50, 1, {"ECAL": "MeV"}, "", "the unit of ECAL is stated as MeV, but"),
        (1e3, 1, {"ECAL": "GeV"}, "", "the unit of ECAL is stated as GeV, but"),
        (1, 1, {}, "MeV", "the unit of ECAL is stated as MeV, but"),
        (1e3, 1e3, {"energy": "GeV"}, "", "as in MeV. Correct the attribute unit of energy"),
        (
            1,
            1,
            {"ECAL": "MeV", "energy": "MeV"},
            "",
            "as in GeV. Correct the attribute unit of energy",
        ),
        (
            1,
            1,
            {"ECAL": "ADC counts"},
            "",
            "ECAL: its attribute unit is 'ADC counts'; valid: GeV*50",
        ),
        (1, 1, {"energy": ""}, "", "energy: its attribute unit is ''; valid"),
        (1, 1, {"energy": np.zeros(0, "S3")}, "", "energy: its attribute unit is ''; valid"),
        (1, 1, {"energy": 1000.0}, "", "energy: its attribute unit is '1000.0'; valid"),
        (7, 1, {}, "", "known are 1 (GeV*50), 0.02 (GeV), 2 (GeV*100), 20 (MeV). Give --unit"),
        (0, 1, {}, "", "no shower that was looked at has energy in any cell"),
    ],
)
def test_units_that_are_unclear_or_contradict_the_numbers_are_refused(
    *, write, refused, ecal, energy, units, flag, said
):
    path = write(scale=(ecal, energy), units=units)
    message = refused(path, *[f"--unit={flag}"] * bool(flag))
    assert "a.h5" in message
    assert said in message


def test_unit_and_units_must_agree(write, refused):
    path = write(units={"ECAL": "GeV"})
    with h5py.File(path, "r+") as file:
        file["ECAL"].attrs["units"] = "MeV"
    assert "its attributes unit and units differ" in refused(path)


@pytest.mark.parametrize(
    ("name", "factor"), [("energy", 1000), ("ECAL", 1000), ("ECAL", 50), ("ECAL", 20)]
)
def test_a_file_that_mixes_units_is_refused_with_an_event_of_each(
    *, write, refused, showers, name, factor
):
    other = np.where(np.arange(COUNT) % 5 == 2, np.float32(factor), np.float32(1))
    values = {"energy": showers.energy_gev, "ECAL": showers.ecal_gev}[name]
    path = write(**{name: values * other.reshape(-1, *[1] * (values.ndim - 1))})
    message = refused(path)
    assert "a.h5 mixes units: " in message
    assert f"a factor of {factor}. Write ECAL and energy of all showers" in message
    assert "such as event 0" in message
    assert "such as event 2" in message


@pytest.mark.parametrize(
    "factors",
    [[1, 1e-3] * 1 + [1] * 58, [1] * 40 + [0.03] * 20, [0.1, 0.3, 1] * 20, [1] * 30 + [0] * 30],
    ids=["one nearly empty", "no factor of units", "without a gap", "empty"],
)
def test_showers_that_scatter_are_no_mixed_units(write, verify, showers, factors):
    scale = np.asarray(factors, "f4")[:, None, None, None]
    found = verify(write(ECAL=showers.ecal_gev * scale), "--unit=GeV")
    assert found["showers"] == COUNT


@pytest.mark.parametrize(
    ("axes", "axis"), [((0, 3, 1, 2), 1), ((0, 1, 3, 2), 2)], ids=["first", "second"]
)
@pytest.mark.parametrize("wide", [25, 51])
def test_showers_whose_depth_is_not_the_last_axis_are_refused(write, refused, wide, axes, axis):
    cells = join_showers(simulate(COUNT, seed=5, cells=(wide, wide))).ecal_gev
    message = refused(write(ECAL=np.transpose(cells, axes)))
    assert f"showers are longest along axis {axis}" in message
    assert f"np.moveaxis(ECAL, {axis}, 3)" in message


@pytest.mark.parametrize("theta", [(60, 60.1), (90, 90.1), (119.9, 120)])
def test_showers_of_all_public_angles_have_their_depth_last(write, verify, theta):
    tilted = join_showers(simulate(COUNT, seed=5, cells=(25, 25), theta_deg=theta))
    assert verify(write(ECAL=tilted.ecal_gev, energy=tilted.energy_gev))["showers"] == COUNT


MIXED = np.where(np.arange(COUNT) % 2, 11, 22)


@pytest.mark.parametrize(
    "changes",
    [
        {"pdgID": MIXED},
        {"pdgID": MIXED.astype("f4")[:, None]},
        {"energy": None, "theta": None, "target": "mixed"},
    ],
    ids=["integers", "floats", "target"],
)
def test_a_file_of_several_particles_is_refused(write, refused, showers, changes):
    if "target" in changes:
        changes = changes | {"target": np.stack([MIXED, showers.energy_gev], 1)}
    message = refused(write(**changes))
    assert "names 2 primary particles, such as 11 (30 showers) and 22 (30)" in message
    assert "write a file with the showers of one particle" in message


def test_two_files_of_different_particles_are_not_compared(write, cloudgan_here, showers):
    many = {
        "ECAL": np.concatenate([showers.ecal_gev] * 4),
        "energy": np.concatenate([showers.energy_gev] * 4),
        "theta": np.concatenate([showers.theta_rad] * 4),
    }
    electrons = write("e.h5", pdgID=np.full(4 * COUNT, 11), **many)
    photons = write("g.h5", pdgID=np.full(4 * COUNT, 22), **many)
    flags = (f"--generated={photons}", f"--reference={electrons}")
    said = cloudgan_here("validate", *flags, exits=2).stderr
    assert "g.h5 has photon showers and e.h5 electron showers" in said


@pytest.mark.parametrize("shape", [(COUNT, 2), (COUNT, 5), (COUNT, 1, 5)])
def test_the_energy_of_a_fixed_angle_file_is_column_1_of_target(
    *, write, verify, cloudgan_here, tmp_path, showers, shape
):
    target = np.zeros(shape)
    target[..., 0], target.reshape(COUNT, -1)[:, 1] = 11, showers.energy_gev
    path = write(target=target, energy=None, theta=None)
    notes = verify(path)["notes"]
    assert "ECAL is GeV: the median of sum(ECAL)/energy is 0.02" in notes[1]
    assert {"Primary particle: electron.", "It has a fixed angle: theta is 90 degrees."} < set(
        notes
    )
    write_hdf5(tmp_path / "ours.h5", [showers[:10]])
    cloudgan_here("convert", f"{path},{tmp_path / 'ours.h5'}", tmp_path / "both.h5")
    with h5py.File(tmp_path / "both.h5") as file:
        np.testing.assert_allclose(file["energy"][:COUNT], showers.energy_gev, rtol=1e-6)
        np.testing.assert_allclose(file["theta"][:COUNT], np.pi / 2, rtol=1e-6)


@pytest.mark.parametrize("name", ["ECAL", "energy"])
def test_a_missing_compression_filter_is_named_with_its_package(write, refused, showers, name):
    path = write(**{name: None})
    values = showers.ecal_gev if name == "ECAL" else showers.energy_gev
    with h5py.File(path, "r+") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(values.shape)
        plist.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (0,) * 4)  # Blosc
        space = h5py.h5s.create_simple(values.shape)
        made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F32LE, space, plist)
        made.write_direct_chunk((0,) * values.ndim, values.tobytes(), 0)
    message = refused(path)
    assert f"{name} is compressed with the HDF5 filter 32001, which is not installed" in message
    assert "pip install hdf5plugin" in message
    assert "damaged" not in message


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a.h5.gz", "gunzip a.h5.gz"),
        ("a.tar.gz", "tar -xzf a.tar.gz"),
        ("a.tgz", "tar -xzf a.tgz"),
        ("a.tfrecords", "gunzip -c a.tfrecords > unpacked-a.tfrecords"),
    ],
)
def test_a_compressed_file_comes_with_the_command_that_unpacks_it(tmp_path, refused, name, command):
    (tmp_path / name).write_bytes(gzip.compress(b"showers"))
    assert f"unpack it first ({command})" in refused(tmp_path / name)


@pytest.fixture
def with_empty(write, showers):
    """60 showers, of which number 7 is empty and number 40 nearly so."""
    ecal = showers.ecal_gev.copy()
    ecal[7], ecal[40] = 0, ecal[40] * 1e-3
    return write(ECAL=ecal)


def test_empty_showers_are_counted_by_verify(with_empty, verify):
    found = verify(with_empty)
    assert (found["showers"], found["empty"]) == (COUNT, 2)


@pytest.mark.parametrize("target", ["b.h5", "b.parquet"])
def test_empty_showers_are_left_out_of_a_conversion_and_counted(
    with_empty, cloudgan_here, tmp_path, showers, target
):
    if target.endswith("parquet"):
        pytest.importorskip("pyarrow")
    done = cloudgan_here("convert", with_empty, tmp_path / target)
    note = "2 of 60 showers are empty and left out"
    assert (done.stdout + done.stderr).count(note) == 1, "a terminal shows both streams"
    found = cloudgan_here("convert", with_empty, tmp_path / target, "--overwrite", "--json").json()
    assert found["showers"] == COUNT - 2
    assert "2 of 60 showers are empty and left out" in found["notes"][-1]
    if target.endswith("h5"):
        with h5py.File(tmp_path / target) as file:
            kept = np.delete(np.arange(COUNT), [7, 40])
            np.testing.assert_array_equal(file["energy"][:], showers.energy_gev[kept])
            np.testing.assert_array_equal(file["ECAL"][:], showers.ecal_gev[kept])


def test_the_unit_is_found_if_most_showers_are_empty(write, verify, showers):
    ecal = showers.ecal_gev.copy()
    ecal[: 2 * COUNT // 3] = 0
    found = verify(write(ECAL=ecal))
    assert found["empty"] == 2 * COUNT // 3
    assert "ECAL is GeV:" in found["notes"][1]


def test_showers_of_low_energy_are_not_empty(write, verify):
    low = join_showers(simulate(COUNT, seed=5, cells=(25, 25), energy_gev=(1, 2)))
    found = verify(write(ECAL=low.ecal_gev, energy=low.energy_gev))
    assert found["empty"] == 0


def test_a_file_of_empty_showers_is_refused(cloudgan_here, tmp_path, showers):
    poor = replace(showers, ecal_gev=showers.ecal_gev * np.float32(0.03))
    write_hdf5(tmp_path / "a.h5", [poor], attrs={"source": f"{GENERATED}, step 0"})
    done = cloudgan_here("convert", tmp_path / "a.h5", tmp_path / "b.h5", exits=2)
    assert "a.h5: 60 of 60 showers are empty" in done.stderr
    assert not (tmp_path / "b.h5").exists()


@pytest.mark.parametrize(
    ("preset", "wide", "deep", "said"),
    [
        ("paper", 25, 25, "showers have 25x25x25 cells, the preset needs 51x51x25: add"),
        ("smoke", 25, 20, "--image-shape=25x25x20"),
        ("smoke", 7, 25, "--image-shape=7x7x25"),
    ],
)
def test_showers_of_the_wrong_shape_are_refused_before_they_are_converted(
    *, write, cloudgan_here, tmp_path, showers, preset, wide, deep, said
):
    centre = slice((25 - wide) // 2, (25 + wide) // 2)
    path = write(ECAL=showers.ecal_gev[:, centre, centre, :deep])
    run = tmp_path / "run"
    words = ("train", f"--data={path}", f"--preset={preset}", f"--run={run}", "--unit=GeV")
    done = cloudgan_here(*words, exits=2)
    assert said in done.stderr
    assert "Converting" not in done.stderr
    assert not run.exists()


@pytest.mark.tf
def test_train_leaves_empty_showers_out_and_keeps_the_unit(
    with_empty, write, run_cloudgan, tmp_path
):
    pytest.importorskip("tensorflow")
    words = ("train", f"--run={tmp_path / 'run'}", "--max-steps=1", "--batch=8")
    asked = run_cloudgan(
        *words, "--preset=smoke", f"--data={write('b.h5', scale=(50, 1))}", check=False
    )
    assert asked.returncode == 2
    assert "Give --unit" in asked.stderr
    made = run_cloudgan(*words, "--preset=smoke", f"--data={with_empty}", "--unit=GeV")
    assert "2 of 60 showers are empty and left out" in made.stderr
    manifest = json.loads((tmp_path / "run/data/manifest.json").read_text())
    (source,) = manifest["sources"]
    assert (manifest["records"], source["records"], source["empty"]) == (58, 58, 2)
    assert "unit: GeV\n" in (tmp_path / "run/run.yaml").read_text()


UNCLEAR = [
    ("convert", "--verify", "FILE"),
    ("convert", "FILE", "out.h5"),
    ("plan", "--data=FILE", "--preset=smoke", "--provider=local"),
    ("deploy", "--data=FILE", "--preset=smoke", "--provider=local", "--yes", "--name=mine"),
    ("validate", "--generated=FILE", "--reference=OTHER"),
    ("validate", "--generated=OTHER", "--reference=FILE"),
    ("crossvalidate", "--data=FILE", "--preset=smoke", "--run=runs/folds"),
]
TRAINING = [
    ("train", "--data=FILE", "--preset=smoke", "--run=runs/mine", "--max-steps=1"),
    ("demo", "--data=FILE", "--run=runs/mine", "--max-steps=1"),
    ("evolve", "--task=showers", "--data=FILE", "--preset=smoke", "--run=runs/grid"),
    ("bench", "input", "--data=FILE", "--preset=smoke", "--rounds=1"),
]


def _named(words, path, showers):
    """Words of a command on a file whose unit is unclear and, if it needs one, another file."""
    other = path.with_name("other.h5")
    write_hdf5(other, [showers[::-1]])
    return [word.replace("FILE", str(path)).replace("OTHER", str(other)) for word in words]


@pytest.mark.parametrize("words", UNCLEAR, ids=" ".join)
def test_every_command_that_reads_showers_asks_for_the_unit_and_takes_it(
    *, write, cloudgan_here, tmp_path, monkeypatch, showers, words
):
    monkeypatch.chdir(tmp_path)
    words = _named(words, write(scale=(1e3, 1e3)), showers)
    asked = cloudgan_here(*words, exits=2).stderr
    assert "Give --unit, the unit of ECAL: GeV, MeV; or" in asked
    wrong = cloudgan_here(*words, "--unit=GeV*50", exits=2).stderr
    assert "the unit of ECAL is stated as GeV*50, but" in wrong


@pytest.mark.tf
@pytest.mark.parametrize("words", TRAINING, ids=" ".join)
def test_every_command_that_trains_takes_the_unit(write, run_cloudgan, tmp_path, showers, words):
    pytest.importorskip("tensorflow")
    words = _named(words, write(scale=(1e3, 1e3)), showers)
    words = [word.replace("--run=", f"--run={tmp_path}/") for word in words]
    done = run_cloudgan(*words, "--unit=GeV*50", check=False)
    assert done.returncode == 2, done.stderr
    assert "the unit of ECAL is stated as GeV*50, but" in done.stderr
