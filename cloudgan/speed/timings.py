"""Timings of runs of different size: a CSV file with columns n, seconds and optionally nodes, steps."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cloudgan.core.documents import csv_rows, read_text
from cloudgan.core.errors import DataError, nearest, show
from cloudgan.core.ranges import MAX_SECONDS, MAX_SIZE

_NEEDED = ("n", "seconds")
_OPTIONAL = ("nodes", "steps")
_MIN_SECONDS = 1e-6


class Timing(NamedTuple):
    """One measured run.

    Attributes:
        n: Number of accelerators (or replicas).
        seconds: Time of one epoch, or of what is to be predicted.
        nodes: Number of machines; None: not given.
        steps: Steps of the epoch; None: not given.
    """

    n: int
    seconds: float
    nodes: int | None = None
    steps: int | None = None


def read_timings(path: Path) -> tuple[Timing, ...]:
    """Reads timings; other columns and blank lines are ignored.

    Raises:
        DataError: The file is unreadable, lacks a column or contains invalid numbers; the message
            names file and line.
    """
    lines = io.StringIO(read_text(path), newline="")
    return tuple(_parsed(csv_rows(lines, str(path)), path))


def _parsed(rows: Iterable[tuple[int, list[str]]], path: Path) -> Iterable[Timing]:
    heads: list[str] | None = None
    for number, line in rows:
        cells = [cell.strip() for cell in line]
        if not any(cells):
            continue
        where = f"{path}:{number}"
        if heads is None:
            heads = _checked_heads(cells, where)
            continue
        if len(cells) != len(heads):
            raise DataError(f"{where}: has {len(cells)} cells, expected {len(heads)}")
        yield _timing(dict(zip(heads, cells, strict=True)), where)
    if heads is None:
        raise DataError(f"{path}:1: is empty; expected a header with the columns n,seconds")


def _checked_heads(cells: list[str], where: str) -> list[str]:
    heads = [cell.casefold() for cell in cells]
    for name in _NEEDED:
        if name not in heads:
            raise DataError(
                f"{where}: no column {name!r} among {', '.join(map(repr, cells))}."
                f"{nearest(name, heads)} Expected: n,seconds and optionally nodes,steps"
            )
    doubled = sorted({name for name in (*_NEEDED, *_OPTIONAL) if heads.count(name) > 1})
    if doubled:
        raise DataError(f"{where}: duplicate column {doubled[0]!r}")
    return heads


def _timing(row: dict[str, str], where: str) -> Timing:
    count = _count(row["n"], "n", where)
    try:
        seconds = float(row["seconds"])
    except ValueError:
        seconds = math.nan
    if not _MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise DataError(
            f"{where}: seconds is {show(row['seconds'])}; expected a finite number from"
            f" {_MIN_SECONDS:g} to {MAX_SECONDS:g}"
        )
    nodes = _count(row["nodes"], "nodes", where) if row.get("nodes") else None
    if nodes is not None and nodes > count:
        raise DataError(f"{where}: n is {count} on {nodes} nodes; expected at least one per node")
    steps = _count(row["steps"], "steps", where) if row.get("steps") else None
    return Timing(count, seconds, nodes, steps)


def _count(text: str, name: str, where: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (1 <= value <= MAX_SIZE and value.is_integer()):
        raise DataError(
            f"{where}: {name} is {show(text)}; expected an integer of at least 1, at most {MAX_SIZE}"
        )
    return int(value)
