"""How long others waited for nodes of a cloud: from the request until a worker can begin."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from pydantic import Field

from cloudgan.core.dated_fact import Date, DatedFact
from cloudgan.core.price_row import Positive, Text
from cloudgan.cost.table import read_table

if TYPE_CHECKING:
    from pathlib import Path


class Startup(DatedFact):
    """A line of `prices/startup.csv`; what nobody measured has no line."""

    provider: Text
    least_nodes: int = Field(gt=0, description="for this many nodes and more")
    low_seconds: Positive
    high_seconds: Positive
    source: Text
    date: Date
    note: str = ""

    @property
    def basis(self) -> str:
        """Who measured it, and when."""
        return f"as others measured it, {self.source}, {self.date}"


def load_startups(path: Path | None = None) -> tuple[Startup, ...]:
    """Reads the times; without a path those in the package.

    Raises:
        DataError: A row is wrong; the message names file and line.
    """
    place = path or resources.files("cloudgan.cost") / "prices" / "startup.csv"
    return tuple(row for _, row in read_table(place, Startup))


def find_startup(rows: tuple[Startup, ...], provider: str, nodes: int) -> Startup | None:
    """Returns the time for this many nodes of a cloud; None: nobody measured it."""
    fitting = [row for row in rows if row.provider == provider and row.least_nodes <= nodes]
    return max(fitting, key=lambda row: row.least_nodes, default=None)
