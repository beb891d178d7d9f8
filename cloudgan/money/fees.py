"""Fees besides node prices: clusters, disks, addresses, storage, traffic."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources

from cloudgan.core.table import read_keyed
from cloudgan.schema.price_row import ANY_REGION, FeeKind, FeeRow


@dataclass(frozen=True)
class Fees:
    """All known fees."""

    rows: tuple[FeeRow, ...]

    def find(
        self, kind: FeeKind, provider: str, region: str | None = None, name: str | None = None
    ) -> FeeRow | None:
        """Returns the cheapest fee of this region, else of any region; None: unknown, not free."""
        asked = (kind, provider, region, name)
        if asked not in self._found:
            rows = [
                row
                for row in self.rows
                if (row.snapshot, row.kind, row.provider) == ("current", kind, provider)
                and row.region in (region, ANY_REGION)
                and name in (None, row.name)
            ]
            key = lambda row: (row.region == ANY_REGION, row.usd)
            self._found[asked] = min(rows, key=key, default=None)
        return self._found[asked]

    @functools.cached_property
    def _found(self) -> dict[tuple[str | None, ...], FeeRow | None]:
        """Answers of `find`: a plan asks thousands of times for some dozens."""
        return {}

    @functools.cached_property
    def dearest_of_any(self) -> dict[FeeKind, FeeRow]:
        """The dearest fee of each kind on any cloud."""
        return {row.kind: row for row in sorted(self.rows, key=lambda row: row.usd_per_hour)}

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
def load_fees() -> Fees:
    """Reads and validates the fees."""
    place = resources.files("cloudgan.money") / "lists" / "fees.csv"
    return Fees(tuple(read_keyed(place, FeeRow, lambda row: row.row_id).values()))
