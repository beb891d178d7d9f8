"""Prints results: lines, tables and JSON on standard output, and pages into report files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from cloudgan.cli.views.progress import ProgressBars
from cloudgan.cli.views.table_text import PIPE_WIDTH, table_lines, width_of
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress, Silent
from cloudgan.reports.page import Page
from cloudgan.reports.table import Table

REPORT_SUFFIXES = (".html", ".md", ".csv")


def print_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object."""
    print(json.dumps(result, indent=2, allow_nan=False))


@contextmanager
def progress_bars(*, as_json: bool) -> Iterator[Progress]:
    """Yields progress bars on standard error; with JSON output, a silent progress."""
    if as_json:
        yield Silent()
        return
    with ProgressBars() as bars:
        yield bars


def print_table(table: Table, file: TextIO | None = None, width: int = PIPE_WIDTH) -> None:
    """Prints a table on standard output, or into `file`.

    It fits a terminal; in a pipe or a file each row is on one line, unless it is wider than `width`.
    """
    from rich.console import Console

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
    """Writes a page as HTML, as Markdown (text and tables) or as CSV (tables), by the suffix."""
    from cloudgan.reports.page import page_csv, page_markdown, render

    path = local_path(report, source="--report")
    renderers = {".html": render, ".md": page_markdown, ".csv": page_csv}
    write_atomic(path, renderers[path.suffix.lower()](page).encode(errors="replace"))
