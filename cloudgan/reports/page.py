"""Self-contained HTML pages, without external libraries, fonts or image files; Markdown and CSV too.

A page is a value: sections of paragraphs, tables, key figures and charts. One template (page.html.jinja)
with a style sheet renders it; the only script sorts tables, and the content security policy blocks
everything else. For example::

    costs = StackedBars("Line items", Axis("cost (USD)"), ("steady",), (Bar("8 x A", (30.0,)),))
    write(Page("Offers", sections=(Section("Costs", (costs, Paragraph("Without taxes."))),)), path)
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from cloudgan.core.atomic_file import write_atomic
from cloudgan.reports.charts import Chart
from cloudgan.reports.table import (
    Cell,
    Mark,
    Table,
    cell_text,
    csv_text,
    is_unknown,
    markdown,
    markdown_text,
    number_of,
)


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A bullet list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Links:
    """A list of links: (text, address)."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class KeyFigures:
    """A row of important values: (value with unit, label, remark or "")."""

    items: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Graphic:
    """An SVG element of `drawing.Drawing`, and its caption."""

    svg: str
    caption: str = ""


Block = Paragraph | Bullets | Links | KeyFigures | Table | Graphic | Chart


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A report: the lead is its summary in one or two sentences, the footer has versions, date and source."""

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = ()
    footer: str = ""


def render(page: Page) -> str:
    """Returns the page as one HTML document."""
    body = _template().sections(page.sections)
    script = _part("page.js") if " data-sorts>" in body else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"sha256-{digest}" if script else "none"
    images = " img-src data:;" if "data:image" in body else ""
    # Blocks all requests, and all scripts but this one.
    policy = (
        f"default-src 'none'; script-src '{allowed}'; style-src 'unsafe-inline';{images}"
        " base-uri 'none'; form-action 'none'"
    )
    return str(_template().whole(page, body, _part("page.css"), script, policy))


def fragment(sections: Sequence[Section]) -> str:
    """Returns sections as HTML for the output cell of a notebook: styles of its own, no script."""
    style = _part("page.css").replace(":root {", "& {").replace("body {", "& {")
    body = _template().sections(sections)
    return f'<div class="cloudgan">\n<style>.cloudgan {{\n{style}}}</style>{body}\n</div>'


def table_html(table: Table) -> str:
    """Returns a table in a box with horizontal scrolling."""
    return str(_template().table(table))


def write(page: Page, path: Path) -> None:
    """Writes the page atomically."""
    # File names may contain bytes that are not text.
    write_atomic(path, render(page).encode(errors="replace"))


def _part(name: str) -> str:
    return resources.files("cloudgan.reports").joinpath(name).read_text(encoding="utf-8")


_MIDDLING, _LONG = 24, 60
"""Characters of a text that wraps on a narrow, and on any screen."""


@cache
def _template() -> Any:
    """Returns the macros of the template; jinja2 and Matplotlib are imported when they are needed."""
    from jinja2 import Environment, StrictUndefined

    def fold(cell: Cell) -> str:
        letters = len(cell) if isinstance(cell, str) else 0
        return " long" if letters > _LONG else " middling" if letters > _MIDDLING else ""

    def drawn(chart: Chart, width: str) -> str:
        from cloudgan.reports import drawing

        return drawing.chart_svg(chart, drawing.BROAD if width == "broad" else drawing.SLIM)

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {
        "drawn": drawn,
        "fold": fold,
        "kind": lambda block: type(block).__name__,
        "number": number_of,
        "words": cell_text,
    }
    environment.tests |= {"mark": lambda cell: isinstance(cell, Mark), "unknown": is_unknown}
    return environment.from_string(_part("page.html.jinja")).module


# Beginnings of a heading, a quotation or a list.
_OPENING = re.compile(r"^(\d+(?=[.)](\s|$))|(?=[#>+=-]))")


def page_markdown(page: Page) -> str:
    """Returns title, lead, text and tables of all sections, without charts and graphics.

    Source: GitHub Flavored Markdown 0.29.
    """
    parts = [f"# {markdown_text(page.title)}", _line(page.lead)]
    for section in page.sections:
        texts = [text for text in map(_block_markdown, section.blocks) if text]
        if texts:
            parts += [f"## {markdown_text(section.title)}", *texts]
    parts.append(_line(page.footer))
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def page_csv(page: Page) -> str:
    """Returns the tables of the page, separated by empty lines."""
    blocks = [block for section in page.sections for block in section.blocks]
    return "\n".join(csv_text(block) for block in blocks if isinstance(block, Table))


def _block_markdown(block: Block) -> str:
    match block:
        case Paragraph(text):
            return _line(text)
        case Bullets(items):
            return "\n".join(f"- {_line(item)}" for item in items)
        case Links(items):
            return "\n".join(f"- [{markdown_text(text)}](<{to}>)" for text, to in items)
        case KeyFigures(items):
            return "\n".join(
                f"- {_line(label)}: {markdown_text(value)}"
                + (f" ({markdown_text(remark)})" if remark else "")
                for value, label, remark in items
            )
        case Table():
            return markdown(block)
    return ""


def _line(text: str) -> str:
    """Escapes text at the beginning of a line."""
    return _OPENING.sub(lambda found: f"{found.group()}\\", markdown_text(text))
