"""Tables as lines of text: no number and no word is cut, whatever the width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from cloudgan.core.user_text import printable
from cloudgan.reports.table import Cell, Mark, Table, cell_text, is_unknown

PIPE_WIDTH = 10_000
_GAP = 2
_CAPTION = 80  # characters of the caption of a narrower table
_COMFORTABLE = 20  # characters of a column of text, before columns are dropped

_COUNT = re.compile(r"(?<=\d) x (?=\S)")
_NO_BREAK = (
    "\0x\0"  # NUL is not in printable text: a space that is no break, as in 2 x n1-standard-8
)


def table_lines(table: Table, width: int) -> list[Text]:
    """Returns the lines of a table, none longer than `width` unless a single word is.

    Text wraps at spaces. If that does not suffice, columns are dropped by their priority, and the last
    line names them; if that does not suffice either, each row is a block of lines `column: cell`.
    """
    lines = _body(table, width)
    if not table.caption:
        return lines
    widest = max((line.cell_len for line in lines), default=0)
    return [*map(Text, wrapped(table.caption, min(width, max(widest, _CAPTION)))), *lines]


def _body(table: Table, width: int) -> list[Text]:
    digits = table.priority or "0" * len(table.columns)
    shown = list(range(len(table.columns)))
    for least in (_comfortable, _longest_word):
        while True:
            widths = _widths(table, shown, width, least)
            if widths:
                lines = _grid(table, shown, widths)
                hidden = [name for n, name in enumerate(table.columns) if n not in shown]
                if hidden:
                    said = f"hidden at {width} columns: {', '.join(hidden)}"
                    said += "; use a wider terminal or --json"
                    lines += [Text(row, "dim") for row in wrapped(said, width)]
                return lines
            last = max(shown, key=lambda column: (digits[column], column))
            if digits[last] == "0":
                break
            shown.remove(last)
    return _stacked(table, width)


def width_of(console: Console, otherwise: int = PIPE_WIDTH) -> int:
    """Returns the columns of a terminal, and `otherwise` where there is none."""
    return console.width if console.is_terminal else otherwise


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Returns printable rows of a text, broken at spaces only; all but the first are indented."""
    rows = []
    for row in printable(text).split("\n"):
        if cell_len(row) <= width:
            rows.append(row)
        else:
            rows += textwrap.wrap(
                _COUNT.sub(_NO_BREAK, row),
                width,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return [row.replace("\0", " ") for row in rows]


def _longest(parts: Iterable[str]) -> int:
    return max(map(cell_len, parts), default=0)


def _longest_word(texts: Sequence[str]) -> int:
    words = (word for text in texts for word in _COUNT.sub(_NO_BREAK, text).split())
    return _longest(word.replace("\0", " ") for word in words)


def _comfortable(texts: Sequence[str]) -> int:
    return max(_longest_word(texts), min(_longest(texts), _COMFORTABLE))


def _widths(
    table: Table, shown: list[int], width: int, least: Callable[[Sequence[str]], int]
) -> list[int] | None:
    """Returns the widths of the shown columns; None: they do not fit."""
    sides, smallest, widths = table.alignment(), [], []
    for column in shown:
        head = printable(table.columns[column])
        texts = [printable(cell_text(row[column])) for row in table.rows]
        whole = _longest(row for text in texts for row in text.split("\n"))
        # A number is not wrapped, such as 0.98 ± 0.01.
        cells = whole if sides[column] == "r" else least(texts)
        smallest.append(max(_longest_word([head]), cells))
        widths.append(max(cell_len(head), whole, smallest[-1]))
    room = width - _GAP * (len(shown) - 1)
    if sum(smallest) > room:
        return None
    while sum(widths) > room:
        slack = [(here > low, here) for here, low in zip(widths, smallest, strict=True)]
        widths[slack.index(max(slack))] -= 1
    return widths


def _grid(table: Table, shown: list[int], widths: list[int]) -> list[Text]:
    sides = table.alignment()
    rows: list[list[tuple[str, str]]] = [
        [(printable(table.columns[column]), "bold") for column in shown],
        *([_styled(row[column]) for column in shown] for row in table.rows),
    ]
    lines = []
    for row in rows:
        cells = [wrapped(text, width) for (text, _), width in zip(row, widths, strict=True)]
        for depth in range(max(map(len, cells), default=0)):
            line = Text()
            for number, column in enumerate(shown):
                text = cells[number][depth] if depth < len(cells[number]) else ""
                space = " " * (widths[number] - cell_len(text))
                line.append(" " * _GAP if number else "")
                if sides[column] == "r":
                    line.append(space).append(text, row[number][1])
                else:
                    line.append(text, row[number][1]).append(space)
            line.rstrip()
            lines.append(line)
    return lines


def _stacked(table: Table, width: int) -> list[Text]:
    lines: list[Text] = []
    for row in table.rows:
        if lines:
            lines.append(Text())
        for name, cell in zip(table.columns, row, strict=True):
            text, style = _styled(cell)
            head, *rest = wrapped(f"{name}: {text}", width, indent="  ")
            key = min(len(printable(name)) + 1, len(head))
            lines.append(Text().append(head[:key], "bold").append(head[key:], style))
            lines += [Text(each, style) for each in rest]
    return lines


def _styled(cell: Cell) -> tuple[str, str]:
    """Returns printable text, because cells can hold names from untrusted files, and its style."""
    text = printable(cell_text(cell))
    if is_unknown(cell):
        return text, "dim italic"
    if isinstance(cell, Mark):
        return text, "green" if cell.passed else "red"
    return text, ""
