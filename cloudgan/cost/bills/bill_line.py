"""A line of a cloud's bill, whichever cloud wrote it; and how its cells are read."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from cloudgan.core.labels import RUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cloudgan.core.comparison import BillPart

_NO_WORD = re.compile(r"[^a-z0-9]+")
_LABEL = _NO_WORD.sub("_", RUN)


class BillLine(NamedTuple):
    """What one line says.

    Attributes:
        run: Whose it is; None for what carries no run's label.
        part: Of the bill.
        amount: In `currency`, before credits.
        credit: Zero or below, in the same currency.
        until: Until when the use was; None: the line does not say.
    """

    run: str | None
    part: BillPart
    amount: float
    credit: float
    currency: str
    until: dt.datetime | None


def run_of(tags: Iterable[tuple[str, object]]) -> str | None:
    """Returns the value of our label among tags.

    Clouds rewrite keys: ``user:cloudgan-run``, ``user_cloudgan_run`` and
    ``k8s-label/cloudgan-run`` are all ours.
    """
    for key, value in tags:
        name = _NO_WORD.sub("_", key.lower())
        if value and (name == _LABEL or name.endswith(f"_{_LABEL}")):
            return str(value)
    return None


def tags_in(cell: object) -> list[tuple[str, object]]:
    """Reads tags from a cell: a JSON object, one without its braces, or a list of key and value.

    Raises:
        ValueError: It is none of these.
    """
    if cell is None or cell == "":
        return []
    found: Any = cell
    if isinstance(cell, str):
        text = cell.strip()
        found = json.loads(text if text[:1] in {"{", "["} else f"{{{text}}}")
    if isinstance(found, dict):
        return list(found.items())
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return [(str(one.get("key", "")), one.get("value")) for one in found]
    raise ValueError(f"tags are {str(cell)[:60]!r}, expected a JSON object")


def amount_in(row: Mapping[str, Any], column: str) -> float:
    """Reads money; an empty cell is zero, as exports write it.

    Raises:
        ValueError: It is no number.
    """
    cell = row.get(column)
    if cell is None or cell == "":
        return 0.0
    try:
        found = float(cell)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{column} is {str(cell)[:40]!r}, expected a number")
    return found


def moment_in(cell: object) -> dt.datetime | None:
    """Reads when, in UTC where no zone stands; None where the cell is empty.

    Raises:
        ValueError: It is no time.
    """
    text = str(cell or "").strip().removesuffix(" UTC").strip()
    if not text:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        found = _american(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def has_word(text: str, *words: str) -> bool:
    """Whether one of some words stands in a text, in any case."""
    lower = text.lower()
    return any(word in lower for word in words)


def _american(text: str) -> dt.datetime:
    """As Azure writes days: 11/21/2026."""
    try:
        return dt.datetime.strptime(text, "%m/%d/%Y").replace(tzinfo=dt.UTC)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is no time, expected such as 2026-11-21") from error
