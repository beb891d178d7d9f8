"""Small real measurements of step, generator, training runs and input pipeline; never their speed."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tf, pytest.mark.slow]


def test_two_variants_of_a_step_alternate(run_cloudgan, tmp_path):
    picture = tmp_path / "roof.png"
    flags = ("--preset=smoke", "--batch=4", "--rounds=2", f"--roofline={picture}", "--json")
    done = run_cloudgan("bench", "step", *flags)
    said = json.loads(done.stdout)
    assert done.stderr == ""
    assert said["ratio"]["count"] == said["rounds"] == 2
    assert 0 < said["ratio"]["min"] <= said["ratio"]["median"] <= said["ratio"]["max"]
    own, other = said["variants"]
    assert (own["conv_impl"], other["conv_impl"]) == ("phases", "published")
    assert own["global_batch"] == other["global_batch"] == 4
    assert own["seconds_per_step"]["min"] > 0
    # The same weights, showers and draws: whatever the form, the first step's loss is the same.
    assert own["first_loss"] == pytest.approx(other["first_loss"], rel=1e-5)
    # The limit is the counted operations at the speed that was measured right after the step.
    for row in own["rounds"]:
        counted = 4 * said["limit"]["gflop_per_shower"]
        assert row["limit_seconds"] * row["matmul_gflops"] == pytest.approx(counted)
        share = row["limit_seconds"] / row["seconds_per_step"]
        assert row["share_of_direct_limit"] == pytest.approx(share)
    assert 0 < said["share_of_direct_limit"]["median"] < 1
    assert len(said["layers"]) == 15
    assert all(one["seconds"] > 0 for one in said["layers"])
    assert picture.stat().st_size > 10_000


def test_the_generator_and_the_simulations_are_measured_on_the_same_electrons(run_cloudgan):
    flags = ("--preset=smoke", "--rounds=1", "--energy=2:4", "--json")
    done = run_cloudgan("bench", "generate", *flags, fork=False)
    said = json.loads(done.stdout)
    assert done.stderr == "", "TensorFlow's own messages"
    *generators, parametric = (one for one in said["sources"] if one["name"] != "Geant4")
    geant4 = [one for one in said["sources"] if one["name"] == "Geant4"]
    generator = generators[0]
    assert (said["cells"], said["energy_gev"]) == ([9, 9, 25], [2, 4])
    assert generator["rounds"][0]["showers"] % 16 == 0
    assert parametric["name"] == "parametric source"
    for other in said["sources"]:
        assert other["latency_seconds"]["median"] > 0
        if geant4:
            speeds = (one["showers_per_second"]["median"] for one in (other, *geant4))
            assert other["times_geant4"]["median"] == pytest.approx(np.divide(*speeds))
    assert len(geant4) == ("Geant4" not in said["left_out"])
    assert len(generators) == 1 + ("generator, ONNX Runtime" not in said["left_out"])
    if find_spec("geant4_pybind"):
        assert "is missing" not in said["left_out"].get("Geant4", "")


def test_replicas_and_processes_are_measured_against_threads(run_cloudgan):
    flags = ("--weak", "--replicas=2", "--workers=2", "--presets=smoke", "--steps=4", "--rounds=1")
    (study,) = json.loads(run_cloudgan("bench", "scaling", *flags, "--json").stdout)["studies"]
    names = ["threads only", "2 replicas", "2 processes", "2 independent runs"]
    assert [one["name"] for one in study["variants"]] == names
    assert [one["global_batch"] for one in study["variants"]] == [32, 64, 64, 64]
    for one in study["variants"]:
        (row,) = one["rounds"]
        assert row["showers"] == 4 * one["global_batch"]
        assert 0 < row["end_to_end"] < 10
        assert 0 < row["training_only"] < 10
        assert 0 < row["first_call_seconds"] < row["program_seconds"] - row["startup_seconds"]
        assert row["cpu_seconds"] > 0
        assert row["seconds_per_step"] * row["showers_per_second"] == pytest.approx(
            one["global_batch"]
        )


def test_a_grid_is_measured_on_one_core_and_with_a_rank_per_cell(run_cloudgan):
    pytest.importorskip("mpi4py")
    flags = ("--grids=1x2", "--rounds=1", "--iterations=2", "--batches=1", "--batch=4", "--json")
    found = json.loads(run_cloudgan("bench", "cells", *flags).stdout)
    (grid,) = found["grids"]
    assert (grid["grid"], grid["cells"]) == ("1x2", 2)
    assert grid["speedup"]["count"] == 1
    for how in ("single_core", "distributed"):
        parts = dict(grid["routines"][how])
        assert parts.pop("overall") == pytest.approx(sum(parts.values()))
        assert parts["train"] > 0


QUICK = ("--preset=smoke", "--rounds=2", "--seconds=0.01", "--batch=8", "--threads=2")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    from cloudgan.data.convert import convert
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    folder = tmp_path_factory.mktemp("input")
    write_hdf5(folder / "a.h5", simulate(40, seed=1, block=50))
    convert(str(folder / "a.h5"), folder / "set")
    return folder / "set"


def test_the_rates_of_a_store_are_cold_and_warm(cloudgan_here, shards):
    flags = (*QUICK, f"--data={shards}", "--step-showers-per-second=100", "--json")
    found = cloudgan_here("bench", "input", *flags).json()
    (one,) = found["variants"]
    assert (found["showers"], found["rounds"], found["batch"], found["threads"]) == (36, 2, 8, 2)
    assert found["bytes_per_image"] == 9 * 9 * 25 * 4
    rate = one["showers_per_second"]["median"]
    assert one["ratio_to_step"]["median"] == pytest.approx(rate / 100)
    assert one["image_bytes_per_second"]["median"] == pytest.approx(rate * 8100)
    assert one["cpu_seconds"]["min"] > 0
    assert one["cold_showers_per_second"]["count"] == 2


def test_without_data_showers_are_simulated(cloudgan_here):
    said = cloudgan_here("bench", "input", *QUICK, "--showers=20")
    assert "smoke, batches of 8, 2 readers, 18 showers" in said.stdout
    assert "The rate of a step is unknown" in said.stdout
