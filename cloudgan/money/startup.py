"""Published start-up times of nodes: from the request until a worker can start."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path

from pydantic import Field

from cloudgan.core.table import read_table
from cloudgan.schema.price_row import Date, Positive, SourcedRow, Text


class StartupTime(SourcedRow):
    """A row of `startup.csv`; an unmeasured time has no row."""

    provider: Text
    least_nodes: int = Field(gt=0, description="for this many nodes and more")
    low_seconds: Positive
    high_seconds: Positive
    source: Text
    date: Date
    note: str = ""

    @property
    def basis(self) -> str:
        """Source and date."""
        return f"published measurement, {self.source}, {self.date}"


@functools.cache
def load_startup_times(path: Path | None = None) -> tuple[StartupTime, ...]:
    """Reads the times; without a path those of the package."""
    place = path or resources.files("cloudgan.money") / "lists" / "startup.csv"
    return tuple(row for _, row in read_table(place, StartupTime))


def find_startup_time(
    rows: tuple[StartupTime, ...], provider: str, nodes: int
) -> StartupTime | None:
    """Returns the time for this many nodes of a cloud; None: not measured."""
    fitting = [row for row in rows if row.provider == provider and row.least_nodes <= nodes]
    return max(fitting, key=lambda row: row.least_nodes, default=None)
