"""Showers of a trained run in a file."""

import json

import h5py
import numpy as np
import pytest

from cloudgan.api.run import open_run
from cloudgan.core.errors import ConfigError

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


def test_the_file_has_the_public_layout_and_the_requested_ranges(
    small_demo, tmp_path, cloudgan_here
):
    out = tmp_path / "generated.h5"
    flags = ("--showers=30", "--energy=20:40", "--theta=80:100")
    done = cloudgan_here("generate", small_demo.copy, out, *flags, "--json")
    said = json.loads(done.stdout)
    assert (said["showers"], said["step"], said["cells"]) == (30, 20, [17, 17, 25])
    assert "milliseconds_per_shower" not in said, "the first block traces the graph"
    with h5py.File(out) as file:
        assert file["ECAL"].shape == (30, 17, 17, 25)
        energy, theta = file["energy"][:], file["theta"][:]
        response = file["ECAL"][:].sum((1, 2, 3)) / 50 / energy
    assert 20 <= energy.min() <= energy.max() <= 40
    assert 80 <= np.rad2deg(theta).min() <= np.rad2deg(theta).max() <= 100
    assert np.all((response > 0.002) & (response < 0.1))


def test_a_seed_gives_the_same_showers_however_many_and_another_seed_other_ones(
    small_demo, tmp_path, cloudgan_here
):
    ecal = []
    for count, seed in ((3, 1), (3, 1), (300, 1), (3, 2)):
        out = tmp_path / f"{len(ecal)}.h5"
        flags = (f"--output={out}", f"--showers={count}", f"--seed={seed}")
        said = cloudgan_here("generate", small_demo.copy, *flags, "--json").json()
        assert (said.get("milliseconds_per_shower", 0) > 0) == (count == 300), "after block 1"
        with h5py.File(out) as file:
            ecal.append((file["energy"][:3], file["ECAL"][:3]))
    (energy, first), (_, again), (same_energy, many), (_, other) = ecal
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(energy, same_energy)
    np.testing.assert_allclose(first, many, rtol=1e-4, atol=1e-6)
    assert np.any(first != other)


def test_a_run_samples_the_showers_of_generate_in_memory_in_gev(
    small_demo, tmp_path, cloudgan_here
):
    out, run = tmp_path / "generated.h5", open_run(small_demo.copy)
    flags = ("--showers=5", "--seed=3", "--energy=20:40", "--theta=80:100")
    cloudgan_here("generate", small_demo.copy, out, *flags)
    ecal_gev = run.sample((20.0, 40.0), (80.0, 100.0), 5, seed=3)
    with h5py.File(out) as file:
        np.testing.assert_array_equal(50 * ecal_gev, file["ECAL"][:])
    assert run.sample(30.0, 90.0, 2).shape == (2, 17, 17, 25)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((1000.0, 90.0), "trained on"),
        ((30.0, (5.0, 90.0)), "trained on"),
        ((30.0, 90.0, 0), "at least 1"),
    ],
)
def test_a_sample_beyond_the_training_is_refused(small_demo, arguments, said):
    with pytest.raises(ConfigError, match=said):
        open_run(small_demo.copy).sample(*arguments)


def test_ranges_beyond_the_training_need_extrapolate_and_the_file_states_the_trained_one(
    small_demo, tmp_path, cloudgan_here
):
    out = tmp_path / "beyond.h5"
    flags = ("--showers=3", "--energy=200:300", "--theta=20:30")
    said = cloudgan_here("generate", small_demo.copy, out, *flags, exits=2).stderr
    assert "--extrapolate" in said
    assert not out.exists()
    cloudgan_here("generate", small_demo.copy, out, *flags, "--extrapolate")
    with h5py.File(out) as file:
        assert file["energy"][:].min() >= 200
        assert np.rad2deg(file["theta"][:]).max() <= 30.001
        assert "GeV" in file.attrs["trained_range"]


def test_an_existing_file_is_replaced_only_with_overwrite(small_demo, tmp_path, cloudgan_here):
    out = tmp_path / "kept.h5"
    out.write_bytes(b"mine")
    done = cloudgan_here("generate", small_demo.copy, out, exits=2)
    assert "--overwrite" in done.stderr
    assert out.read_bytes() == b"mine"
    flags = ("--showers=2", "--overwrite", "--step=0", "--json")
    said = cloudgan_here("generate", small_demo.copy, out, *flags).json()
    assert said["step"] == 0, "the untrained network generates too"
    with h5py.File(out) as file:
        assert len(file["energy"]) == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--theta=5:10"], "--theta="),
        (["--step=7"], "available: 0, 20"),
        (["--step=best"], "no epoch was validated"),
    ],
)
def test_conditions_outside_the_training_range_are_refused(
    small_demo, tmp_path, cloudgan_here, flags, said
):
    out = tmp_path / "out.h5"
    done = cloudgan_here("generate", small_demo.copy, out, *flags, exits=2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_a_folder_without_a_run_is_refused(tmp_path, cloudgan_here):
    done = cloudgan_here("generate", tmp_path / "nothing", tmp_path / "out.h5", exits=2)
    assert "there is no run" in done.stderr
    (tmp_path / "nothing" / "checkpoints").mkdir(parents=True)
    done = cloudgan_here("generate", tmp_path / "nothing", tmp_path / "out.h5", exits=2)
    assert "has no checkpoint; available: none. Train first" in done.stderr
