"""Sums the lines of billing exports in FOCUS 1.x for one run, of any cloud, and explains the difference to its measured cost.

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
from typing import Any, get_args

from cloudgan.core.documents import bounded_lines, csv_rows, open_regular, parse_json, translated
from cloudgan.core.errors import DataError, number_text, shorten, show
from cloudgan.core.labels import RUN
from cloudgan.schema.cost_report import (
    BilledCategory,
    CostReport,
    ProviderBill,
    Totals,
)
from cloudgan.schema.item import BillCategory
from cloudgan.schema.launch import Launch
from cloudgan.schema.price_row import FeeRow

_USD = "USD"
_COLUMNS = ("BilledCost", "BillingCurrency", "ChargeCategory")
_EXPECTED = f"expected the columns of FOCUS 1.x: {', '.join(_COLUMNS)}, ServiceCategory, Tags, ..."
_NO_WORD = re.compile(r"[^a-z0-9]+")
_LABEL = _NO_WORD.sub("_", RUN)
_MAX_AMOUNT = 1e15
"""In any currency; the sum of all lines stays finite."""
_YEARS = range(2000, 2200)


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

    def add(self, row: Mapping[str, Any], run: str) -> None:
        """Adds a line, its cells by lower-case column; lines of other runs only extend `until`.

        Raises:
            ValueError: A cell cannot be read.
        """
        amount, of_run = _parse_amount(row.get("billedcost")), _run_label(row.get("tags"))
        until = _parse_time(row.get("chargeperiodend"))
        self.total_lines += 1
        self.until = max(filter(None, (self.until, until)), default=None)
        if of_run != run:
            return
        self.lines += 1
        kind = str(row.get("chargecategory") or "").lower()
        currency = str(row.get("billingcurrency") or "").upper()
        if currency != _USD:
            self.others[currency or "unknown currency"].append(amount)
        elif kind == "credit" or (kind == "adjustment" and amount < 0):
            self.credits.append(amount)
        else:
            self.amounts[_category(row)].append(amount)

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
                found.add(row, run)
        if not number:
            raise DataError(f"{path}: contains no line; {_EXPECTED}")
    return found


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


def _run_label(tags: object) -> str | None:
    """Returns the value of the label cloudgan-run.

    Clouds rewrite keys: accepts ``user:cloudgan-run``, ``user_cloudgan_run`` and
    ``k8s-label/cloudgan-run``.
    """
    for key, value in _parse_tags(tags):
        name = _NO_WORD.sub("_", key.lower())
        if value and (name == _LABEL or name.endswith(f"_{_LABEL}")):
            return str(value)
    return None


def _parse_tags(cell: object) -> list[tuple[str, object]]:
    """Parses tags: a JSON object, with or without braces, or a list of key and value."""
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
    """Parses money; an empty cell is zero in exports."""
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
    """Parses a time, UTC by default; None if the cell is empty."""
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


_SHARED = "shared by all runs, so its lines do not have this run's label"
_CLOSE = 0.02
_SMALL_USD = 0.005


def reconcile(
    read: BillSummary, files: Iterable[Path], report: CostReport, launch: Launch | None
) -> ProviderBill:
    """Returns the bill of a run, from its `files`, with the measured cost of each category."""
    ends = [node.terminated_at for one in (launch.attempts if launch else ()) for node in one.nodes]
    last = max((end for end in ends if end), default=None)
    is_complete = read.until >= last if read.until and last and all(ends) else None
    categories = []
    for name in get_args(BillCategory):
        items = [item for item in report.line_items if item.item.category == name]
        counted, billed = Totals.of(items), read.usd(name)
        usd = counted.known_usd if any(item.usd is not None for item in items) else None
        why = _why(name, billed, usd, counted.unknown, is_complete=is_complete)
        if name == "compute" and not why and usd is not None:
            why = _why_compute(billed, usd, report, launch)
        categories.append(
            BilledCategory(name=name, billed_usd=billed, measured_usd=usd, explanation=why)
        )
    return ProviderBill(
        files=tuple(path.name for path in files),
        lines=read.lines,
        total_lines=read.total_lines,
        categories=tuple(one for one in categories if one.billed_usd or one.measured_usd),
        billed_usd=math.fsum(one.billed_usd for one in categories),
        credits_usd=math.fsum(read.credits),
        other_currencies={name: math.fsum(sums) for name, sums in read.others.items()},
        until=read.until,
        is_complete=is_complete,
        notes=tuple(_notes(read, report.run, last, is_complete=is_complete)),
    )


def _why(
    name: BillCategory,
    billed: float,
    counted: float | None,
    unknown: tuple[str, ...],
    *,
    is_complete: bool | None,
) -> str:
    """Explains a difference by what is unknown, missing in the export or shared; "" if none of these."""
    if counted is None:
        nothing = "not measured by cloudgan" if billed else ""
        return f"unknown to cloudgan: {', '.join(unknown)}" if unknown else nothing
    if _is_close(billed, counted):
        return ""
    if is_complete is False and billed < counted:
        return "the export is incomplete"
    if not billed and name in ("control plane", "storage"):
        return _SHARED
    return f"not measured: {', '.join(unknown)}" if unknown else ""


def _why_compute(billed: float, counted: float, report: CostReport, launch: Launch | None) -> str:
    """Explains the difference by times without observation, else by prices."""
    if _is_close(billed, counted):
        return ""
    if not counted:
        return "by the times of the nodes and the cloud's billing rule they cost nothing"
    over = counted - billed
    unseen = sum(
        one.price.cost_usd(sum(node.unseen_seconds() for node in one.nodes))
        for one in (launch.attempts if launch else ())
        if one.price
    )
    if over > 0 and unseen >= over / 2:
        return (
            f"up to {number_text(unseen)} USD of the measured cost are times in which the nodes were not"
            " observed"
        )
    ages = sorted({row.date for row in report.rows if not isinstance(row, FeeRow)}, key=str)
    dates = ", ".join(str(date) for date in ages if date) or "unknown date"
    side = "above" if over < 0 else "below"
    return (
        f"{abs(over / counted):.0%} {side} the measured cost at prices of {dates}: prices changed, or"
        " nodes were up outside the observed times"
    )


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= max(_SMALL_USD, _CLOSE * max(abs(one), abs(other)))


def _minute(moment: dt.datetime) -> str:
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def _notes(
    read: BillSummary, run: str, last: dt.datetime | None, *, is_complete: bool | None
) -> Iterable[str]:
    if not read.lines:
        yield (
            f"none of {read.total_lines} lines has the label cloudgan-run={run}: labels appear a day"
            " later, and on AWS only after the tag is activated for cost allocation in the billing"
            " console"
        )
    if is_complete is False and read.until and last:
        yield (
            f"the export ends at {_minute(read.until)}, the nodes were up until {_minute(last)}: export"
            " again a day later"
        )
    elif is_complete is None and read.lines:
        yield "the export may be incomplete: the termination of the nodes was not recorded"
    elif is_complete and read.lines:
        yield "clouds may correct lines for some days"
    for currency in sorted(read.others):
        yield f"lines in {currency} are neither converted nor added"
