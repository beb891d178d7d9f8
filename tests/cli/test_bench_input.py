"""`cloudgan bench input`, small and quick: that what it tells hangs together, never how fast it is."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf

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


def test_three_ways_take_turns_and_the_ratios_are_of_their_medians(cloudgan_here, shards):
    flags = (*QUICK, f"--data={shards}", "--step_showers_per_second=100", "--json")
    found = json.loads(cloudgan_here("bench", "input", *flags).stdout)
    assert [one["name"] for one in found["variants"]] == ["decoded", "memory", "file"]
    assert (found["showers"], found["rounds"], found["batch"], found["threads"]) == (36, 2, 8, 2)
    assert found["bytes_per_image"] == 9 * 9 * 25 * 4
    for one in found["variants"]:
        rate = one["showers_per_second"]["median"]
        assert one["times_what_a_step_takes"] == pytest.approx(rate / 100)
        assert one["image_bytes_per_second"] == pytest.approx(rate * 8100)
        assert one["cpu_seconds"]["min"] > 0
        assert one["cold_showers_per_second"]["count"] == 2
    assert found["ratio"]["min"] <= found["ratio"]["median"] <= found["ratio"]["max"]
    assert found["make_file_seconds"] > 0
    again = json.loads(cloudgan_here("bench", "input", *flags).stdout)
    assert again["make_file_seconds"] is None


def test_the_table_is_for_people_and_without_data_showers_are_simulated(cloudgan_here):
    said = cloudgan_here("bench", "input", *QUICK, "--showers=20")
    assert "smoke, batches of 8, 2 readers, 18 showers" in said.stdout
    assert "What a step takes is not known" in said.stdout
    assert "From the file showers come" in said.stdout


def test_where_no_file_can_be_two_ways_are_left_and_it_is_told(
    cloudgan_here, tmp_path, shards, monkeypatch
):
    from cloudgan.data import prepared_cache

    monkeypatch.setattr(prepared_cache, "SPARE_BYTES", 1 << 60)
    for path in (shards / prepared_cache.FOLDER).glob("*.cells"):
        path.unlink()
    said = cloudgan_here("bench", "input", *QUICK, f"--data={shards}", "--json")
    found = json.loads(said.stdout)
    assert [one["name"] for one in found["variants"]] == ["decoded", "memory"]
    assert "has no room for them" in found["no_file"]
    assert found["ratio"] is None


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--rounds=0", "at least 1"),
        ("--batch=0", "at least 1"),
        ("--showers=1", "--showers 2"),
        ("--seconds=0", "--seconds above 0"),
        ("--step_showers_per_second=0", "a positive number"),
        ("--preset=papr", "paper"),
        ("--data=nowhere.h5", "nowhere.h5"),
    ],
)
def test_bad_input_gets_a_sentence(cloudgan_here, flag, said):
    assert said in cloudgan_here("bench", "input", flag, exits=2).stderr
