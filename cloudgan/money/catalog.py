"""The price catalog: node prices with source and date, validated when read.

The package ships nodes.csv; `cloudgan prices refresh` writes one CSV file per cloud into the user's
data folder, whose rows take precedence.
"""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from operator import attrgetter
from pathlib import Path
from typing import get_args

from cloudgan.core import settings
from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import ConfigError, DataError, UnknownNameError, nearest
from cloudgan.core.machines import check_accelerator, refuse_retired, retired, table
from cloudgan.core.table import read_table
from cloudgan.schema.price_row import Market, PriceRow
from cloudgan.storage.store import StoreError

_KEY = attrgetter("kind", "provider", "node_type", "region", "market", "snapshot")
_OTHER_MARKET: dict[str, Market] = {"spot": "on_demand", "on_demand": "spot"}
_BY_PRICE = attrgetter(
    "usd_per_hour", "kind", "provider", "node_type", "region", "market", "snapshot"
)
_UNKNOWN_TPU_PRICE = 700.0  # placeholder per TPU chip in SkyPilot's catalog


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
    ) -> tuple[PriceRow, ...]:
        """Returns the matching current rows, cheapest first.

        Args:
            accelerator: Name such as ``A100-80GB``, family such as ``a100``, either with a count as
                ``l4:2``, or a node type; without regard to case.

        Raises:
            UnknownNameError: No row has this provider, accelerator, node type or region.
            ConfigError: The count is no number, or not that of the node type.
        """
        rows = [row for row in self.rows if row.snapshot == "current"]
        filters = {"provider": provider, "node_type": node_type, "region": region}
        for column, name in filters.items():
            if name is not None:
                self._check(column, name, [getattr(row, column) for row in self.rows])
                rows = [row for row in rows if getattr(row, column) == name]
        if accelerator is not None:
            wanted = self._with_accelerator(accelerator)
            rows = [row for row in rows if wanted(row)]
        rows = [row for row in rows if market in (None, row.market)]
        return tuple(sorted(rows, key=_BY_PRICE))

    def _with_accelerator(self, text: str) -> Callable[[PriceRow], bool]:
        """Returns whether a row has the requested accelerators, or is of the requested node type."""
        check_accelerator(text)
        name, _, count = text.partition(":")
        types = {row.node_type: row for row in self.rows if row.snapshot == "current"}
        of_type = next(
            (row for kind, row in types.items() if kind.casefold() == name.casefold()), None
        )
        if of_type:
            if count and count != str(of_type.accelerator_count):
                raise ConfigError(
                    f"--accelerator={text}: a {of_type.node_type} has"
                    f" {of_type.accelerator_count} x {of_type.accelerator}; omit the count"
                )
            return lambda row: row.node_type == of_type.node_type
        known = self.accelerators()
        names = {one for one in known if is_of(one, name)}
        families = {one.partition("-")[0] for one in known} - {"TPU"}
        self._check("accelerator", min(names, default=name), (*known, *families))
        return lambda row: row.accelerator in names and count in ("", str(row.accelerator_count))

    def count_hint(self, provider: str | None, accelerator: str) -> str:
        """Returns the sold counts and the nearest for NAME:COUNT that a cloud does not sell, or ""."""
        name, _, count = accelerator.partition(":")
        rows = self.find(provider=provider)
        sold = sorted({row.accelerator_count for row in rows if is_of(row.accelerator, name)})
        if not count or not sold or int(count) in sold:
            return ""
        near = min(sold, key=lambda one: (abs(one - int(count)), one))
        has = ", ".join(map(str, sold[:-1])) + (" or " if sold[1:] else "") + str(sold[-1])
        return (
            f" Nodes of {provider or 'any cloud'} have {has} x {name}; the nearest:"
            f" --accelerator={name}:{near}."
        )

    def row(self, row_id: str) -> PriceRow:
        """Returns the row of an id, with or without kind and snapshot.

        Raises:
            UnknownNameError: No row has this id.
            PlanError: It names a discontinued node type.
        """
        for row in self.rows:
            if row_id == row.row_id or (row_id == row.offer and row.snapshot == "current"):
                return row
        for part in row_id.split("/"):
            refuse_retired(None, part)
        offers = [row.offer for row in self.rows if row.snapshot == "current"]
        parts = set(row_id.split("/"))
        raise UnknownNameError(
            "offer", row_id, [one for one in offers if parts <= set(one.split("/"))] or offers
        )

    def region_hint(self, provider: str | None, regions: Iterable[str | None]) -> str:
        """Returns " Did you mean us-east1?" for a region in which a cloud has no price, or ""."""
        known = {row.region for row in self.rows if provider in (None, row.provider)}
        odd = (region for region in regions if region and region not in known)
        return next((hint for region in odd if (hint := nearest(region, known))), "")

    def accelerators(self) -> tuple[str, ...]:
        """Returns every accelerator that has a price."""
        return tuple(sorted({row.accelerator for row in self.rows}))

    @staticmethod
    def _check(column: str, name: str, known: list[str] | tuple[str, ...]) -> None:
        if name not in known:
            raise UnknownNameError(column.replace("_", " "), name, set(known))


@functools.lru_cache(maxsize=1024)
def is_of(have: str, accelerator: str) -> bool:
    """Returns whether an accelerator is this one or of this family; see `is_same`."""
    return is_same(have, accelerator) or any(
        one.startswith(f"{name}-") for one, name in _spellings(have, accelerator)
    )


def is_same(one: str, other: str) -> bool:
    """Returns whether two names mean one accelerator: v5e is TPU-v5e, a100-80 is A100-80GB."""
    return any(have == name for have, name in _spellings(one, other))


def _spellings(*names: str) -> Iterator[tuple[str, ...]]:
    low = [re.sub(r"(?<=\d)gb$", "", name.casefold()) for name in names]
    yield tuple(low)
    yield tuple(name.removeprefix("tpu-") for name in low)


def spelt(accelerator: str) -> str:
    """Returns an accelerator as the catalog spells it; other names and families as given."""
    known = sorted({one.accelerator for one in table().values()})
    return next((name for name in known if is_same(name, accelerator)), accelerator)


def load_catalog(of: str | None = None) -> Catalog:
    """Reads and validates the prices of package and user, merged.

    Args:
        of: Only those of the machines with this accelerator, family or name, whose lines alone are validated;
            None, or a name without a price: all.
    """
    types = _types_of(of.partition(":")[0]) if of else None
    found = merge(_shipped(types), checked(read_refreshed(price_folder(), types=types)))
    return found if found.rows or types is None else load_catalog()


@functools.lru_cache(maxsize=64)
def _types_of(name: str) -> frozenset[str] | None:
    """Returns the node types of an accelerator, a family or a node type; None: no machine has the name."""
    found = [
        one.node_type
        for one in table().values()
        if one.node_type.casefold() == name.casefold() or is_of(one.accelerator, name)
    ]
    return frozenset(found) or None


def price_folder() -> Path:
    """Returns the folder of refreshed prices (CLOUDGAN_DATA)."""
    return settings.data_folder() / "prices"


def shipped_catalog() -> Catalog:
    """Reads and validates the prices of the package."""
    return _shipped(None)


@functools.lru_cache(maxsize=64)
def _shipped(types: frozenset[str] | None) -> Catalog:
    place = resources.files("cloudgan.money") / "lists" / "nodes.csv"
    rows = read_table(place, PriceRow, ("node_type", types) if types else None)
    return checked((f"{place}:{line}", row) for line, row in rows)


def merge(old: Catalog, fresh: Catalog) -> Catalog:
    """Returns all prices; fresh ones replace old ones of the same offer.

    An old price that contradicts the fresh price of its other market is dropped.
    """
    if not fresh.rows:
        return old
    found = {_KEY(row): row for row in fresh.rows}
    kept = [
        row
        for row in old.rows
        if _KEY(row) not in found and not _contradicts(row, found.get(_in_other_market(row)))
    ]
    return Catalog((*kept, *fresh.rows))


def checked(placed: Iterable[tuple[str, PriceRow]]) -> Catalog:
    """Returns the catalog of rows and their places."""
    places: dict[tuple[str, ...], str] = {}
    rows: dict[tuple[str, ...], PriceRow] = {}
    for place, row in placed:
        key = _KEY(row)
        if key in places:
            line = places[key].rpartition(":")[2].strip()
            before = f"line {line}" if line.isdecimal() else line
            raise DataError(f"{place}: duplicate row of {row.row_id}, see {before}")
        placeholders = (_UNKNOWN_TPU_PRICE, _UNKNOWN_TPU_PRICE * row.accelerator_count)
        if row.accelerator.startswith("TPU") and row.usd_per_hour in placeholders:
            raise DataError(f"{place}: {row.usd_per_hour} means unknown; remove the row")
        places[key], rows[key] = place, row
    for key, row in rows.items():
        other = rows.get(_in_other_market(row)) if row.market == "on_demand" else None
        if other and _contradicts(row, other):
            raise DataError(
                f"{places[key]}: {row.node_type} in {row.region} costs"
                f" {row.usd_per_hour} USD/h on demand and {other.usd_per_hour} on spot; one of"
                " them is wrong"
            )
    return Catalog(tuple(rows.values()))


def _in_other_market(row: PriceRow) -> tuple[str, ...]:
    """Returns the key of the same node in the other market."""
    kind, provider, node_type, region, market, snapshot = _KEY(row)
    return kind, provider, node_type, region, _OTHER_MARKET[market], snapshot


def _contradicts(row: PriceRow, other: PriceRow | None) -> bool:
    if other is None:
        return False
    full, spot = (row, other) if row.market == "on_demand" else (other, row)
    return full.usd_per_hour <= spot.usd_per_hour


FAMILIES = ("T4", "V100", "L4", "A100", "TPU-v3", "TPU-v5e")


def offers_for_demo(catalog: Catalog) -> tuple[PriceRow, ...]:
    """Returns the cheapest current offer per provider, accelerator family and market.

    Only nodes with one GPU (or the smallest TPU slice on sale) and prices of confidence A or B.
    """
    providers = sorted({row.provider for row in catalog.rows if row.snapshot == "current"})
    chosen = []
    for provider in providers:
        for family in FAMILIES:
            for market in get_args(Market):
                rows = [
                    row
                    for row in catalog.find(provider=provider, market=market)
                    if is_of(row.accelerator, family) and row.confidence != "C"
                ]
                counts = [
                    row.accelerator_count for row in rows if row.accelerator.startswith("TPU")
                ]
                count = min(counts, default=1)
                chosen += [row for row in rows if row.accelerator_count == count][:1]
    return tuple(chosen)


def refreshed_file(folder: Path, provider: str) -> Path:
    """Returns the file with the refreshed prices of a cloud."""
    return folder / f"{provider}.csv"


def write_refreshed(folder: Path, provider: str, rows: Iterable[PriceRow]) -> Path:
    """Replaces the prices of a cloud; raises what `write_catalog` raises."""
    path = refreshed_file(folder, provider)
    write_catalog(path, rows)
    return path


def write_catalog(path: Path, rows: Iterable[PriceRow]) -> None:
    """Writes a file of prices atomically.

    Raises:
        StoreError: The folder is not writable or the disk is full; the old file is unchanged.
    """
    text = io.StringIO(newline="")
    columns = [name for name in PriceRow.model_fields if name not in PriceRow.OF_THE_MACHINE]
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(row.model_dump() for row in rows)
    with atomic_writer(path, error_class=StoreError) as file:
        file.write(text.getvalue().encode("utf-8"))


def updated(old: Catalog, fresh: Catalog) -> Catalog:
    """Returns `merge(old, fresh)` in the order of `old`, so that two files differ by prices only."""
    rows = {row.row_id: row for row in merge(old, fresh).rows}
    known = [rows.pop(row.row_id) for row in old.rows if row.row_id in rows]
    return Catalog((*known, *rows.values()))


def read_refreshed(
    folder: Path,
    providers: Iterable[str] = tuple(CLOUDS),
    types: frozenset[str] | None = None,
) -> Iterator[tuple[str, PriceRow]]:
    """Reads the refreshed prices of clouds, without those of discontinued node types.

    Args:
        types: Node types to read; None: all.

    Yields:
        File and line, and the row.
    """
    for provider in providers:
        path = refreshed_file(folder, provider)
        if not path.exists():
            continue
        try:
            for line, row in read_table(path, PriceRow, ("node_type", types) if types else None):
                if retired(row.provider, row.node_type):
                    continue
                _check_place(row, provider, f"{path}:{line}")
                yield f"{path}:{line}", row
        except DataError as error:
            raise DataError(
                f"{error}. Run `cloudgan prices refresh --provider={provider}` to replace it, or"
                " delete it to use the prices of the package"
            ) from error


def _check_place(row: PriceRow, provider: str, where: str) -> None:
    if (row.provider, row.snapshot) != (provider, "current"):
        raise DataError(f"{where}: {row.row_id} is not a current price of {provider}")
