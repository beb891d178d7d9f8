"""Showers from one layout to another by the real program."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest


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
