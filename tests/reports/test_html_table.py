from __future__ import annotations

import re

from cloudgan.reports.html_table import table_html
from cloudgan.reports.table import Mark, Number, Table


def cells(*row):
    table = Table(tuple(map(str, range(len(row)))), (row,))
    return re.findall(r"<td[^>]*>.*?</td>", table_html(table))


def test_numbers_carry_what_they_are_sorted_by_with_all_digits():
    told = cells(1 / 3, Number(2.5, "two and a half"), Mark(passed=False), float("-inf"))
    found = [re.search(r'data-value="([^"]+)"', cell).group(1) for cell in told]
    assert found == ["0.3333333333333333", "2.5", "0.0", "-Infinity"]


def test_what_is_unknown_is_marked_and_carries_no_number():
    for cell in cells(None, float("nan"), Number(None, "at least 2"), Mark(passed=None)):
        assert " data-unknown" in cell
        assert "data-value" not in cell


def test_text_carries_neither():
    assert cells("7", "", True) == [
        '<td class="l">7</td>',
        '<td class="l"></td>',
        '<td class="l">yes</td>',
    ]


def test_long_text_is_given_room_to_fold():
    assert 'class="l"' in cells("x" * 24)[0]
    assert 'class="l middling"' in cells("x" * 25)[0]
    assert 'class="l long"' in cells("x" * 61)[0]


def test_only_interactive_tables_are_for_the_script():
    assert "data-rows" not in table_html(Table(("a",), ((1,),)))
    assert "data-rows" in table_html(Table(("a",), ((1,),), interactive=True))


def test_heads_name_their_columns_and_the_caption_names_the_box_that_scrolls():
    html = table_html(Table(("a & b",), ((1,),), 'says "x"'))
    assert '<th scope="col" class="r">a &amp; b</th>' in html
    assert 'role="region" tabindex="0" aria-label="says &quot;x&quot;"' in html
