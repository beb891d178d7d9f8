"""`--report=FILE`: the tables that a command shows, as a page, as Markdown or as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError
from cloudgan.core.whole_file import write_whole
from cloudgan.reports.page import Table, write
from cloudgan.reports.text_table import csv_text, markdown

if TYPE_CHECKING:
    from cloudgan.reports.page import Page

ENDINGS = (".html", ".md", ".csv")


def check_report(report: str | None) -> None:
    """Finds whether a report can be written there, before anything is computed for it.

    Raises:
        ConfigError: It has another ending, or its folder is not there.
    """
    if report is None:
        return
    path = Path(report)
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"--report={report}: a report ends in {', '.join(ENDINGS)}")
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"--report={report}: {path.parent} is no folder to write a file into")


def write_report_file(page: Page, path: Path) -> None:
    """Writes a page: as HTML with all it shows, as Markdown or CSV its tables only.

    Raises:
        DataError: It cannot be written; what stood there is as it was.
    """
    ending = path.suffix.lower()
    if ending == ".html":
        write(page, path)
        return
    tables = [
        block for section in page.sections for block in section.blocks if isinstance(block, Table)
    ]
    shown = markdown if ending == ".md" else csv_text
    head = f"# {page.title}\n\n{page.lead}".strip() + "\n\n" if ending == ".md" else ""
    write_whole(path, (head + "\n".join(map(shown, tables))).encode())
