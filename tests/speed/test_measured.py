"""Runs as measurements, names of devices, data sheets and traces."""

import datetime as dt

import pytest

from cloudgan.money.catalog import load_catalog
from cloudgan.schema.record import RunRecord
from cloudgan.speed.measured import (
    PAPER_SHOWERS,
    load_accelerator_specs,
    measured_run,
    name_of_device,
    paper_measurements,
    speed_bounds,
)
from cloudgan.speed.model import fastest_runs
from cloudgan.speed.spot import interruption_rate, load_interruption_traces
from tests.money.conftest import lines, record

__all__ = ["lines", "record"]
SPECS = load_accelerator_specs()


def on(record, device, replicas):
    first, *rest = record.lines
    numerics = first.numerics.model_copy(
        update={"device": device, "replicas": replicas, "global_batch_size": 10 * replicas}
    )
    return RunRecord.model_construct(lines=(first.model_copy(update={"numerics": numerics}), *rest))


def test_all_fed_runs_of_the_paper_count_and_the_fastest_is_first():
    assert len(paper_measurements()) == 24
    usual = [one for one in fastest_runs(paper_measurements()) if one.batch in (96, 128)]
    found = {(one.accelerator, one.accelerators): one for one in usual}
    assert len(found) == 11
    assert found["V100", 128].epoch_seconds == 33.22
    of_32 = found["V100", 32]
    assert of_32.epoch_seconds == 115.02
    assert of_32.first_more_seconds == pytest.approx(240.90 - 115.02)
    assert of_32.between_seconds == pytest.approx(120.0 - 115.02)
    assert {one.showers for one in found.values()} == {PAPER_SHOWERS}


def test_a_record_on_a_known_accelerator_is_a_measurement(record):
    found = measured_run("mine", on(record, "Tesla T4", 2))
    assert found[:6] == ("T4", 2, 100, 10.0, 3.0, 10.0)
    assert (found.batch, found.steps, found.name) == (10, 5, "mine on 2 x T4")
    assert measured_run("mine", on(record, "TPU v3", 8)).accelerators == 4  # of two cores each


def test_a_record_on_a_cpu_or_without_steady_epoch_is_not_a_measurement(record, lines):
    assert "which no cloud offers" in measured_run("mine", on(record, "CPU", 1))
    for some in (lines[:2], ()):
        assert "no complete epoch after the first" in measured_run("x", RunRecord(lines=some))


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
    assert name_of_device(device, SPECS) == name


def test_all_whole_accelerators_that_can_be_rented_have_a_data_sheet():
    sold = {row.accelerator for row in load_catalog().rows if row.accelerator_count}
    assert {name for name in sold - set(SPECS) if "(1/" not in name} == set()


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
    slow, fast = speed_bounds(SPECS[measured], SPECS[other])
    assert slow <= speed_ratio <= fast
    back = speed_bounds(SPECS[other], SPECS[measured])
    assert back == pytest.approx((1 / fast, 1 / slow))


def test_each_trace_has_an_address_of_one_version_and_a_day_or_none():
    for row in load_interruption_traces():
        assert row.source.startswith("https://github.com/")
        assert "/blob/" in row.source
        assert row.date == "unknown" or dt.date.fromisoformat(row.date) < dt.date(2026, 11, 21)


@pytest.mark.parametrize(
    ("accelerator", "rate", "low", "high", "traces_of"),
    [
        ("V100", 0.137, 0.048, 0.289, ("V100",)),
        ("T4", 0.225, 0.175, 0.540, ("T4",)),
        ("H100", 0.143, 0.048, 0.540, ("T4", "V100")),  # without a trace: its cloud's others
    ],
)
def test_a_rate_is_that_of_all_traces_of_the_accelerator_together(
    accelerator, rate, low, high, traces_of
):
    found = interruption_rate("aws", accelerator)
    assert found[:3] == pytest.approx((rate, low, high), abs=0.002)
    assert found.accelerators == traces_of
    assert found.basis.startswith(f"public traces of {' and '.join(traces_of)}, ")


def test_a_cloud_without_a_trace_has_no_rate():
    assert {interruption_rate(name, "V100") for name in ("gcp", "azure", "lambda")} == {None}
