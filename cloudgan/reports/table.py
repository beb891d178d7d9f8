"""Rows under heads: one value, shown on a page, in a terminal, as Markdown or as CSV."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cloudgan.reports.number import number_text

_SIGNS = {True: ("✓", "pass"), False: ("✗", "fail"), None: ("?", "unknown")}


@dataclass(frozen=True)
class Mark:
    """Whether something holds, in a sign and a word; None is unknown."""

    passed: bool | None
    text: str = ""

    def word(self) -> str:
        """``pass``, ``fail`` or ``unknown``."""
        return _SIGNS[self.passed][1]

    def told(self) -> str:
        """The sign, then the text or the word."""
        sign, word = _SIGNS[self.passed]
        return f"{sign} {self.text or word}"


@dataclass(frozen=True)
class Number:
    """A number that is shown in words of its own, such as ``at least 3.1``.

    Attributes:
        value: What it is sorted by and what CSV gets; None is unknown.
        text: What people read; not empty, unless it is unknown.
    """

    value: float | None
    text: str


Cell = str | int | float | Mark | Number | None
"""Text as it is, booleans as yes and no, numbers with four digits, marks, None as "unknown"."""

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Table:
    """Rows under column heads.

    Attributes:
        columns: Heads.
        rows: One cell per column each.
        caption: What the table says.
        align: One letter per column, ``l`` or ``r``; empty means: columns of numbers to the right,
            whatever of them is empty or unknown.
        interactive: On a page with script, the reader may sort and filter the rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    align: str = ""
    interactive: bool = False

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.caption!r} does not have {len(self.columns)} cells")
        if self.align and len(self.align) != len(self.columns):
            raise ValueError(f"align {self.align!r} is not for {len(self.columns)} columns")

    def alignment(self) -> str:
        """One letter per column."""
        return self.align or "".join(map(self._side, range(len(self.columns))))

    def _side(self, column: int) -> str:
        cells = [row[column] for row in self.rows if row[column] not in {None, ""}]
        return "r" if cells and all(map(_is_number, cells)) else "l"


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float | Number) and not isinstance(cell, bool)


def cell_text(cell: Cell) -> str:
    """What people read in a cell, wherever it is shown."""
    match cell:
        case Mark():
            return cell.told()
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
    """Whether nobody knows what stands in the cell."""
    match cell:
        case None | Mark(None) | Number(None):
            return True
        case float() | Number():
            return math.isnan(number_of(cell) or 0.0)
        case _:
            return False


def number_of(cell: Cell) -> float | None:
    """What a cell is sorted by, if that is a number; marks count 1 (pass) and 0 (fail)."""
    match cell:
        case Mark(passed):
            return None if passed is None else float(passed)
        case Number(value, _):
            return None if value is None else float(value)
        case bool() | str() | None:
            return None
        case float():
            return float(cell)  # NumPy's is one too, and does not print like one
        case int():
            return cell
