from __future__ import annotations

import math

import pytest

from cloudgan.reports.table import Mark, Number, Table, cell_text, is_unknown, number_of

NAN = float("nan")


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        (0.0, "0"),
        (1234.5678, "1,235"),
        (None, "unknown"),
        (NAN, "unknown"),
        (Mark(passed=True), "✓ pass"),
        (Mark(passed=False, text="too wide"), "✗ too wide"),
        (Mark(passed=None), "? unknown"),
        (Number(3.0, "about 3"), "about 3"),
        (Number(None, ""), "unknown"),
        (Number(None, "at least 2"), "at least 2"),
    ],
)
def test_each_cell_reads_as_words_or_as_a_number(cell, text):
    assert cell_text(cell) == text


@pytest.mark.parametrize("cell", [None, NAN, Mark(passed=None), Number(None, "x"), Number(NAN, "")])
def test_what_nobody_knows_is_unknown(cell):
    assert is_unknown(cell)


@pytest.mark.parametrize(
    "cell", [0, 0.0, "", False, Mark(passed=False), Number(0.0, "0"), math.inf, Number(0.0, "")]
)
def test_zero_and_nothing_said_are_known(cell):
    assert not is_unknown(cell)


@pytest.mark.parametrize(
    ("cell", "number"),
    [(3, 3), (0.5, 0.5), (Number(2.0, "two"), 2.0), (Mark(passed=True), 1.0),
     (Mark(passed=False), 0.0), (Mark(passed=None), None), ("3", None), (True, None), (None, None)],
)  # fmt: skip
def test_numbers_and_marks_have_a_number_to_be_sorted_by(cell, number):
    assert number_of(cell) == number


def test_columns_of_numbers_stand_to_the_right_whatever_is_missing_in_them():
    rows = ((1, None, "a", "", True, None, ""), (2.5, Number(1.0, "1"), 3, 4, False, None, ""))
    table = Table(tuple("abcdefg"), rows)
    assert table.alignment() == "rrlrlll"
    assert Table(("a",), ((1,),), align="l").alignment() == "l"


def test_rows_and_letters_must_fit_the_columns():
    with pytest.raises(ValueError, match="2 cells"):
        Table(("a", "b"), (("1",),))
    with pytest.raises(ValueError, match="is not for 2 columns"):
        Table(("a", "b"), (), align="l")
