"""Reference times of `bench generate`; tests/cli/test_bench_measurements.py measures."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from cloudgan.bench.generate import usable_tables
from cloudgan.bench.measuring_process import MeasuringProcess
from cloudgan.core.progress import Silent


def test_geant4_simulates_what_it_is_asked_for():
    with ExitStack() as stack:
        tables, left_out = usable_tables(stack, Silent())
        if left_out:
            pytest.skip(left_out)
        process = stack.enter_context(MeasuringProcess("Geant4"))
        process.ask("begin", work="geant4", tables=tables, energy_gev=[2.0, 2.0])
        few, many = (process.ask("round", count=3, seed=seed) for seed in (0, 1))
        assert few["seconds"] > 0
        assert many["cpu_seconds"] > 0
    assert not Path(tables["folder"]).exists()


def test_without_data_it_is_left_out_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("GEANT4_DATA_DIR", str(tmp_path))
    with ExitStack() as stack:
        tables, left_out = usable_tables(stack, Silent())
    assert tables is None
    assert "has no G4EMLOW" in left_out or "is missing" in left_out
