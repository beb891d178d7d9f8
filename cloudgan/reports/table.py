"""Tables: one value, rendered as Markdown and CSV here, as HTML by `page.py`, for a terminal in `cli/table_text.py`."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cloudgan.core.durations import duration_text
from cloudgan.core.errors import number_text

_SIGNS = {True: ("✓", "pass"), False: ("✗", "fail"), None: ("?", "unknown")}


@dataclass(frozen=True)
class Mark:
    """A pass or fail mark; None is unknown."""

    passed: bool | None
    text: str = ""

    def word(self) -> str:
        """``pass``, ``fail`` or ``unknown``."""
        return _SIGNS[self.passed][1]

    def label(self) -> str:
        """Returns the sign, then the text or the word."""
        sign, word = _SIGNS[self.passed]
        return f"{sign} {self.text or word}"


@dataclass(frozen=True)
class Number:
    """A number with its own text, such as ``at least 3.1``; the value is for sorting and CSV, None is unknown."""

    value: float | None
    text: str


Cell = str | int | float | Mark | Number | None
"""Text, booleans (yes, no), numbers (four digits), marks, None ("unknown")."""

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Table:
    """Rows under column heads; the reader of an HTML page can sort the rows of an interactive one.

    `align` has a letter per column, ``l`` or ``r``, by default ``r`` for numbers. `priority` has a digit per column:
    what a narrow terminal hides first has the highest; 0, the default, is never hidden.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    align: str = ""
    interactive: bool = False
    priority: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.caption!r} does not have {len(self.columns)} cells")
        if self.align and len(self.align) != len(self.columns):
            raise ValueError(f"align {self.align!r} does not have {len(self.columns)} letters")
        if self.priority and len(self.priority) != len(self.columns):
            raise ValueError(f"priority {self.priority!r} does not have {len(self.columns)} digits")

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Cell]], caption: str = "", **how: Any) -> Table:
        """Returns a table of at least one row, each with its cells by the same column heads."""
        found = tuple(rows)
        cells = tuple(tuple(row.values()) for row in found)
        return cls(tuple(found[0]), cells, caption, **how)

    def alignment(self) -> str:
        """Returns one letter per column."""
        return self.align or "".join(map(self._side, range(len(self.columns))))

    def _side(self, column: int) -> str:
        cells = [row[column] for row in self.rows if row[column] not in {None, ""}]
        return "r" if cells and all(map(_is_number, cells)) else "l"


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float | Number) and not isinstance(cell, bool)


def cell_text(cell: Cell) -> str:
    """Returns the displayed text of a cell."""
    match cell:
        case Mark():
            return cell.label()
        case Number(_, text):
            return text or UNKNOWN
        case str():
            return cell
        case bool():
            return "yes" if cell else "no"
        case None:
            return UNKNOWN
        case _:
            return UNKNOWN if math.isnan(cell) else number_text(cell)


def is_unknown(cell: Cell) -> bool:
    """Returns whether the value of the cell is unknown."""
    match cell:
        case None | Mark(None) | Number(None):
            return True
        case float() | Number():
            return math.isnan(number_of(cell) or 0.0)
        case _:
            return False


def number_of(cell: Cell) -> float | None:
    """Returns the numeric sort key of a cell; marks count 1 (pass) and 0 (fail)."""
    match cell:
        case Mark(passed):
            return None if passed is None else float(passed)
        case Number(value, _):
            return None if value is None else float(value)
        case bool() | str() | None:
            return None
        case float():
            return float(cell)  # NumPy floats print differently
        case int():
            return cell


_SHORTEST_RULE = 3
# Underscores inside a word are not emphasis.
_SPECIAL = re.compile(r"[\\|`*~$\[]|(?<!\w)_|_(?!\w)")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of spreadsheet formulas; the last four are full-width signs."""


def markdown(table: Table) -> str:
    """Returns the caption and a GitHub-flavoured table, with a final line break.

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
    """Returns the table as CSV: headers and rows without the caption, numbers with all digits.

    Unknown is a word (``unknown``, ``at least 3``): many programs read an empty field as zero.
    Marks are ``pass``, ``fail`` or ``unknown``. Text that looks like a formula is prefixed with an
    apostrophe.

    Source: https://owasp.org/www-community/attacks/CSV_Injection (2026-11-21).
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_harmless, table.columns))
    writer.writerows([_field(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def markdown_text(text: str) -> str:
    """Returns the text on one line, with Markdown syntax escaped."""
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
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number_text(text) else text


def _is_number_text(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_LEADING_ONE = 2.0
_MOST_DECIMALS = 6
_WHOLE_USD, _LEAST_USD = 100, 1e-6


def usd_text(usd: float) -> str:
    """Returns an amount of money: cents, of less than one USD two digits, of 100 or more none."""
    return "under 0.000001" if 0 < usd < _LEAST_USD else f"{usd:,.{_usd_decimals(usd)}f}"


def usd_cell(usd: float | None) -> Number:
    """Returns the cell of an amount of money; empty: unknown."""
    return Number(usd, "" if usd is None else usd_text(usd))


def time_cell(seconds: float | None) -> Number:
    """Returns the cell of a time; empty: unknown."""
    return Number(seconds, "" if seconds is None else duration_text(seconds))


def usd_range(low: float, high: float, between: str = " to ") -> str:
    """Returns an interval of money with equal decimals, such as ``0.10 to 0.50``.

    A lower bound that would be a zero with them has its own, such as ``0.00012 to 0.50``.
    """
    decimals = _usd_decimals(high)
    first, last = f"{low:,.{decimals}f}", usd_text(high)
    if low > 0 and not float(first.replace(",", "")):
        first = usd_text(low)
    return last if first == last else f"{first}{between}{last}"


def usd_range_cell(low: float | None, high: float | None) -> Number:
    """Returns the cell of a range that sorts by its upper end; without one it is empty."""
    return Number(high, "" if high is None else usd_range(low or 0.0, high, " - "))


def _usd_decimals(usd: float) -> int:
    if usd >= _WHOLE_USD:
        return 0
    return 2 if usd >= 1 or usd < _LEAST_USD else 1 - math.floor(math.log10(usd))


def error_text(value: float, error: float | None) -> str:
    """Returns value and standard error to the first digit of the error: ``0.983 ± 0.004``.

    Two digits if the first is 1; four digits of the value if the error is unknown.
    """
    if error is None or not 0 < error < math.inf:
        return number_text(float(value))
    power = math.floor(math.log10(error))
    decimals = max(0, -power + (error / 10.0**power < _LEADING_ONE))
    if decimals > _MOST_DECIMALS:
        return f"{number_text(float(value))} ± {error:.1g}"
    return f"{value:z,.{decimals}f} ± {error:,.{decimals}f}"
