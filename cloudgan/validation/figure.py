"""One picture of a report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """An SVG element and what it shows.

    Attributes:
        name: Unique in the page.
        family: Heading under which it stands.
        svg: The element.
        caption: What is seen, how it was measured.
    """

    name: str
    family: str
    svg: str
    caption: str
