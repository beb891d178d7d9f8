"""Peak performance of accelerators, and bounds from it."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import DataError
from cloudgan.money.catalog import load_catalog
from cloudgan.speed.accelerator_specs import (
    load_accelerator_specs,
    name_of_device,
    speed_bounds,
)


def test_all_whole_accelerators_that_can_be_rented_have_peaks():
    provisioned = {row.accelerator for row in load_catalog().rows if row.accelerator_count}
    assert {
        name for name in provisioned - set(load_accelerator_specs()) if "(1/" not in name
    } == set()


@pytest.mark.parametrize(
    ("measured", "other", "speed_ratio"),
    [
        ("V100", "TPU-v3", 75.0 / 35.0),
        ("V100", "TPU-v2", 29.5 / 35.0),
        ("TPU-v2", "TPU-v3", 75.0 / 29.5),
        ("TPU-v3", "V100", 35.0 / 75.0),
    ],
)
def test_what_the_paper_measured_lies_within_the_bounds_from_its_other_runs(
    measured, other, speed_ratio
):
    accelerator_specs = load_accelerator_specs()
    slow, fast = speed_bounds(accelerator_specs[measured], accelerator_specs[other])
    assert slow <= speed_ratio <= fast


def test_bounds_there_and_back_are_each_others_inverse():
    accelerator_specs = load_accelerator_specs()
    slow, fast = speed_bounds(accelerator_specs["V100"], accelerator_specs["H100"])
    assert speed_bounds(accelerator_specs["H100"], accelerator_specs["V100"]) == pytest.approx(
        (1 / fast, 1 / slow)
    )


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("TPU v3", "TPU-v3"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA GeForce GTX 1080", None),
        ("CPU", None),
    ],
)
def test_a_drivers_name_finds_the_catalogues(device, name):
    assert name_of_device(device, load_accelerator_specs()) == name


def test_a_duplicate_accelerator_is_rejected(tmp_path):
    path = tmp_path / "peaks.csv"
    head = "accelerator,float32_tflops,memory_gb_per_second,source,date,checked,note\n"
    path.write_text(head + "X,1,2,a sheet,unknown,no,\nX,1,3,a sheet,unknown,no,\n")
    with pytest.raises(DataError, match=r"peaks\.csv:3: duplicate row of X"):
        load_accelerator_specs(path)
