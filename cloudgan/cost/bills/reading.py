"""Adds up what billing exports say of one run: any cloud's, file by file, line by line."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.errors import DataError
from cloudgan.cost.bills import aws, azure, focus, google
from cloudgan.cost.bills.export_file import rows_of

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cloudgan.core.comparison import BillPart
    from cloudgan.cost.bills.bill_line import BillLine

_USD = "USD"
_FORMATS = (focus, aws, google, azure)


class Format(NamedTuple):
    """A kind of export: its name, and what reads one line of it."""

    name: str
    line: Callable[[Mapping[str, Any]], BillLine]


@dataclass
class ReadBill:
    """What was read.

    Attributes:
        formats: Of the files, in their order.
        lines: Of the run.
        lines_in_all: In all files.
        amounts: By part in USD, before credits.
        credits: In USD.
        others: By other currency, credits and all.
        until: The latest use, of any run.
        last_of_run: The latest use of the run.
    """

    formats: list[str] = field(default_factory=list)
    lines: int = 0
    lines_in_all: int = 0
    amounts: dict[BillPart, list[float]] = field(default_factory=lambda: defaultdict(list))
    credits: list[float] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    until: dt.datetime | None = None
    last_of_run: dt.datetime | None = None

    def take(self, line: BillLine, run: str) -> None:
        """Takes one line; those of others tell only how far the export reaches."""
        self.lines_in_all += 1
        self.until = _later(self.until, line.until)
        if line.run != run:
            return
        self.lines += 1
        self.last_of_run = _later(self.last_of_run, line.until)
        if line.currency.upper() != _USD:
            self.others[line.currency or "unknown currency"] += [line.amount, line.credit]
            return
        self.amounts[line.part].append(line.amount)
        self.credits.append(line.credit)

    def usd(self, part: BillPart) -> float:
        """What a part was billed at."""
        return math.fsum(self.amounts.get(part, ()))


def read_bill(paths: Iterable[Path], run: str) -> ReadBill:
    """Reads exports; a file twice is read once.

    Raises:
        DataError: A file is no export that we know, or a line of it is wrong: says which, and what
            was expected.
    """
    found = ReadBill()
    for path in dict.fromkeys(path.resolve() for path in paths):
        kind: Format | None = None
        for number, row in rows_of(path):
            if kind is None:
                kind = _format_of(path, row)
                found.formats.append(kind.name)
            try:
                found.take(kind.line(row), run)
            except ValueError as error:
                raise DataError(f"{path}:{number}: {error} ({kind.name})") from error
        if kind is None:
            raise DataError(f"{path}: holds no line; {_expected()}")
    return found


def _format_of(path: Path, row: Mapping[str, Any]) -> Format:
    for module in _FORMATS:
        if module.is_ours(row.keys()):
            return Format(module.NAME, module.line)
    shown = ", ".join(list(row)[:6])
    raise DataError(
        f"{path}:1: no billing export that we know: columns {shown}, ...; {_expected()}"
    )


def _expected() -> str:
    told = "; ".join(f"{module.NAME}: {', '.join(module.EXPECTED)}" for module in _FORMATS)
    return f"expected columns of one of these ({told})"


def _later(one: dt.datetime | None, other: dt.datetime | None) -> dt.datetime | None:
    if one is None or other is None:
        return one or other
    return max(one, other)
