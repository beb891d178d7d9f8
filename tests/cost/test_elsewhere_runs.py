"""Runs as measurements."""

from __future__ import annotations

import pytest

from cloudgan.core.record import RunRecord
from cloudgan.cost.elsewhere_runs import PAPER_SHOWERS, measured_run, paper_measurements


def on(record: RunRecord, device: str, replicas: int) -> RunRecord:
    first, *rest = record.lines
    numerics = first.numerics.model_copy(update={"device": device, "replicas": replicas})
    return RunRecord.model_construct(lines=(first.model_copy(update={"numerics": numerics}), *rest))


def test_the_papers_fastest_fed_run_of_each_size_counts():
    found = {(one.accelerator, one.accelerators): one for one in paper_measurements()}
    assert len(found) == len(paper_measurements()) == 11
    assert found["V100", 128].epoch_seconds == 33.22
    assert found["V100", 32].epoch_seconds == 115.02
    assert found["V100", 32].first_more_seconds == pytest.approx(240.90 - 115.02)
    assert found["V100", 32].between_seconds == pytest.approx(120.0 - 115.02)
    assert {one.showers for one in found.values()} == {PAPER_SHOWERS}


def test_a_record_on_a_known_gpu_is_a_measurement(record):
    found = measured_run("mine", on(record, "Tesla T4", 2))
    assert found[:6] == ("T4", 2, 100, 10.0, 3.0, 10.0)
    assert found.name == "mine on 2 x T4"


def test_a_tpu_of_two_cores_a_chip_is_counted_in_chips(record):
    assert measured_run("mine", on(record, "TPU v3", 8)).accelerators == 4


def test_a_processor_is_no_offers_accelerator_and_the_reason_is_said(record):
    assert "no cloud's offer names" in measured_run("mine", on(record, "CPU", 1))


def test_a_record_without_a_steady_epoch_measures_nothing(lines):
    assert "no complete epoch after the first" in measured_run("x", RunRecord(lines=lines[:2]))
    assert "no complete epoch" in measured_run("x", RunRecord(lines=()))
