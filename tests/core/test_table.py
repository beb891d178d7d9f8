"""Columns of the price tables."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from cloudgan.core.errors import DataError
from cloudgan.core.table import read_table


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
