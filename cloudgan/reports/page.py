"""Self-contained HTML pages, without external libraries, fonts or image files; Markdown and CSV too.

A page is a value: sections of paragraphs, tables, graphics, plots and key figures. Text is escaped;
graphics are SVG from `cloudgan.reports.drawing`. Pages with plots or interactive tables contain one
script (page.js) and are readable without it; the content security policy blocks everything else.
For example::

    seconds, usd = Axis("time for the job (h)", log=True), Axis("cost of the job (USD)", log=True)
    spot = PointSeries("spot", (Point(2.0, 31.5, "8 x A", "us-east1"), Point(9.0, 12.0, "2 x A")))
    plot = Scatter("Time and cost", seconds, usd, (spot,), front=((2.0, 31.5), (9.0, 12.0)))
    bars = StackedBars("Line items", Axis("cost (USD)"), ("steady", "egress"),
                       (Bar("8 x A", (30.0, None)), Bar("2 x A", (11.0, 1.0))))
    write(Page("Offers", sections=(Section("Plots", (plot, bars)),)), path)
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from uuid import uuid4

from cloudgan.core.atomic_file import write_atomic
from cloudgan.reports.heat_map import HeatMap
from cloudgan.reports.pictures import Pictures
from cloudgan.reports.scatter import BandPlot, Scatter
from cloudgan.reports.stacked_bars import StackedBars
from cloudgan.reports.table import (
    Table,
    csv_text,
    markdown,
    markdown_text,
    table_html,
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

    def html(self, name: str) -> str:
        """Returns the list; `name` is of blocks that draw."""
        del name
        rows = (f'<li><a href="{escape(to)}">{escape(text)}</a></li>' for text, to in self.items)
        return f"<ul>{''.join(rows)}</ul>"


@dataclass(frozen=True)
class KeyFigures:
    """A row of important values: (value with unit, label, remark or "")."""

    items: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Graphic:
    """An SVG element and its caption."""

    svg: str
    caption: str = ""


Plot = Scatter | BandPlot | StackedBars | HeatMap
Block = Paragraph | Bullets | Links | KeyFigures | Table | Graphic | Pictures | Plot


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        title: Title of window and page.
        lead: Summary in one or two sentences.
        sections: In reading order.
        footer: Versions, date, source.
        language: Language code.
    """

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = ()
    footer: str = ""
    language: str = field(default="en")


def render(page: Page) -> str:
    """Returns the page as one HTML document."""
    lead = f'<p class="lead">{escape(page.lead)}</p>' if page.lead else ""
    sections = "\n".join(_section(section, f"{n}") for n, section in enumerate(page.sections, 1))
    footer = f"<footer><p>{escape(page.footer)}</p></footer>" if page.footer else ""
    script = _part("page.js") if _acts(page) else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(page.language)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(page, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{_part('page.css')}</style>\n</head>\n"
        f"<body>\n<header><h1>{escape(page.title)}</h1>{lead}</header>\n"
        f"{_contents(page)}<main>\n{sections}\n</main>\n{footer}\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )


def fragment(sections: Sequence[Section]) -> str:
    """Returns sections as HTML for the output cell of a notebook: styles of its own, no script."""
    style = _part("page.css").replace(":root {", "& {").replace("body {", "& {")
    html = [_section(section, uuid4().hex[:8]) for section in sections]
    return "\n".join(
        ['<div class="cloudgan">', f"<style>.cloudgan {{\n{style}}}</style>", *html, "</div>"]
    )


def write(page: Page, path: Path) -> None:
    """Writes the page atomically."""
    # File names may contain bytes that are not text.
    write_atomic(path, render(page).encode(errors="replace"))


def _section(section: Section, key: str) -> str:
    blocks = (_block(block, f"plot-{key}-{n}") for n, block in enumerate(section.blocks, 1))
    shown = "\n".join(blocks)
    return f'<section id="section-{key}"><h2>{escape(section.title)}</h2>\n{shown}\n</section>'


_LISTED = 4
"""A page with fewer sections has no list of contents."""


def _contents(page: Page) -> str:
    """Returns links to the sections."""
    if len(page.sections) < _LISTED:
        return ""
    items = "".join(
        f'<li><a href="#section-{n}">{escape(section.title)}</a></li>'
        for n, section in enumerate(page.sections, 1)
    )
    return f'<nav class="contents" aria-label="Contents"><ol>{items}</ol></nav>\n'


def _acts(page: Page) -> bool:
    """Returns whether the page needs the script."""
    return any(
        block.interactive if isinstance(block, Table) else isinstance(block, Plot)
        for block in _blocks(page)
    )


def _blocks(page: Page) -> list[Block]:
    return [block for section in page.sections for block in section.blocks]


def _part(name: str) -> str:
    return resources.files("cloudgan.reports").joinpath(name).read_text(encoding="utf-8")


def _policy(page: Page, script: str) -> str:
    """Returns a policy that blocks all requests and all scripts except `script`."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    runs = f"'sha256-{digest}'" if script else "'none'"
    images = any(
        isinstance(block, Pictures) or (isinstance(block, Graphic) and "data:image" in block.svg)
        for block in _blocks(page)
    )
    return (
        f"default-src 'none'; script-src {runs}; style-src 'unsafe-inline';"
        + " img-src data:;" * images
        + " base-uri 'none'; form-action 'none'"
    )


def _block(block: Block, name: str) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
        case KeyFigures(items):
            return '<dl class="key">' + "".join(_key_figure(*item) for item in items) + "</dl>"
        case Graphic(svg, caption):
            note = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
            return f'<figure><div class="wide">{svg}</div>{note}</figure>'
        case Table():
            return table_html(block)
        case Links() | Pictures() | Scatter() | BandPlot() | StackedBars() | HeatMap():
            return block.html(name)


def _key_figure(value: str, label: str, remark: str) -> str:
    note = f"<small>{escape(remark)}</small>" if remark else ""
    return f"<div><dt>{escape(label)}</dt><dd>{escape(value)}{note}</dd></div>"


# Beginnings of a heading, a quotation or a list.
_OPENING = re.compile(r"^(\d+(?=[.)](\s|$))|(?=[#>+=-]))")


def page_markdown(page: Page) -> str:
    """Returns title, lead, text and tables of all sections, without plots and graphics.

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
    return "\n".join(map(csv_text, _tables(page.sections)))


def _tables(sections: tuple[Section, ...]) -> Iterator[Table]:
    for section in sections:
        yield from (block for block in section.blocks if isinstance(block, Table))


def _block_markdown(block: Block) -> str:
    match block:
        case Paragraph(text):
            return _line(text)
        case Bullets(items):
            return "\n".join(f"- {_line(item)}" for item in items)
        case Links(items):
            return "\n".join(f"- [{markdown_text(text)}](<{to}>)" for text, to in items)
        case KeyFigures(items):
            return "\n".join(f"- {_key_figure_markdown(*item)}" for item in items)
        case Table():
            return markdown(block)
        case _:
            return ""


def _key_figure_markdown(value: str, label: str, remark: str) -> str:
    note = f" ({markdown_text(remark)})" if remark else ""
    return f"{_line(label)}: {markdown_text(value)}{note}"


def _line(text: str) -> str:
    """Escapes text at the beginning of a line."""
    return _OPENING.sub(lambda found: f"{found.group()}\\", markdown_text(text))
