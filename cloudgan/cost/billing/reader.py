"""Sums the lines of billing exports for one run, for any cloud.

Files are CSV or JSON lines, optionally gzip; Parquet requires pyarrow, which cloudgan does not install.
"""

from __future__ import annotations

import gzip
import importlib
import io
import itertools
import math
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloudgan.core.documents import bounded_lines, csv_rows, open_regular, parse_json, translated
from cloudgan.core.errors import DataError, shorten
from cloudgan.cost.billing.formats import FORMATS

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from cloudgan.cost.billing.formats import BillLine, ExportFormat
    from cloudgan.schema.cost_report import BillCategory

_USD = "USD"


@dataclass
class BillSummary:
    """Sums of the exports.

    Attributes:
        formats: Formats of the files, in order.
        lines: Lines of the run.
        total_lines: Lines of all files.
        amounts: By category in USD, before credits.
        credits: In USD.
        others: By other currency, credits included.
        until: Latest usage of any run.
        last_of_run: Latest usage of the run.
    """

    formats: list[str] = field(default_factory=list)
    lines: int = 0
    total_lines: int = 0
    amounts: dict[BillCategory, list[float]] = field(default_factory=lambda: defaultdict(list))
    credits: list[float] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    until: dt.datetime | None = None
    last_of_run: dt.datetime | None = None

    def add(self, line: BillLine, run: str) -> None:
        """Adds one line; lines of other runs only extend `until`."""
        self.total_lines += 1
        self.until = _later(self.until, line.until)
        if line.run != run:
            return
        self.lines += 1
        self.last_of_run = _later(self.last_of_run, line.until)
        if line.currency.upper() != _USD:
            self.others[line.currency or "unknown currency"] += [line.amount, line.credit]
            return
        self.amounts[line.category].append(line.amount)
        self.credits.append(line.credit)

    def usd(self, category: BillCategory) -> float:
        """Returns the billed amount of a category."""
        return math.fsum(self.amounts.get(category, ()))


def read_bill(paths: Iterable[Path], run: str) -> BillSummary:
    """Reads exports; duplicate paths are read once.

    Raises:
        DataError: The format of a file is unknown, or a line is invalid; the message names it and
            what was expected.
    """
    found = BillSummary()
    for path in dict.fromkeys(path.resolve() for path in paths):
        kind: ExportFormat | None = None
        for number, row in read_rows(path):
            if kind is None:
                kind = _format_of(path, row)
                found.formats.append(kind.name)
            with translated(f"a line of {kind.name}", f"{path}:{number}"):
                line = kind.parse(row)
            found.add(line, run)
        if kind is None:
            raise DataError(f"{path}: contains no line; {_expected()}")
    return found


def _format_of(path: Path, row: Mapping[str, Any]) -> ExportFormat:
    for kind in FORMATS:
        if kind.matches(row.keys()):
            return kind
    shown = shorten(", ".join(list(row)[:6]))
    raise DataError(
        f"{path}:1: unknown billing export with the columns {shown}, ...; {_expected()}"
    )


def _expected() -> str:
    formats = "; ".join(f"{kind.name}: {', '.join(kind.expected)}" for kind in FORMATS)
    return f"expected the columns of one format ({formats})"


def _later(one: dt.datetime | None, other: dt.datetime | None) -> dt.datetime | None:
    if one is None or other is None:
        return one or other
    return max(one, other)


_PARQUET, _GZIP = b"PAR1", b"\x1f\x8b"


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the line number of each row and its cells by lower-case column.

    Raises:
        DataError: The file is unreadable, or a row is neither CSV nor JSON.
    """
    with open_regular(path) as raw:
        try:
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
    lines = bounded_lines(text, str(path))
    first = next(lines, "")
    if first.lstrip().startswith("["):
        raise DataError(
            f"{path}:1: a JSON list; expected one object a line, as `bq extract` writes"
        )
    parse = _json_rows if first.lstrip().startswith("{") else _csv_rows
    yield from parse(path, itertools.chain((first,), lines))


def _json_rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            found = parse_json(line, f"{path}:{number}")
            if not isinstance(found, dict):
                raise DataError(f"{path}:{number}: expected a JSON object")
            yield number, {name.lower(): value for name, value in found.items()}


def _csv_rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    columns: list[str] | None = None
    for number, row in csv_rows(lines, str(path)):
        if columns is None:
            columns = [name.strip().lower() for name in row]
            continue
        if len(row) != len(columns):
            raise DataError(
                f"{path}:{number}: has {len(row)} cells, expected the {len(columns)} columns of"
                " line 1"
            )
        yield number, dict(zip(columns, row, strict=True))


def _parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            f"{path}: Parquet requires pyarrow; run `pip install pyarrow`, or export as CSV"
        ) from error
    number = 0
    with translated("Parquet", str(path)):
        for batch in parquet.ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, {name.lower(): _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Converts a list of pairs, as pyarrow returns maps, to a dictionary."""
    if isinstance(value, list) and all(isinstance(one, tuple) for one in value):
        return dict(value)
    return value
