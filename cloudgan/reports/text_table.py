"""A table as Markdown, for people, and as CSV, for programs."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from cloudgan.reports.table import Mark, cell_text, is_unknown, number_of

if TYPE_CHECKING:
    from cloudgan.reports.table import Cell, Table

_SHORTEST_RULE = 3
# Underscores inside a word are no emphasis, and names are full of them.
_SPECIAL = re.compile(r"[\\|`*~$\[]|(?<!\w)_|_(?!\w)")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet may take for a formula; the last four are the full-width signs."""


def markdown(table: Table) -> str:
    """Returns a GitHub-flavoured table, its caption before it; ends with a line end.

    Source: GitHub Flavored Markdown 0.29, section 4.10.
    """
    rows = [[markdown_text(column) for column in table.columns]]
    rows += [[markdown_text(cell_text(cell)) for cell in row] for row in table.rows]
    widths = [max(_SHORTEST_RULE, *map(len, column)) for column in zip(*rows, strict=True)]
    sides = table.alignment()
    rule = [
        "-" * (width - 1) + ":" if side == "r" else "-" * width
        for side, width in zip(sides, widths, strict=True)
    ]
    lines = [_line(rows[0], widths, sides), _line(rule, widths, sides)]
    lines += [_line(row, widths, sides) for row in rows[1:]]
    caption = f"{markdown_text(table.caption)}\n\n" if table.caption else ""
    return caption + "\n".join(lines) + "\n"


def csv_text(table: Table) -> str:
    """Returns the table as CSV: heads, then rows, numbers with all their digits.

    Unknown is a word (``unknown``, or such as ``at least 3``), since an empty field is a zero to
    many programs. Marks are ``pass``, ``fail`` or ``unknown``. The caption is left out. Text that a
    spreadsheet would run as a formula has an apostrophe before it.

    Source: https://owasp.org/www-community/attacks/CSV_Injection (2026-11-21).
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_harmless, table.columns))
    writer.writerows([_field(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def markdown_text(text: str) -> str:
    """Returns text that Markdown reads as nothing but text, on one line."""
    text = _SPECIAL.sub(lambda found: "\\" + found.group(), " ".join(text.split()))
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _line(cells: list[str], widths: list[int], sides: str) -> str:
    padded = (
        cell.rjust(width) if side == "r" else cell.ljust(width)
        for cell, width, side in zip(cells, widths, sides, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def _field(cell: Cell) -> str:
    if isinstance(cell, Mark):
        return cell.word()
    number = None if is_unknown(cell) else number_of(cell)
    return _harmless(cell_text(cell)) if number is None else repr(number)


def _harmless(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
