"""One HTML page that needs nothing else: no script, no font, no picture from anywhere.

A page is a value: sections of paragraphs, tables, figures and rows of key figures. Whatever text
goes in is escaped; figures are SVG elements made by `cloudgan.reports.drawing`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Mark:
    """Whether something holds, in a sign and a word; None is unknown."""

    passed: bool | None
    text: str = ""


Cell = str | float | Mark | None
"""Of a table: text as it is, numbers with four digits, marks, None as "unknown"."""


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
class Table:
    """Rows under column heads.

    Attributes:
        columns: Heads.
        rows: One cell per column each.
        caption: What the table says.
        align: One letter per column, ``l`` or ``r``; empty means: columns of numbers to the right.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    align: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.caption!r} does not have {len(self.columns)} cells")
        if self.align and len(self.align) != len(self.columns):
            raise ValueError(f"align {self.align!r} is not for {len(self.columns)} columns")

    def alignment(self) -> str:
        """One letter per column."""
        return self.align or "".join(map(self._side, range(len(self.columns))))

    def _side(self, column: int) -> str:
        cells = [row[column] for row in self.rows if row[column] is not None]
        return "r" if cells and all(isinstance(cell, int | float) for cell in cells) else "l"


@dataclass(frozen=True)
class Graphic:
    """An SVG element and what it shows."""

    svg: str
    caption: str = ""


Block = Paragraph | Bullets | KeyFigures | Table | Graphic


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
    style = resources.files("cloudgan.reports").joinpath("page.css").read_text(encoding="utf-8")
    lead = f'<p class="lead">{escape(page.lead)}</p>' if page.lead else ""
    sections = "\n".join(
        f'<section id="section-{number}"><h2>{escape(section.title)}</h2>\n'
        + "\n".join(map(_block, section.blocks))
        + "\n</section>"
        for number, section in enumerate(page.sections, 1)
    )
    footer = f"<footer><p>{escape(page.footer)}</p></footer>" if page.footer else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(page.language)}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(page.title)}</h1>{lead}</header>\n"
        f"<main>\n{sections}\n</main>\n{footer}\n</body>\n</html>\n"
    )


def write(page: Page, path: Path) -> None:
    """Writes the page; a reader sees the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(render(page))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _block(block: Block) -> str:
    match block:
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"
        case KeyFigures(items):
            return '<dl class="key">' + "".join(_key_figure(*item) for item in items) + "</dl>"
        case Graphic(svg, caption):
            told = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
            return f"<figure>{svg}{told}</figure>"
        case Table():
            return _table(block)


def _key_figure(value: str, label: str, remark: str) -> str:
    told = f"<small>{escape(remark)}</small>" if remark else ""
    return f"<div><dt>{escape(label)}</dt><dd>{escape(value)}{told}</dd></div>"


def _table(table: Table) -> str:
    sides = table.alignment()
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    head = "".join(
        f'<th scope="col" class="{side}">{escape(column)}</th>'
        for side, column in zip(sides, table.columns, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(f'<td class="{s}">{_cell(c)}</td>' for s, c in zip(sides, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide"><table>{caption}\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    match cell:
        case None:
            return '<span class="unknown">unknown</span>'
        case Mark(passed, text):
            sign, word = {True: ("✓", "pass"), False: ("✗", "fail"), None: ("?", "unknown")}[passed]
            return f'<span class="mark {word}">{sign} {escape(text or word)}</span>'
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return escape(f"{cell:,.4g}" if abs(cell) < 1e4 else f"{cell:,.0f}")  # noqa: PLR2004
        case str():
            return escape(cell)
