"""Showers from one layout to another by the real program."""

import json

import h5py
import numpy as np
import pytest

from data.conftest import make_hdf5, make_store


@pytest.fixture(scope="module")
def showers(tmp_path_factory, run_cloudgan):
    path = tmp_path_factory.mktemp("showers") / "showers.h5"
    run_cloudgan("simulate", path, "--showers=40", "--seed=3")
    return path


def test_a_round_trip_keeps_every_bit_of_the_public_layout(showers, tmp_path, cloudgan_here):
    store, back = tmp_path / "store", tmp_path / "back.h5"
    done = cloudgan_here("convert", showers, store, "--json")
    assert json.loads(done.stdout)["showers"] == 40
    assert (store / "part-00000-cells.npy").is_file()
    cloudgan_here("convert", store, back)
    with h5py.File(showers) as one, h5py.File(back) as other:
        for name in ("ECAL", "energy", "theta", "mtheta"):
            assert one[name].dtype == other[name].dtype, name
            np.testing.assert_array_equal(one[name][:], other[name][:], err_msg=name)


def test_a_truncated_file_is_named_and_leaves_no_output(showers, tmp_path, cloudgan_here):
    broken = tmp_path / "broken.h5"
    broken.write_bytes(showers.read_bytes()[:5000])
    done = cloudgan_here("convert", broken, tmp_path / "store", exits=2)
    assert "broken.h5" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()


def test_an_existing_target_is_replaced_only_with_overwrite(showers, tmp_path, cloudgan_here):
    cloudgan_here("convert", showers, tmp_path / "store")
    done = cloudgan_here("convert", showers, tmp_path / "store", exits=2)
    assert "--overwrite" in done.stderr
    cloudgan_here("convert", showers, tmp_path / "store", "--overwrite")


def test_an_unknown_layout_is_refused(showers, tmp_path, cloudgan_here):
    done = cloudgan_here("convert", showers, tmp_path / "x", "--to=parquet", exits=2)
    assert "store" in done.stderr


# --verify


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "set", make_hdf5(tmp_path / "a.h5", shape=(5, 5, 4)))


def test_every_layout_is_verified(store, tmp_path, cloudgan_here):
    for source, showers in (
        (store, 20),
        (store.as_uri(), 20),
        (tmp_path / "a.h5", 20),
        (f"{store},{tmp_path / 'a.h5'}", 40),
    ):
        found = cloudgan_here("convert", "--verify", source, "--json").json()
        assert (found["path"], found["verified"]) == (str(source), True)
        assert found["showers"] == showers


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("part-00003-energy.npy", "part-00003-energy.npy is damaged: its SHA-256"),
        ("part-00002-values.npy", "part-00002-values.npy is damaged"),
        ("manifest.json", "manifest.json"),
    ],
)
def test_one_flipped_bit_is_refused_with_the_file(store, refused, name, named):
    content = bytearray((store / name).read_bytes())
    content[len(content) // 2] ^= 1
    (store / name).write_bytes(content)
    for source in (store, store.as_uri()):
        assert named in refused("convert", "--verify", source)


def test_either_a_target_or_verify_is_given(store, refused):
    said = refused("convert", store)
    assert "no target was given; valid: cloudgan convert --verify SOURCE" in said
    assert "--verify with the target" in refused("convert", store, "b.h5", "--verify")
