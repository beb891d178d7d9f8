"""`--report=FILE`: the tables that a command shows, as a page, as Markdown or as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError
from cloudgan.core.whole_file import write_whole
from cloudgan.reports.page import render
from cloudgan.reports.page_text import page_csv, page_markdown

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
    if path.is_dir():
        raise ConfigError(f"--report={report}: this is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"--report={report}: {path.parent} is no folder to write a file into")


def write_report_file(page: Page, path: Path) -> None:
    """Writes a page: as HTML all it shows, as Markdown its words and tables, as CSV its tables.

    Raises:
        DataError: It cannot be written; what stood there is as it was.
    """
    forms = {".html": render, ".md": page_markdown, ".csv": page_csv}
    write_whole(path, forms[path.suffix.lower()](page).encode(errors="replace"))
