from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from cloudgan.reports.html_table import table_html
from cloudgan.reports.table import Mark, Number, Table
from cloudgan.reports.text_table import csv_text, markdown, markdown_text


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


def test_each_row_of_markdown_has_as_many_bars_whatever_stands_in_it():
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
    assert table_html(table).count('data-value="0.5"') == 2
