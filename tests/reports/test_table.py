from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest

from cloudgan.core.errors import number_text
from cloudgan.reports.table import (
    Mark,
    Number,
    Table,
    cell_text,
    csv_text,
    error_text,
    is_unknown,
    markdown,
    markdown_text,
    number_of,
    usd_range,
    usd_text,
)

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


def test_none_and_nan_are_unknown_and_zero_and_empty_text_are_known():
    unknown = (None, NAN, Mark(passed=None), Number(None, "x"), Number(NAN, ""))
    known = (0, 0.0, "", False, Mark(passed=False), Number(0.0, "0"), math.inf, Number(0.0, ""))
    assert [*map(is_unknown, (*unknown, *known))] == [True] * len(unknown) + [False] * len(known)


@pytest.mark.parametrize(
    ("cell", "number"),
    [(3, 3), (0.5, 0.5), (Number(2.0, "two"), 2.0), (Mark(passed=True), 1.0),
     (Mark(passed=False), 0.0), (Mark(passed=None), None), ("3", None), (True, None), (None, None)],
)  # fmt: skip
def test_numbers_and_marks_have_a_number_to_be_sorted_by(cell, number):
    assert number_of(cell) == number


def test_columns_of_numbers_with_gaps_are_right_aligned():
    rows = ((1, None, "a", "", True, None, ""), (2.5, Number(1.0, "1"), 3, 4, False, None, ""))
    table = Table(tuple("abcdefg"), rows)
    assert table.alignment() == "rrlrlll"
    assert Table(("a",), ((1,),), align="l").alignment() == "l"


def test_rows_and_letters_must_fit_the_columns():
    with pytest.raises(ValueError, match="2 cells"):
        Table(("a", "b"), (("1",),))
    with pytest.raises(ValueError, match="does not have 2 letters"):
        Table(("a", "b"), (), align="l")


def read(text):
    return list(csv.reader(io.StringIO(text)))


def test_csv_keeps_all_digits_and_calls_unknown_unknown():
    row = (1 / 3, 12345678.9, 7, None, Number(0.1, "a tenth"), Number(None, "at least 2"),
           Mark(passed=False, text="too wide"), Mark(passed=None), True, "")  # fmt: skip
    heads, cells = read(csv_text(Table(tuple("abcdefghij"), (row,), "left out")))
    assert heads == list("abcdefghij")
    assert cells == [
        "0.3333333333333333", "12345678.9", "7", "unknown", "0.1", "at least 2", "fail", "unknown",
        "yes", "",
    ]  # fmt: skip


def test_csv_holds_commas_quotes_and_line_ends_of_any_system():
    rows = (('a "b", c', "one\r\ntwo"), ("three\rfour", "five\nsix"))
    assert read(csv_text(Table(("x", "y"), rows)))[1:] == [
        ['a "b", c', "one\ntwo"],
        ["three\nfour", "five\nsix"],
    ]


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]
)
def test_no_spreadsheet_finds_a_formula_in_csv(sign):
    nasty = f"{sign}cmd|' /C calc'!A0"
    heads, cells = read(csv_text(Table((nasty, "b"), ((nasty, Number(None, nasty)),))))
    assert heads[0][0] == cells[0][0] == cells[1][0] == "'"


def test_numbers_that_came_as_text_stay_numbers_in_csv():
    rows = (("-0.5", "+3", "-1e-3", -2.5),)
    assert read(csv_text(Table(tuple("abcd"), rows)))[1] == ["-0.5", "+3", "-1e-3", "-2.5"]


def test_markdown_is_a_table_with_the_caption_before_it():
    table = Table(("name", "USD"), (("a", 1.5), ("long name", None)), "What it costs.")
    assert markdown(table) == (
        "What it costs.\n\n"
        "| name      |     USD |\n"
        "| --------- | ------: |\n"
        "| a         |     1.5 |\n"
        "| long name | unknown |\n"
    )


def test_a_table_without_rows_is_still_a_table():
    assert markdown(Table(("a",), ())) == "| a   |\n| --- |\n"
    assert csv_text(Table(("a",), ())) == "a\n"


def test_each_markdown_row_has_the_same_number_of_bars():
    table = Table(("a|b", "c"), (("x|y\nz|", "`|`"), ("\\|", "")))
    bars = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in
            markdown(table).splitlines()]  # fmt: skip
    assert bars == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("*bold* ~~gone~~ `code`", "\\*bold\\* \\~\\~gone\\~\\~ \\`code\\`"),
        ("[text](where)", "\\[text](where)"),
        ("Standard_ND96_v4", "Standard_ND96_v4"),
        ("_emphasis_", "\\_emphasis\\_"),
        ("a &lt; b", "a &amp;lt; b"),
        ("$x$", "\\$x\\$"),
        ("two\n\nlines", "two lines"),
    ],
)
def test_markdown_reads_text_as_text(text, plain):
    assert markdown_text(text) == plain


def test_numbers_of_numpy_are_numbers_to_programs():
    half = np.float64(0.5)
    table = Table(("a", "b"), ((half, Number(half, "a half")),))
    assert csv_text(table) == "a,b\n0.5,0.5\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12345678, "12,345,678"),
        (0.5, "0.5"),
        (1234.56, "1,235"),
        (9999.4, "9,999"),
        (9999.6, "10,000"),  # four digits of it are 1e+04
        (-9999.6, "-10,000"),
        (1234567.8, "1,234,568"),
        (1.23456e-7, "1.235e-07"),
    ],
)
def test_numbers_have_four_digits_and_their_thousands_are_parted(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.98312, 0.00412, "0.983 ± 0.004"),
        (0.98312, 0.00132, "0.9831 ± 0.0013"),
        (1.0, 0.00995, "1.000 ± 0.010"),
        (12.3456, 2.6, "12 ± 3"),
        (12.3456, 1.5, "12.3 ± 1.5"),
        (12345.6, 123.0, "12,346 ± 123"),
        (0.5, None, "0.5"),
        (0.5, 0.0, "0.5"),
        (0.5, float("nan"), "0.5"),
        (3.2e-9, 4.1e-10, "3.2e-09 ± 4e-10"),
        (-0.004, 0.02, "0.00 ± 0.02"),
    ],
)
def test_a_value_has_as_many_digits_as_its_error(value, error, text):
    assert error_text(value, error) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (1234.5, "1,234"),
        (41.4, "41.40"),
        (0.16, "0.16"),
        (0.0019, "0.0019"),
        (0.000494, "0.00049"),
        (2.3e-5, "0.000023"),
        (1.6e-9, "under 0.000001"),
        (0.0, "0.00"),
    ],
)
def test_an_amount_of_money_is_no_zero_and_no_mere_bound(usd, text):
    assert usd_text(usd) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.1, 0.5, "0.10 to 0.50"),
        (0.0, 0.5, "0.00 to 0.50"),
        (0.0003, 0.5, "0.00030 to 0.50"),
        (0.2, 120, "0.20 to 120"),
        (3.9e-5, 0.0083, "0.000039 to 0.0083"),
        (1.2e-4, 1.4e-4, "0.00012 to 0.00014"),
        (0.5, 0.5, "0.50"),
    ],
)
def test_the_lower_end_of_an_interval_of_money_is_zero_only_if_it_is(low, high, text):
    assert usd_range(low, high) == text
