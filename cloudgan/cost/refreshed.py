"""Prices of the user's own, one file a cloud, fresher than those in the package."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from cloudgan.core.errors import DataError
from cloudgan.core.price_row import PriceRow
from cloudgan.cost.table import read_table
from cloudgan.stores.whole_file import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PROVIDERS = ("aws", "azure", "gcp")


def refreshed_file(folder: Path, provider: str) -> Path:
    """Where the prices of a cloud are kept."""
    return folder / f"{provider}.csv"


def write_refreshed(folder: Path, provider: str, rows: Iterable[PriceRow]) -> Path:
    """Writes the prices of a cloud beside and swaps them in; until then the old ones stay.

    Raises:
        StoreError: The folder forbids it or the disk is full; the old file is as it was.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(PriceRow.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.model_dump() for row in rows)
    path = refreshed_file(folder, provider)
    with whole_file(path) as file:
        file.write(text.getvalue().encode("utf-8"))
    return path


def read_refreshed(folder: Path) -> Iterator[tuple[str, PriceRow]]:
    """Reads the prices of all clouds that were refreshed.

    Yields:
        File and line, and the row.

    Raises:
        DataError: A file is broken; the message names it and what to do.
    """
    for provider in PROVIDERS:
        path = refreshed_file(folder, provider)
        if not path.exists():
            continue
        try:
            for line, row in read_table(path, PriceRow):
                _check_place(row, provider, f"{path}:{line}")
                yield f"{path}:{line}", row
        except DataError as error:
            raise DataError(
                f"{error}. Make it anew with `cloudgan prices refresh --source={provider}`, or"
                " delete it: the prices in the package are used then"
            ) from error


def _check_place(row: PriceRow, provider: str, where: str) -> None:
    if (row.provider, row.snapshot) != (provider, "current"):
        raise DataError(f"{where}: holds {row.row_id}, which is no present price of {provider}")
