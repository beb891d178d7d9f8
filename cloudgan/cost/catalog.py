"""The catalogue of prices: rows with source and date, checked when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Protocol

from cloudgan.core import settings
from cloudgan.core.errors import DataError, UnknownNameError
from cloudgan.core.price_row import Kind, Market, PriceRow, Snapshot
from cloudgan.cost.refreshed import read_refreshed
from cloudgan.cost.table import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.resources.abc import Traversable
    from pathlib import Path

_UNKNOWN_TPU_PRICE = 700.0  # what SkyPilot's catalogue writes per TPU chip when it knows none


@dataclass(frozen=True)
class Catalog:
    """All known prices."""

    rows: tuple[PriceRow, ...]

    def find(
        self,
        *,
        provider: str | None = None,
        accelerator: str | None = None,
        node_type: str | None = None,
        region: str | None = None,
        market: Market | None = None,
        snapshot: Snapshot = "current",
        kind: Kind = "node",
    ) -> tuple[PriceRow, ...]:
        """Returns the rows that fit, cheapest first.

        Args:
            provider: Such as ``gcp``.
            accelerator: A name such as ``A100-80GB``, or a family such as ``a100``.
            node_type: Such as ``p3.2xlarge``.
            region: Such as ``us-central1``.
            market: ``on_demand`` or ``spot``.
            snapshot: ``current``, or ``2021`` for the paper's own prices.
            kind: What is paid for.

        Raises:
            UnknownNameError: No row at all has this provider, accelerator, node type or region.
        """
        rows = [row for row in self.rows if row.snapshot == snapshot and row.kind == kind]
        wanted = {"provider": provider, "node_type": node_type, "region": region}
        for column, name in wanted.items():
            if name is not None:
                self._check(column, name, [getattr(row, column) for row in self.rows])
                rows = [row for row in rows if getattr(row, column) == name]
        if accelerator is not None:
            names = [row.accelerator for row in self.rows if is_of(row, accelerator)]
            self._check("accelerator", names[0] if names else accelerator, self.accelerators())
            rows = [row for row in rows if is_of(row, accelerator)]
        rows = [row for row in rows if market in (None, row.market)]
        return tuple(sorted(rows, key=lambda row: (row.usd_per_hour, row.row_id)))

    def row(self, row_id: str) -> PriceRow:
        """Returns the row of this id, with or without its kind and snapshot.

        Raises:
            UnknownNameError: There is none.
        """
        parts = row_id if row_id.count("/") == _SLASHES else f"node/{row_id}/current"
        for row in self.rows:
            if row.row_id == parts:
                return row
        raise UnknownNameError("offer", row_id, self._offers())

    def accelerators(self) -> tuple[str, ...]:
        """Every accelerator that has a price."""
        return tuple(sorted({row.accelerator for row in self.rows}))

    def _offers(self) -> tuple[str, ...]:
        now = (row for row in self.rows if row.snapshot == "current")
        return tuple(row.row_id.removeprefix("node/").removesuffix("/current") for row in now)

    @staticmethod
    def _check(column: str, name: str, known: list[str] | tuple[str, ...]) -> None:
        if name not in known:
            raise UnknownNameError(column.replace("_", " "), name, set(known))


_SLASHES = 5


class HasAccelerator(Protocol):
    """A row, or a node that has none."""

    @property
    def accelerator(self) -> str:
        """As the catalogue calls it."""


def is_of(row: HasAccelerator, accelerator: str) -> bool:
    """Whether a row's accelerator is this one or of this family, whatever the case."""
    have, asked = row.accelerator.casefold(), accelerator.casefold()
    return have == asked or have.startswith(f"{asked}-")


def load_catalog(path: Path | None = None) -> Catalog:
    """Reads and checks a catalogue; without a path the one in the package.

    What the user refreshed goes before what the package says of the same offer.

    Raises:
        DataError: A row is wrong, stands twice, or costs on demand no more than on spot; the
            message names file and line.
    """
    if path is not None:
        return shipped_catalog(path)
    return merged(shipped_catalog(), _checked(read_refreshed(settings.data_folder() / "prices")))


def shipped_catalog(path: Path | None = None) -> Catalog:
    """Reads and checks one file; without a path the one in the package, as it was shipped.

    Raises:
        DataError: As of `load_catalog`.
    """
    place: Path | Traversable = path or resources.files("cloudgan.cost") / "prices" / "nodes.csv"
    return _checked((f"{place}:{line}", row) for line, row in read_table(place, PriceRow))


def merged(old: Catalog, fresh: Catalog) -> Catalog:
    """Returns all prices, of the same offer the fresh one.

    An old price whose other market has a fresh one stays only if both can be true.
    """
    found = {row.row_id: row for row in fresh.rows}
    kept = (
        row
        for row in old.rows
        if row.row_id not in found and not _contradicts(row, found.get(_other_market(row)))
    )
    return Catalog((*kept, *fresh.rows))


def _checked(placed: Iterable[tuple[str, PriceRow]]) -> Catalog:
    places: dict[str, str] = {}
    rows: dict[str, PriceRow] = {}
    for place, row in placed:
        if row.row_id in places:
            before = places[row.row_id].rpartition(":")[2]
            raise DataError(f"{place}: {row.row_id} stands already in line {before}")
        if _is_placeholder(row):
            raise DataError(f"{place}: {row.usd_per_hour} means unknown; leave the row out")
        places[row.row_id], rows[row.row_id] = place, row
    for row_id, row in rows.items():
        other = rows.get(_other_market(row))
        if other and row.market == "on_demand" and _contradicts(row, other):
            raise DataError(
                f"{places[row_id]}: {row.node_type} in {row.region} costs"
                f" {row.usd_per_hour} USD/h on demand and {other.usd_per_hour} on spot; one of"
                " them is not what it says"
            )
    return Catalog(tuple(rows.values()))


def _contradicts(row: PriceRow, other: PriceRow | None) -> bool:
    if other is None:
        return False
    full, spot = (row, other) if row.market == "on_demand" else (other, row)
    return full.usd_per_hour <= spot.usd_per_hour


def suspects(catalog: Catalog, least_ratio: float = 1.5) -> tuple[tuple[PriceRow, PriceRow], ...]:
    """Returns pairs (on demand, spot) that are closer than clouds sell them."""
    by_id = {row.row_id: row for row in catalog.rows}
    pairs = ((row, by_id.get(_other_market(row))) for row in catalog.rows)
    return tuple(
        (row, spot)
        for row, spot in pairs
        if spot and row.market == "on_demand" and row.usd_per_hour < least_ratio * spot.usd_per_hour
    )


def _other_market(row: PriceRow) -> str:
    market: Market = "spot" if row.market == "on_demand" else "on_demand"
    return row.model_copy(update={"market": market}).row_id


def _is_placeholder(row: PriceRow) -> bool:
    prices = (_UNKNOWN_TPU_PRICE, _UNKNOWN_TPU_PRICE * row.accelerator_count)
    return row.accelerator.startswith("TPU") and row.usd_per_hour in prices
