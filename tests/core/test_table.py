"""Columns of the price tables."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from cloudgan.core.errors import DataError
from cloudgan.core.table import read_keyed, read_table
from cloudgan.money.carbon import GridRow, PowerRow
from cloudgan.money.forecast import StartupTime
from cloudgan.speed.measured import AcceleratorSpec
from cloudgan.speed.spot import InterruptionTrace


class Row(BaseModel):
    name: str
    usd: float
    most: float | None = None


def read(tmp_path, text):
    file = tmp_path / "rows.csv"
    file.write_text(text)
    return [row for _, row in read_table(file, Row)]


def test_a_column_with_a_default_may_be_absent_because_older_files_lack_it(tmp_path):
    assert read(tmp_path, "usd,name\n2,a\n") == [Row(name="a", usd=2)]
    assert read(tmp_path, "name,usd,most\na,2,3\nb,1,\n") == [
        Row(name="a", usd=2, most=3),
        Row(name="b", usd=1),
    ]


@pytest.mark.parametrize("head", ["name", "name,usd,more", "name,usd,usd"])
def test_other_columns_are_refused_with_their_names(tmp_path, head):
    with pytest.raises(DataError, match=r"rows\.csv:1: expected the columns name, usd, most"):
        read(tmp_path, f"{head}\n")


@pytest.mark.parametrize(
    ("model", "row", "said"),
    [
        (StartupTime, "gcp,1,0,540,a list,2022-03-06,", "low_seconds"),
        (PowerRow, "T4,-70,rated,a sheet,2022-03-06,A,", "watts"),
        (GridRow, "gcp,us-east1,0,a page,2022-03-06,", "g_per_kwh"),
        (AcceleratorSpec, "X,0,2,a sheet,unknown,no,", "float32_tflops"),
        (InterruptionTrace, "gcp,V100,n1,a,4,0,3,https://example.org,2022-03-06,", "node_hours"),
    ],
)
def test_an_impossible_number_of_a_table_is_named_with_its_line(tmp_path, model, row, said):
    file = tmp_path / "rows.csv"
    file.write_text(f"{','.join(model.model_fields)}\n{row}\n")
    with pytest.raises(DataError, match=rf"rows\.csv:2: {said} is"):
        list(read_table(file, model))


def test_a_repeated_key_is_named_with_both_lines(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("name,usd\na,1\nb,1\na,2\n")
    with pytest.raises(DataError, match=r"rows\.csv:4: duplicate row of a, see line 2"):
        read_keyed(file, Row, lambda row: row.name)
