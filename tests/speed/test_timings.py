"""Timings are parsed, or rejected with the invalid line."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import DataError
from cloudgan.speed.timings import Timing, read_timings


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "runs.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_timings(path)

    return read


def test_columns_may_have_any_order_and_case(read):
    text = "\ufeffseconds, N ,cloud\r\n10.5,2,azure\r\n\r\n5.5,4.0,azure\r\n"
    assert read(text) == (Timing(2, 10.5), Timing(4, 5.5))


def test_nodes_are_optional_also_in_single_rows(read):
    assert read("n,seconds,nodes\n8,10,1\n16,6,\n") == (Timing(8, 10.0, 1), Timing(16, 6.0))


def test_steps_are_optional_and_whole(read):
    text = "n,seconds,steps\n8,10,162\n16,6,\n"
    assert read(text) == (Timing(8, 10.0, None, 162), Timing(16, 6.0))
    with pytest.raises(DataError, match=r"runs\.csv:2: steps is '1\.5'; expected an integer"):
        read("n,seconds,steps\n8,10,1.5\n")


@pytest.mark.parametrize("text", ["0", "-3", "nan", "inf", "", "1e999", "fast"])
def test_seconds_that_no_run_takes_are_refused(read, text):
    with pytest.raises(DataError, match=r"runs\.csv:3: seconds is .*expected a finite number"):
        read(f"n,seconds\n2,10\n4,{text}\n")


@pytest.mark.parametrize("text", ["2.5", "0", "-4", "nan", "", "two", "inf"])
def test_a_number_of_accelerators_is_whole_and_at_least_one(read, text):
    with pytest.raises(DataError, match=r"runs\.csv:2: n is .*integer"):
        read(f"n,seconds\n{text},10\n")


def test_more_nodes_than_accelerators_are_refused(read):
    with pytest.raises(DataError, match=r":2: n is 2 on 4 nodes"):
        read("n,seconds,nodes\n2,10,4\n")


def test_a_missing_column_is_named_with_the_nearest(read):
    with pytest.raises(DataError, match=r"no column 'seconds'.*Did you mean 'second'"):
        read("n,second\n2,10\n")


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_names_the_expected_columns(read, text):
    with pytest.raises(DataError, match=r"is empty.*n,seconds"):
        read(text)


def test_a_duplicate_column_is_rejected(read):
    with pytest.raises(DataError, match="duplicate column 'n'"):
        read("n,n,seconds\n1,2,3\n")


def test_rows_have_as_many_cells_as_there_are_columns(read):
    with pytest.raises(DataError, match=r":3: has 3 cells, expected 2"):
        read("n,seconds\n2,10\n4,5,6\n")


def test_binary_and_missing_files_are_reported(read, tmp_path):
    with pytest.raises(DataError, match="line 2: not UTF-8 text"):
        read(b"n,seconds\n\xff\xfe,1\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_timings(tmp_path / "missing.csv")
    with pytest.raises(DataError, match="is a folder"):
        read_timings(tmp_path)


def test_an_open_quote_is_reported_with_its_line(read):
    with pytest.raises(DataError, match=r"runs\.csv:\d: not CSV"):
        read('n,seconds\n2,"10\n')
