"""A table as HTML; what the page's script needs to sort it stands in attributes."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from cloudgan.reports.table import Mark, cell_text, is_unknown, number_of

if TYPE_CHECKING:
    from cloudgan.reports.table import Cell, Table

_MIDDLING = 24  # letters: text that folds on a narrow screen
_LONG = 60  # letters: text that is given a width to fold in, on any


def table_html(table: Table) -> str:
    """Returns the table in a box that scrolls sideways, so that the page never does.

    Cells hold ``data-value`` (a number to sort by) or ``data-unknown`` (last in both directions).
    """
    sides = table.alignment()
    caption = f"<caption><span>{escape(table.caption)}</span></caption>" if table.caption else ""
    named = f' role="region" tabindex="0" aria-label="{escape(table.caption)}"' * bool(caption)
    head = "".join(
        f'<th scope="col" class="{side}">{escape(column)}</th>'
        for side, column in zip(sides, table.columns, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(c, s) for s, c in zip(sides, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    html = (
        f'<div class="wide"{named}><table>{caption}\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )
    return f'<div class="rows" data-rows>{html}</div>' if table.interactive else html


def _cell(cell: Cell, side: str) -> str:
    letters = len(cell) if isinstance(cell, str) else 0
    long = " long" if letters > _LONG else " middling" if letters > _MIDDLING else ""
    return f'<td class="{side}{long}"{_order(cell)}>{_content(cell)}</td>'


def _order(cell: Cell) -> str:
    if is_unknown(cell):
        return " data-unknown"
    number = number_of(cell)
    if number is None:
        return ""
    # JavaScript spells it so.
    told = repr(number) if math.isfinite(number) else "Infinity" if number > 0 else "-Infinity"
    return f' data-value="{told}"'


def _content(cell: Cell) -> str:
    text = escape(cell_text(cell))
    if isinstance(cell, Mark):
        return f'<span class="mark {cell.word()}">{text}</span>'
    if is_unknown(cell):
        return f'<span class="unknown">{text}</span>'
    return text
