"""What docs/validation.md says of the measures and the shipped gates is so."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloudgan.validation.gates import load_gates
from cloudgan.validation.known_measures import IDEALS

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"

if not PAGE.exists():
    pytest.skip("a source distribution has no docs", allow_module_level=True)


def told():
    rows = (line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines())
    return {row[0].strip("| `"): row[1:4] for row in rows if row[0].startswith("| `")}


def test_each_measure_stands_in_the_table_with_its_ideal():
    assert {name: float(row[0]) for name, row in told().items()} == dict(IDEALS)


def test_the_limits_are_those_of_the_shipped_gates():
    shipped = {}
    for gate in load_gates().gate:
        shipped.setdefault(gate.measure, [f"{gate.good:g}", f"{gate.acceptable:g}"])
    assert {name: row[1:] for name, row in told().items()} == {
        name: shipped.get(name, ["-", "-"]) for name in IDEALS
    }
