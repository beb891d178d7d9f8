"""A table in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.reports.table import Mark, cell_text, is_unknown

if TYPE_CHECKING:
    from typing import TextIO

    import rich.table
    from rich.text import Text

    from cloudgan.reports.table import Cell, Table

_WIDE_ENOUGH = 10_000


def show_table(table: Table, file: TextIO | None = None) -> None:
    """Prints the table on standard output, or into `file`.

    A terminal folds what is too wide for it. Elsewhere (a pipe, a file) each row stays one line.
    """
    from rich.console import Console

    console = Console(file=file, highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, emoji=False, width=_WIDE_ENOUGH)
    console.print(rich_table(table), crop=False)


def rich_table(table: Table) -> rich.table.Table:
    """Returns the table as rich draws it; no text of it is read as markup or as a control."""
    from rich import box
    from rich.table import Table as RichTable

    drawn = RichTable(
        title=_plain(table.caption) if table.caption else None,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for side, column in zip(table.alignment(), table.columns, strict=True):
        drawn.add_column(
            _plain(column), justify="right" if side == "r" else "left", overflow="fold"
        )
    for row in table.rows:
        drawn.add_row(*map(_text, row))
    return drawn


def _text(cell: Cell) -> Text:
    if is_unknown(cell):
        return _plain(cell_text(cell), style="dim italic")
    if isinstance(cell, Mark):
        return _plain(cell_text(cell), style="green" if cell.passed else "red")
    return _plain(cell_text(cell))


def _plain(text: str, style: str = "") -> Text:
    """Text that a terminal cannot take for a command: names come from files of others."""
    from rich.text import Text

    shown = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return Text("".join(shown), style=style)
