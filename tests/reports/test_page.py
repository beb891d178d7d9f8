from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from cloudgan.reports.charts import Axis, Bar, Line, Plot, StackedBars
from cloudgan.reports.drawing import Drawing
from cloudgan.reports.page import (
    Bullets,
    Graphic,
    KeyFigures,
    Page,
    Paragraph,
    Section,
    fragment,
    page_csv,
    page_markdown,
    render,
    table_html,
)
from cloudgan.reports.table import Mark, Number, Table

NASTY = "<script>alert('x')</script> & \"more\""
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """Reads a page and keeps what a test asks about."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.tags, self.ids, self.cells, self.text = [], [], [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag == "td":
            self.cells.append([dict(attrs)["class"], ""])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data
        if "td" in self.open:
            self.cells[-1][1] += data


@pytest.fixture(scope="module")
def everything():
    table = Table(
        ("check", "value", "verdict", NASTY),
        (
            ("a", 1.25, Mark(passed=True), 3),
            (NASTY, None, Mark(passed=False, text="too wide"), 12345),
        ),
        caption=NASTY,
    )
    one, two = Line(NASTY, (1, 2), (1, 2)), Line("b", (1, 2), (2, None))
    loss = Plot("Losses", Axis("epoch"), Axis("loss"), lines=(one, two), caption=NASTY)
    cost = StackedBars(NASTY, Axis("USD"), (NASTY,), (Bar(NASTY, (1.5,)), Bar("other", (None,))))
    with Drawing() as drawing:
        drawing.axes().plot([1, 2], marker="o")
        graphic = Graphic(drawing.svg(NASTY), NASTY)
    blocks = (
        Paragraph(NASTY), Bullets((NASTY, "two")), KeyFigures((("3 ms", NASTY, "remark"),)),
        table, loss, cost, graphic,
    )  # fmt: skip
    return render(Page(NASTY, NASTY, (Section("First", blocks), Section(NASTY, ())), NASTY))


def test_every_tag_closes_in_order_no_two_share_an_id_and_references_have_targets(everything):
    reader = Reader(everything)
    assert reader.wrong == reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    used = {a["href"][1:] for _, a in reader.tags if a.get("href", "").startswith("#")}
    assert used <= set(reader.ids)


def test_the_page_loads_nothing(everything):
    assert "://" not in everything
    reader = Reader(re.sub(r"(?s)<script>.*</script>", "", everything))
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in reader.tags}
    targets = [a[key] for _, a in reader.tags for key in ("href", "src", "xlink:href") if key in a]
    assert all(target.startswith("#") for target in targets)
    assert "@import" not in everything
    assert "url(" not in everything.replace("url(#", "")


def test_text_is_escaped_wherever_it_goes(everything):
    assert everything.count("<script") == 1, "the one that sorts"
    assert Reader(everything).text.count("<script>alert('x')</script>") >= 9


def test_numbers_are_right_aligned_verdicts_are_words_and_what_is_unknown_is_called_so(everything):
    found = Reader(everything).cells
    assert found[:4] == [["l", "a"], ["r", "1.25"], ["l", "✓ pass"], ["r", "3"]]
    assert [text for _, text in found[5:8]] == ["unknown", "✗ too wide", "12,345"]


def test_the_page_reads_in_the_dark_and_on_paper(everything):
    assert "prefers-color-scheme: dark" in everything
    assert "@media print" in everything


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
    message = page_markdown(Page(nasty, nasty, (Section(nasty, blocks),), nasty))
    assert "<" not in message
    assert (
        message.count("&lt;script>") == 9
    )  # title, lead, heading, text, list, caption, head, cell, footer


def test_csv_has_the_tables_parted_by_an_empty_line_and_is_empty_without_any():
    page = Page("t", "l", (Section("s", (SMALL, Paragraph("p"))), Section("u", (SMALL, PLOT))))
    rows = list(csv.reader(io.StringIO(page_csv(page))))
    assert rows == [["a", "b"], ["x", "1.5"], [], ["a", "b"], ["x", "1.5"]]
    assert page_csv(Page("t")) == ""


def test_a_page_of_several_sections_begins_with_links_to_them():
    sections = tuple(Section(f"Part <{n}>", (Paragraph("text"),)) for n in range(1, 5))
    read = Reader(render(Page("Long", sections=sections)))
    links = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    assert links == ["#section-1", "#section-2", "#section-3", "#section-4"]
    assert {link[1:] for link in links} <= set(read.ids)
    assert not read.wrong
    assert "<nav" not in render(Page("Short", sections=sections[:3]))


def test_the_policy_allows_the_pictures_in_a_figure_and_no_others():
    picture = Graphic('<svg><image href="data:image/png;base64,AA"/></svg>')
    assert "img-src data:;" in render(Page("a", sections=(Section("s", (picture,)),)))
    assert "img-src" not in render(Page("a", sections=(Section("s", (Graphic("<svg></svg>"),)),)))


def cells(*row, **options):
    table = Table(tuple(map(str, range(len(row)))), (row,), **options)
    return re.findall(r"<td[^>]*>.*?</td>", table_html(table))


def test_numbers_of_a_table_that_sorts_carry_all_digits_and_what_is_unknown_a_mark():
    said = cells(1 / 3, Number(2.5, "two and a half"), Mark(passed=False), float("-inf"), np.float64(7),
                 interactive=True)  # fmt: skip
    found = [re.search(r'data-value="([^"]+)"', cell).group(1) for cell in said]
    assert found == ["0.3333333333333333", "2.5", "0.0", "-inf", "7.0"]
    for cell in cells(
        None, float("nan"), Number(None, "at least 2"), Mark(passed=None), interactive=True
    ):
        assert " data-unknown" in cell
        assert "data-value" not in cell
    assert cells("7", "", True, interactive=True) == [
        '<td class="l">7</td>', '<td class="l"></td>', '<td class="l">yes</td>'
    ]  # fmt: skip
    assert "data-value" not in cells(1 / 3)[0], "only where they are sorted"


@pytest.mark.parametrize(("letters", "fold"), [(24, "l"), (25, "l middling"), (61, "l long")])
def test_long_text_is_given_room_to_fold(letters, fold):
    assert f'class="{fold}"' in cells("x" * letters)[0]


def test_heads_name_their_columns_and_the_caption_names_the_box_that_scrolls():
    html = table_html(Table(("a & b",), ((1,),), 'says "x"'))
    assert '<th scope="col" class="r">a &amp; b</th>' in html
    assert 'role="region" tabindex="0" aria-label="says &#34;x&#34;"' in html


def test_a_chart_has_two_drawings_a_title_its_caption_and_its_data():
    html = render(Page("t", sections=(Section("s", (replace(PLOT, caption="Said."),)),)))
    assert html.count("<svg ") == 2
    assert '<p class="title">t</p>' in html
    assert "<figcaption>Said.</figcaption>" in html
    assert re.search(r"<details><summary>Data of this plot</summary>.*total, USD", html, re.DOTALL)


def test_a_fragment_has_styles_of_its_own_and_no_script():
    html = fragment((Section("Run", (SMALL, PLOT)),))
    assert html.startswith('<div class="cloudgan">\n<style>.cloudgan {')
    assert "& {" in html
    assert ":root" not in html
    assert "<script" not in html
    assert Reader(html).wrong == []
