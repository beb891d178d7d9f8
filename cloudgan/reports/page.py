"""One HTML page that needs nothing else: no library, no font, no picture from anywhere.

A page is a value: sections of paragraphs, tables, figures, plots and rows of key figures. Whatever
text goes in is escaped; graphics are SVG elements made by `cloudgan.reports.drawing`. A page with
plots or interactive tables holds one small script (page.js), and reads without it. The browser is
told to run no other script and to load nothing at all.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from cloudgan.core.whole_file import write_whole
from cloudgan.reports.bands import BandPlot
from cloudgan.reports.html_table import table_html
from cloudgan.reports.scatter import Scatter
from cloudgan.reports.stacked_bars import StackedBars
from cloudgan.reports.table import Cell, Mark, Number, Table

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Block",
    "Bullets",
    "Cell",
    "Graphic",
    "KeyFigures",
    "Mark",
    "Number",
    "Page",
    "Paragraph",
    "Section",
    "Table",
    "render",
    "write",
]


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """Short statements below each other."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class KeyFigures:
    """A row of few important values: (value with unit, what it is, remark or "")."""

    items: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Graphic:
    """An SVG element and what it shows."""

    svg: str
    caption: str = ""


Plot = Scatter | BandPlot | StackedBars
Block = Paragraph | Bullets | KeyFigures | Table | Graphic | Plot


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A whole report.

    Attributes:
        title: Of the window and the page.
        lead: One or two sentences: what was done and what came out.
        sections: In reading order.
        footer: Where it comes from: versions, date, source.
        language: Of the text.
    """

    title: str
    lead: str = ""
    sections: tuple[Section, ...] = ()
    footer: str = ""
    language: str = field(default="en")


def render(page: Page) -> str:
    """Returns the page as one HTML document."""
    lead = f'<p class="lead">{escape(page.lead)}</p>' if page.lead else ""
    sections = "\n".join(
        f'<section id="section-{number}"><h2>{escape(section.title)}</h2>\n'
        + "\n".join(
            _block(block, f"plot-{number}-{n}") for n, block in enumerate(section.blocks, 1)
        )
        + "\n</section>"
        for number, section in enumerate(page.sections, 1)
    )
    footer = f"<footer><p>{escape(page.footer)}</p></footer>" if page.footer else ""
    script = _part("page.js") if _acts(page) else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(page.language)}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{_part('page.css')}</style>\n</head>\n"
        f"<body>\n<header><h1>{escape(page.title)}</h1>{lead}</header>\n"
        f"<main>\n{sections}\n</main>\n{footer}\n"
        + (f"<script>{script}</script>\n" if script else "")
        + "</body>\n</html>\n"
    )


def write(page: Page, path: Path) -> None:
    """Writes the page; a reader sees the old file or the new one, never half of one."""
    # Names of files may hold bytes that are no text.
    write_whole(path, render(page).encode(errors="replace"))


def _acts(page: Page) -> bool:
    """Whether anything on the page needs the script."""
    blocks = [block for section in page.sections for block in section.blocks]
    return any(
        block.interactive if isinstance(block, Table) else isinstance(block, Plot)
        for block in blocks
    )


def _part(name: str) -> str:
    return resources.files("cloudgan.reports").joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Nothing is loaded, nothing sent, and no script runs but `script`."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    runs = f"'sha256-{digest}'" if script else "'none'"
    return (
        f"default-src 'none'; script-src {runs}; style-src 'unsafe-inline'; base-uri 'none';"
        " form-action 'none'"
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
            told = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
            return f'<figure><div class="wide">{svg}</div>{told}</figure>'
        case Table():
            return table_html(block)
        case Scatter() | BandPlot() | StackedBars():
            return block.html(name)


def _key_figure(value: str, label: str, remark: str) -> str:
    told = f"<small>{escape(remark)}</small>" if remark else ""
    return f"<div><dt>{escape(label)}</dt><dd>{escape(value)}{told}</dd></div>"
