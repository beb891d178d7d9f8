"""Prints results: lines, tables and JSON on standard output, and pages into report files."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cloudgan.cli.views.progress import ProgressBars
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import ConfigError, Interrupted
from cloudgan.core.local_path import local_path
from cloudgan.core.printable import printable
from cloudgan.core.progress import Silent
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Mark, cell_text, is_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TextIO

    import rich.table
    from rich.text import Text

    from cloudgan.core.errors import CloudganError
    from cloudgan.core.progress import Progress
    from cloudgan.reports.page import Page
    from cloudgan.reports.table import Cell, Table

REPORT_SUFFIXES = (".html", ".md", ".csv")
_PIPE_WIDTH = 10_000


def print_result(result: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints a result on standard output: as one JSON object, or one line per key."""
    if as_json:
        print_json(result)
        return
    for line in _lines(result, 0):
        print(printable(line))


def emit(result: Result, *, as_json: bool) -> None:
    """Prints a result on standard output: as one JSON object, or what a person reads of it."""
    if as_json:
        print_json(result.as_json())
    else:
        _print_view(result.view())
    if problem := result.problem():
        raise mark_printed(problem, as_json=as_json)


def _print_view(view: View) -> None:
    sign = {True: "✓ ", False: "✗ ", None: ""}[view.done]
    for number, line in enumerate(view.line.splitlines()):
        print(printable(f"{sign if not number else ''}{line}"))
    if view.table:
        print_table(view.table)
    for line in (*view.notes, *(f"warning: {each}" for each in view.warnings)):
        print(printable(f"  {line}"))
    widest = max((len(command) for command, _ in view.commands), default=0)
    for command, what in view.commands:
        print(printable(f"  {command:<{widest}}  {what}"))


def print_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object."""
    print(json.dumps(result, indent=2, allow_nan=False))


def mark_printed(error: CloudganError, *, as_json: bool) -> CloudganError:
    """Returns an error that ends a command whose result is already on standard output.

    With --json that result is the only object there; the error adds no second one.
    """
    error.is_printed = as_json
    return error


def raise_if_interrupted(*, interrupted: bool, as_json: bool) -> None:
    """Ends a measurement whose result is printed.

    Raises:
        Interrupted: Ctrl-C stopped it early.
    """
    if interrupted:
        raise mark_printed(
            Interrupted("stopped before the last round; the result has the rounds until then"),
            as_json=as_json,
        )


@contextmanager
def progress_bars(*, as_json: bool) -> Iterator[Progress]:
    """Yields progress bars on standard error; with JSON output, a silent progress."""
    if as_json:
        yield Silent()
        return
    with ProgressBars() as bars:
        yield bars


def print_table(
    table: Table, file: TextIO | None = None, width: int = _PIPE_WIDTH, whole: str | None = None
) -> None:
    """Prints a table on standard output, or into `file`.

    A terminal folds wide cells. In a pipe or a file each row stays on one line, unless it is wider than
    `width`. Cells of the column `whole` are never folded.
    """
    from rich.console import Console

    console = Console(file=file, highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, emoji=False, width=width)
    console.print(rich_table(table, whole), crop=False)


def rich_table(table: Table, whole: str | None = None) -> rich.table.Table:
    """Returns the table for rich; no cell is read as markup or as a control sequence."""
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
            _plain(column),
            justify="right" if side == "r" else "left",
            overflow="fold",
            no_wrap=column == whole,
        )
    for row in table.rows:
        drawn.add_row(*map(_cell, row))
    return drawn


def check_report(report: str | None) -> None:
    """Checks the path of `--report` before anything is computed for it.

    Raises:
        ConfigError: The suffix is unknown, or the folder does not exist.
    """
    if report is None:
        return
    path = local_path(report, source="--report")
    if path.suffix.lower() not in REPORT_SUFFIXES:
        raise ConfigError(f"--report={report}: a report file ends in {', '.join(REPORT_SUFFIXES)}")
    if path.is_dir():
        raise ConfigError(f"--report={report} is a folder; name a file, such as {path}/report.html")
    if path.exists() and not path.is_file():
        raise ConfigError(
            f"--report={report} is a device or pipe; name a file, such as report.html"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"--report={report}: the folder {path.parent} does not exist; create it")


def write_report_file(page: Page, report: str) -> None:
    """Writes a page as HTML, as Markdown (text and tables) or as CSV (tables), by the suffix.

    Raises:
        ConfigError: The path is a URL.
        DataError: The file cannot be written; its old content is unchanged.
    """
    from cloudgan.reports.page import page_csv, page_markdown, render

    path = local_path(report, source="--report")
    renderers = {".html": render, ".md": page_markdown, ".csv": page_csv}
    write_atomic(path, renderers[path.suffix.lower()](page).encode(errors="replace"))


def _lines(result: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, value in result.items():
        name = "  " * depth + key.replace("_", " ")
        if isinstance(value, dict):
            yield name
            yield from _lines(value, depth + 1)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            yield name
            for item in value:
                yield from _lines(item, depth + 1)
        else:
            yield f"{name:<34} {value}"


def _cell(cell: Cell) -> Text:
    if is_unknown(cell):
        return _plain(cell_text(cell), style="dim italic")
    if isinstance(cell, Mark):
        return _plain(cell_text(cell), style="green" if cell.passed else "red")
    return _plain(cell_text(cell))


def _plain(text: str, style: str = "") -> Text:
    """Replaces control characters: cells can hold names from untrusted files."""
    from rich.text import Text

    return Text(printable(text), style=style)
