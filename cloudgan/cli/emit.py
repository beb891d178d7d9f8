"""Prints results on standard output, as a person reads them or as JSON, and pages into report files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from cloudgan.cli.progress import ProgressBars
from cloudgan.cli.table_text import PIPE_WIDTH, table_lines, width_of, wrapped
from cloudgan.core import settings
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress, Silent
from cloudgan.core.user_text import printable
from cloudgan.reports.page import Page, page_csv, page_markdown, render
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table

_SCREEN = 120
_RENDERERS = {".html": render, ".md": page_markdown, ".csv": page_csv}
_SIGNS = {True: ("✓ ", "green"), False: ("✗ ", "red"), None: ("", "")}


def emit(result: Result, *, as_json: bool, verbose: bool = False) -> None:
    """Prints the result of a command on standard output.

    Raises:
        CloudganError: The problem of the result, after it is printed.
    """
    if as_json:
        print_json(result.as_json())
    else:
        show(result, verbose=verbose)
    if problem := result.problem():
        problem.is_printed = as_json  # the result is the only object on standard output
        raise problem


def show(result: Result, *, verbose: bool = False) -> None:
    """Prints a result as a person reads it, with `verbose` its basis, too."""
    console = Console(highlight=False, markup=False, emoji=False)
    for line in _lines(result.view(), width_of(console), verbose=verbose):
        console.print(line, soft_wrap=True)
    console.file.flush()  # nothing must follow what cannot be read, such as a question


def _lines(view: View, width: int, *, verbose: bool) -> Iterator[Text]:
    sign, style = _SIGNS[view.done]
    first, *rest = wrapped(sign + view.line, width, indent="  ")
    yield Text().append(first[: len(sign)], style).append(first[len(sign) :])
    yield from map(Text, rest)
    if view.table:
        yield Text()
        yield from table_lines(view.table, width)
    if view.table and (view.notes or view.warnings or view.commands):
        yield Text()
    for note in view.notes:
        yield from map(Text, wrapped(f"  {note}", width, indent="    "))
    for warning in view.warnings:
        first, *rest = wrapped(f"warning: {warning}", width, indent="  ")
        yield Text().append("warning:", "yellow").append(first.removeprefix("warning:"))
        yield from map(Text, rest)
    if not settings.is_watched():  # the person who reads the log of a node is not on it
        yield from _commands(view.commands, width)
    for basis in view.basis if verbose else ():
        yield Text()
        if isinstance(basis, Table):
            yield from table_lines(basis, width)
        else:
            yield from map(Text, wrapped(basis, width))


def _commands(commands: tuple[tuple[str, str], ...], width: int) -> Iterator[Text]:
    """Each command beside what it does, or above it where both do not fit, in a pipe on a usual screen."""
    column = max((len(command) for command, _ in commands), default=0)
    fits = all(2 + column + 4 + len(what) <= min(width, _SCREEN) for _, what in commands)
    for command, what in commands:
        line = Text("  ").append(printable(command), "bold")
        if fits:
            yield line.append(" " * (column + 4 - len(command)) * bool(what) + printable(what))
            continue
        yield line
        yield from (Text(f"      {row}") for row in wrapped(what, width - 6) if what)


def print_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object."""
    print(json.dumps(result, indent=2, allow_nan=False))


def progress_bars(*, as_json: bool) -> AbstractContextManager[Progress]:
    """Returns progress bars on standard error; with JSON output, a silent progress."""
    return nullcontext(Silent()) if as_json else ProgressBars()


def print_table(table: Table, file: TextIO | None = None, width: int = PIPE_WIDTH) -> None:
    """Prints a table on standard output, or into `file`.

    It fits a terminal; in a pipe or a file each row is on one line, unless it is wider than `width`.
    """
    console = Console(file=file, highlight=False, markup=False, emoji=False)
    console.print()
    for line in table_lines(table, width_of(console, width)):
        console.print(line, soft_wrap=True)
    console.print()


def check_report(report: str | None) -> None:
    """Checks the path of `--report` before anything is computed for it."""
    if report is None:
        return
    path = local_path(report, source="--report")
    if path.suffix.lower() not in _RENDERERS:
        raise ConfigError(f"--report={report}: a report file ends in {', '.join(_RENDERERS)}")
    if path.is_dir():
        raise ConfigError(f"--report={report} is a folder; name a file, such as {path}/report.html")
    if path.exists() and not path.is_file():
        raise ConfigError(
            f"--report={report} is a device or pipe; name a file, such as report.html"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"--report={report}: the folder {path.parent} does not exist; create it")


def write_report_file(page: Page, report: str) -> None:
    """Writes a page as HTML, as Markdown (text and tables) or as CSV (tables), by the suffix."""
    path = local_path(report, source="--report")
    write_atomic(path, _RENDERERS[path.suffix.lower()](page).encode(errors="replace"))
