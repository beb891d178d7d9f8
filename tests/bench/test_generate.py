"""Sources of `bench generate`, compared with Geant4; tests/cli/test_bench_measurements.py measures."""

from __future__ import annotations

import pytest

from cloudgan.bench.generate import (
    GEANT4,
    GENERATOR,
    ONNX,
    PARAMETRIC,
    generate_measurement,
    usable_tables,
)
from cloudgan.bench.harness import Measured
from cloudgan.bench.processes import Child
from cloudgan.reports.table import cell_text
from cloudgan.schema.options.bench import BenchGenerateOptions
from cloudgan.schema.presets import find_preset

SECONDS = {GENERATOR: 0.02, ONNX: 0.01, PARAMETRIC: 0.002, GEANT4: 0.5}


def measurement(*names, left_out=None):
    sources = []
    for name in names:
        wall = SECONDS[name]
        row = {"seconds_per_shower": wall, "showers_per_second": 1 / wall}
        row |= {"showers_per_cpu_second": 2 / wall, "latency_seconds": 2 * wall}
        row["latency_cpu_seconds"] = wall
        sources.append(Measured(name, {}, [dict(row) for _ in range(3)]))
    more = {"left_out": left_out or {}, "core": 1, "interrupted": False}
    return generate_measurement(BenchGenerateOptions(), find_preset("mini"), sources, **more)


def test_each_source_is_compared_with_geant4():
    found = measurement(*SECONDS)
    (table,) = found.tables
    assert "mini, 17x17x25 cells, electrons of 50 GeV, sharing one core" in table.caption
    assert "Geant4 simulates 75x75x25 cells for any preset" in table.caption
    rows = [list(map(cell_text, row)) for row in table.rows]
    assert rows[0] == [GENERATOR, "50", "25 (25 to 25)", "25", "100", "40", "20"]
    assert rows[1] == [ONNX, "100", "50 (50 to 50)", "50", "200", "20", "10"]
    assert found.geant4 == "measured in this run"
    assert "recorded" not in " ".join(found.lines)


def test_a_missing_geant4_is_reported_and_its_time_is_the_recorded_one():
    found = measurement(GENERATOR, left_out={"Geant4": "the package is missing"})
    said = " ".join(found.lines)
    assert "Geant4 is left out: the package is missing" in said
    assert "75x75" not in found.tables[0].caption
    assert cell_text(found.tables[0].rows[0][2]) == "24.5 (24.5 to 24.5)"  # 0.49 s at 50 GeV
    assert "Geant4's time is recorded: Geant4 11.4.1, 0.0098 s of one core per GeV" in said


def test_geant4_simulates_what_it_is_asked_for(tmp_path):
    tables, left_out = usable_tables(tmp_path)
    if left_out:
        pytest.skip(left_out)
    work = "cloudgan.bench.generate:geant4_rows"
    with Child("Geant4", work, tables=tables, energy_gev=[2.0, 2.0]) as child:
        child.facts()
        assert min(child().values()) > 0


def test_without_data_it_is_left_out_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("GEANT4_DATA_DIR", str(tmp_path))
    tables, left_out = usable_tables(tmp_path)
    assert tables is None
    assert "has no G4EMLOW" in left_out or "is missing" in left_out
