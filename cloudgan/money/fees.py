"""Fees besides node prices: clusters, disks, addresses, storage, traffic."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from cloudgan.core.errors import DataError
from cloudgan.core.table import read_table
from cloudgan.schema.price_row import ANY_REGION, FeeKind, FeeRow


@dataclass(frozen=True)
class Fees:
    """All known fees."""

    rows: tuple[FeeRow, ...]

    def find(
        self, kind: FeeKind, provider: str, region: str | None = None, name: str | None = None
    ) -> FeeRow | None:
        """Returns the cheapest fee of this region, else of any region; None: unknown, not free."""
        rows = [
            row
            for row in self._current.get((kind, provider), ())
            if row.region in (region, ANY_REGION) and name in (None, row.name)
        ]
        return min(rows, key=lambda row: (row.region == ANY_REGION, row.usd), default=None)

    @functools.cached_property
    def _current(self) -> defaultdict[tuple[str, str], list[FeeRow]]:
        """Rows by kind and provider: a plan looks up thousands."""
        found: defaultdict[tuple[str, str], list[FeeRow]] = defaultdict(list)
        for row in self.rows:
            if row.snapshot == "current":
                found[row.kind, row.provider].append(row)
        return found

    def dearest(self, fee: FeeRow) -> FeeRow:
        """Returns the dearest fee of the same kind, cloud and region.

        Azure offers a subscription some of several sizes for the system node of a cluster.
        """
        same = (fee.kind, fee.provider, fee.region, fee.snapshot)
        rows = (
            row for row in self.rows if (row.kind, row.provider, row.region, row.snapshot) == same
        )
        return max(rows, key=lambda row: row.usd)


@functools.cache
def load_fees(path: Path | None = None) -> Fees:
    """Reads and validates the fees; without a path those of the package."""
    place: Path | Traversable = path or resources.files("cloudgan.money") / "lists" / "fees.csv"
    lines: dict[str, int] = {}
    rows = []
    for line, row in read_table(place, FeeRow):
        if row.row_id in lines:
            raise DataError(
                f"{place}:{line}: duplicate row of {row.row_id}, see line {lines[row.row_id]}"
            )
        lines[row.row_id] = line
        rows.append(row)
    return Fees(tuple(rows))
