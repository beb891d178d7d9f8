from __future__ import annotations

import csv
import io

import pytest

from cloudgan.reports.page import Bullets, KeyFigures, Page, Paragraph, Section, Table
from cloudgan.reports.page_text import page_csv, page_markdown
from cloudgan.reports.plots import Axis, Bar, StackedBars

SMALL = Table(("a", "b"), (("x", 1.5),), "Said before.")
PLOT = StackedBars("t", Axis("USD"), ("p",), (Bar("b", (1.0,)),))


def test_markdown_has_words_and_tables_of_each_section():
    blocks = (Paragraph("text"), Bullets(("[1] source", "two")),
              KeyFigures((("3 ms", "a step", "median"), ("4", "steps", ""))), PLOT, SMALL)  # fmt: skip
    page = Page("Title", "Lead.", (Section("One", blocks), Section("Only drawn", (PLOT,))), "Foot.")
    assert page_markdown(page) == (
        "# Title\n\nLead.\n\n## One\n\ntext\n\n- \\[1] source\n- two\n\n"
        "- a step: 3 ms (median)\n- steps: 4\n\nSaid before.\n\n"
        "| a   |   b |\n| --- | --: |\n| x   | 1.5 |\n\nFoot.\n"
    )


@pytest.mark.parametrize(
    ("text", "plain"),
    [("# no head", "\\# no head"), ("- no list", "\\- no list"), ("> x", "\\> x"),
     ("1. x", "1\\. x"), ("12) x", "12\\) x"), ("1.5 USD", "1.5 USD"), ("7 x", "7 x")],
)  # fmt: skip
def test_no_text_begins_a_heading_or_a_list(text, plain):
    assert f"\n\n{plain}\n" in page_markdown(Page("t", text))


def test_a_name_that_looks_like_a_tag_is_no_tag_in_markdown():
    nasty = "<script>alert(1)</script>"
    blocks = (Paragraph(nasty), Bullets((nasty,)), Table((nasty,), ((nasty,),), nasty))
    told = page_markdown(Page(nasty, nasty, (Section(nasty, blocks),), nasty))
    assert "<" not in told
    assert (
        told.count("&lt;script>") == 9
    )  # title, lead, heading, text, list, caption, head, cell, footer


def test_csv_has_the_tables_parted_by_an_empty_line():
    page = Page("t", "l", (Section("s", (SMALL, Paragraph("p"))), Section("u", (SMALL, PLOT))))
    rows = list(csv.reader(io.StringIO(page_csv(page))))
    assert rows == [["a", "b"], ["x", "1.5"], [], ["a", "b"], ["x", "1.5"]]


def test_a_page_without_tables_has_no_csv():
    assert page_csv(Page("t")) == ""
