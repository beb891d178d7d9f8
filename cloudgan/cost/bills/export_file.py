"""Reads a billing export row by row, however large: CSV or JSON lines, packed by gzip or not.

Parquet is read where pyarrow is installed; cloudgan does not ask for it.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import zlib
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PARQUET, _GZIP = b"PAR1", b"\x1f\x8b"
_LONGEST_CELL = 2**20


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each row's line and its cells by column, in lower case.

    Raises:
        DataError: It cannot be read, or a row is neither CSV nor JSON.
    """
    try:
        with path.open("rb") as raw:
            head = raw.read(4)
            raw.seek(0)
            if head == _PARQUET:
                yield from _parquet(path)
                return
            packed = gzip.GzipFile(fileobj=raw) if head[:2] == _GZIP else raw
            with io.TextIOWrapper(packed, encoding="utf-8-sig", newline="") as text:
                yield from _text_rows(path, text)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def _text_rows(path: Path, text: io.TextIOWrapper) -> Iterator[tuple[int, dict[str, Any]]]:
    first = text.readline()
    if first.lstrip().startswith("{"):
        yield from _json_rows(path, first, text)
        return
    if first.lstrip().startswith("["):
        raise DataError(
            f"{path}:1: a JSON list; expected one object a line, as `bq extract` writes"
        )
    yield from _csv_rows(path, first, text)


def _json_rows(
    path: Path, first: str, text: io.TextIOWrapper
) -> Iterator[tuple[int, dict[str, Any]]]:
    number, line = 1, first
    while line:
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}:{number}: not a JSON object ({error})") from error
            if not isinstance(found, dict):
                raise DataError(f"{path}:{number}: expected a JSON object")
            yield number, {name.lower(): value for name, value in found.items()}
        number, line = number + 1, text.readline()


def _csv_rows(
    path: Path, first: str, text: io.TextIOWrapper
) -> Iterator[tuple[int, dict[str, Any]]]:
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        columns = [name.strip().lower() for name in next(csv.reader([first]), [])]
        rows = csv.reader(text, strict=True)
        for row in rows:
            if not row:
                continue
            if len(row) != len(columns):
                raise DataError(
                    f"{path}:{rows.line_num + 1}: has {len(row)} cells, expected the"
                    f" {len(columns)} columns of line 1"
                )
            yield rows.line_num + 1, dict(zip(columns, row, strict=True))
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num + 1}: not CSV ({error})") from error
    finally:
        csv.field_size_limit(before)


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            f"{path}: Parquet, which needs pyarrow: type pip install pyarrow, or export as CSV"
        ) from error
    number = 0
    for batch in parquet.ParquetFile(path).iter_batches():
        for row in batch.to_pylist():
            number += 1
            yield number, {name.lower(): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """A map comes as a list of pairs."""
    if isinstance(value, list) and all(isinstance(one, tuple) for one in value):
        return dict(value)
    return value
