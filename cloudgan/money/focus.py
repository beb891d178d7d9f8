"""Sums the lines of billing exports in FOCUS 1.x for one run, of any cloud.

AWS Data Exports, a view of Google's BigQuery export and Azure Cost Management write FOCUS:
https://focus.finops.org/focus-specification/,
https://docs.aws.amazon.com/cur/latest/userguide/table-dictionary-focus-1-0-aws-columns.html,
https://learn.microsoft.com/cloud-computing/finops/focus/metadata (2026-11-21). Tags are a JSON map, in
some Azure files without braces, in BigQuery a list of key and value. Kubernetes has no service category: its services are
recognized by name. Files are CSV or JSON lines, optionally gzip; Parquet requires pyarrow.
"""

from __future__ import annotations

import datetime as dt
import gzip
import importlib
import io
import itertools
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cloudgan.core.documents import bounded_lines, csv_rows, open_regular, parse_json, translated
from cloudgan.core.errors import DataError, shorten, show
from cloudgan.core.labels import RUN
from cloudgan.schema.item import BillCategory

_USD = "USD"
_COLUMNS = ("BilledCost", "BillingCurrency", "ChargeCategory")
_EXPECTED = f"expected the columns of FOCUS 1.x: {', '.join(_COLUMNS)}, ServiceCategory, Tags, ..."
_NO_WORD = re.compile(r"[^a-z0-9]+")
_LABEL = _NO_WORD.sub("_", RUN)
_MAX_AMOUNT = 1e15
"""In any currency; the sum of all lines stays finite."""
_YEARS = range(2000, 2200)


class BillLine(NamedTuple):
    """One line of a bill.

    Attributes:
        run: Value of the run label; None without label.
        amount: In `currency`, before credits.
        credit: Zero or negative, in `currency`.
        currency: ISO code.
        until: End of the usage; None: not in the line.
    """

    run: str | None
    category: BillCategory
    amount: float
    credit: float
    currency: str
    until: dt.datetime | None


@dataclass
class BillSummary:
    """Sums of the exports.

    Attributes:
        amounts: By category in USD, before credits.
        credits: In USD.
        others: By other currency, credits included.
        until: Latest usage of any run.
    """

    lines: int = 0
    total_lines: int = 0
    amounts: dict[BillCategory, list[float]] = field(default_factory=lambda: defaultdict(list))
    credits: list[float] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    until: dt.datetime | None = None

    def add(self, line: BillLine, run: str) -> None:
        """Adds one line; lines of other runs only extend `until`."""
        self.total_lines += 1
        self.until = max(filter(None, (self.until, line.until)), default=None)
        if line.run != run:
            return
        self.lines += 1
        if line.currency.upper() != _USD:
            self.others[line.currency.upper() or "unknown currency"] += [line.amount, line.credit]
            return
        self.amounts[line.category].append(line.amount)
        self.credits.append(line.credit)

    def usd(self, category: BillCategory) -> float:
        """Returns the billed amount of a category."""
        return math.fsum(self.amounts.get(category, ()))


def read_bill(paths: Iterable[Path], run: str) -> BillSummary:
    """Reads exports; duplicate paths are read once."""
    found = BillSummary()
    for path in dict.fromkeys(path.resolve() for path in paths):
        number = 0
        for number, row in _read_rows(path):
            missing = [name for name in _COLUMNS if name.lower() not in row]
            if missing:
                given = shorten(", ".join(list(row)[:6]))
                raise DataError(
                    f"{path}:{number}: has no {missing[0]} among the columns {given}, ...; {_EXPECTED}."
                    " Export the bill in FOCUS: see docs/cost.md"
                )
            with translated("a line of FOCUS", f"{path}:{number}"):
                line = _parse_line(row)
            found.add(line, run)
        if not number:
            raise DataError(f"{path}: contains no line; {_EXPECTED}")
    return found


def _parse_line(row: Mapping[str, Any]) -> BillLine:
    amount = _parse_amount(row.get("billedcost"))
    kind = str(row.get("chargecategory") or "").lower()
    is_credit = kind == "credit" or (kind == "adjustment" and amount < 0)
    return BillLine(
        run=_run_label(_parse_tags(row.get("tags"))),
        category=_category(row),
        currency=str(row.get("billingcurrency") or ""),
        until=_parse_time(row.get("chargeperiodend")),
        amount=0.0 if is_credit else amount,
        credit=amount if is_credit else 0.0,
    )


def _category(row: Mapping[str, Any]) -> BillCategory:
    service, category = str(row.get("servicename") or ""), str(row.get("servicecategory") or "")
    text = f"{row.get('resourcetype') or ''} {row.get('chargedescription') or ''}"
    if _contains_any(service, "kubernetes"):
        return "control plane"
    if _contains_any(category, "networking"):
        return "network"
    if _contains_any(category, "storage"):
        return "disk" if _contains_any(text, "disk", "volume", "ebs") else "storage"
    return "compute" if _contains_any(category, "compute") else "other"


def _run_label(tags: Iterable[tuple[str, object]]) -> str | None:
    """Returns the value of the label cloudgan-run.

    Clouds rewrite keys: accepts ``user:cloudgan-run``, ``user_cloudgan_run`` and
    ``k8s-label/cloudgan-run``.
    """
    for key, value in tags:
        name = _NO_WORD.sub("_", key.lower())
        if value and (name == _LABEL or name.endswith(f"_{_LABEL}")):
            return str(value)
    return None


def _parse_tags(cell: object) -> list[tuple[str, object]]:
    """Parses tags: a JSON object, with or without braces, or a list of key and value.

    Raises:
        ValueError: The cell is none of these.
    """
    if cell is None or cell == "":
        return []
    found: Any = cell
    if isinstance(cell, str):
        text = cell.strip()
        found = parse_json(text if text[:1] in {"{", "["} else f"{{{text}}}", "tags")
    if isinstance(found, dict):
        return list(found.items())
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return [(str(one.get("key", "")), one.get("value")) for one in found]
    raise ValueError(f"tags are {show(cell)}, expected a JSON object")


def _parse_amount(cell: Any) -> float:
    """Parses money; an empty cell is zero in exports.

    Raises:
        ValueError: The cell is not a number.
    """
    if cell is None or cell == "":
        return 0.0
    try:
        found = float(cell)
    except (TypeError, ValueError):
        found = math.nan
    if not abs(found) <= _MAX_AMOUNT:
        raise ValueError(f"billedcost is {show(cell)}, expected a number")
    return found


def _parse_time(cell: object) -> dt.datetime | None:
    """Parses a time, UTC by default; None if the cell is empty.

    Raises:
        ValueError: The cell is not a time.
    """
    text = str(cell or "").strip().removesuffix(" UTC").strip()
    if not text:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{show(text)} is not a time, expected for example 2026-11-21") from error
    if found.year not in _YEARS:
        raise ValueError(f"{show(text)} is not a time of a bill, expected for example 2026-11-21")
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _contains_any(text: str, *words: str) -> bool:
    """Returns whether a text contains one of the words, ignoring case."""
    lower = text.lower()
    return any(word in lower for word in words)


_PARQUET, _GZIP = b"PAR1", b"\x1f\x8b"


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the line number of each row and its cells by lower-case column."""
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
            f"{path}:1: a JSON list; expected one object a line, as BigQuery exports it"
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
