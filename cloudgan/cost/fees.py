"""The catalogue of what is charged beside nodes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from cloudgan.core.errors import DataError
from cloudgan.core.fee_row import ANY_REGION, FeeKind, FeeRow
from cloudgan.cost.table import read_table

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path


@dataclass(frozen=True)
class Fees:
    """All known fees."""

    rows: tuple[FeeRow, ...]

    def find(
        self, kind: FeeKind, provider: str, region: str | None = None, name: str | None = None
    ) -> FeeRow | None:
        """Returns the fee of this region, else of any region; the cheapest where several fit.

        None means that nobody knows it: it is not free.
        """
        rows = [
            row
            for row in self.rows
            if (row.kind, row.provider, row.snapshot) == (kind, provider, "current")
            and row.region in (region, ANY_REGION)
            and name in (None, row.name)
        ]
        return min(rows, key=lambda row: (row.region == ANY_REGION, row.usd), default=None)


def load_fees(path: Path | None = None) -> Fees:
    """Reads and checks the fees; without a path those in the package.

    Raises:
        DataError: A row is wrong or stands twice; the message names file and line.
    """
    place: Path | Traversable = path or resources.files("cloudgan.cost") / "prices" / "fees.csv"
    lines: dict[str, int] = {}
    rows = []
    for line, row in read_table(place, FeeRow):
        if row.row_id in lines:
            raise DataError(
                f"{place}:{line}: {row.row_id} stands already in line {lines[row.row_id]}"
            )
        lines[row.row_id] = line
        rows.append(row)
    return Fees(tuple(rows))
