"""A page as Markdown and as CSV: its words and tables, without what only a screen can show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cloudgan.reports.page import Bullets, KeyFigures, Page, Paragraph, Section, Table
from cloudgan.reports.text_table import csv_text, markdown, markdown_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.reports.page import Block

# At the beginning of a line, these make a heading, a quotation or a list.
_OPENING = re.compile(r"^(\d+(?=[.)](\s|$))|(?=[#>+=-]))")


def page_markdown(page: Page) -> str:
    """Returns title, lead, text and tables of all sections; plots and graphics are left out.

    Source: GitHub Flavored Markdown 0.29.
    """
    parts = [f"# {markdown_text(page.title)}", _line(page.lead)]
    for section in page.sections:
        told = [text for text in map(_block, section.blocks) if text]
        if told:
            parts += [f"## {markdown_text(section.title)}", *told]
    parts.append(_line(page.footer))
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def page_csv(page: Page) -> str:
    """Returns the tables of the page, parted by an empty line; most pages have more than one."""
    return "\n".join(map(csv_text, _tables(page.sections)))


def _tables(sections: tuple[Section, ...]) -> Iterator[Table]:
    for section in sections:
        yield from (block for block in section.blocks if isinstance(block, Table))


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return _line(text)
        case Bullets(items):
            return "\n".join(f"- {_line(item)}" for item in items)
        case KeyFigures(items):
            return "\n".join(f"- {_key_figure(*item)}" for item in items)
        case Table():
            return markdown(block)
        case _:
            return ""


def _key_figure(value: str, label: str, remark: str) -> str:
    told = f" ({markdown_text(remark)})" if remark else ""
    return f"{_line(label)}: {markdown_text(value)}{told}"


def _line(text: str) -> str:
    """Text that begins a line, and begins nothing else."""
    return _OPENING.sub(lambda found: f"{found.group()}\\", markdown_text(text))
