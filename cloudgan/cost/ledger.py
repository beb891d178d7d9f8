"""Adding up what a run cost: by part and by price row, what is unknown kept apart."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cloudgan.core.cost_report import CostPart
from cloudgan.core.fee_row import FeeRow
from cloudgan.cost.estimate import usd

if TYPE_CHECKING:
    from cloudgan.core.cost_report import Duration
    from cloudgan.core.price_row import PriceRow


@dataclass
class _Entry:
    name: str
    duration: Duration
    row: PriceRow | FeeRow | None
    why_unknown: str | None = None
    usd: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    node_seconds: list[float] = field(default_factory=list)
    quantity: list[float] = field(default_factory=list)

    def part(self, name: str) -> CostPart:
        unit = self.row.unit if isinstance(self.row, FeeRow) and self.quantity else None
        return CostPart(
            name=name,
            seconds=_sum(self.seconds),
            node_seconds=_sum(self.node_seconds),
            quantity=_sum(self.quantity),
            unit=unit,
            duration=self.duration,
            usd=None if self.why_unknown else math.fsum(self.usd),
            price_row=None if self.why_unknown or self.row is None else self.row.row_id,
            why_unknown=self.why_unknown,
        )


class Ledger:
    """Takes what was spent, and makes it into parts whose names differ."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str | None], _Entry] = {}

    def spend(
        self,
        name: str,
        row: PriceRow,
        *,
        seconds: float | None,
        node_seconds: float,
        duration: Duration,
    ) -> None:
        """Adds time on nodes.

        Args:
            name: Of the part.
            row: The price of one node.
            seconds: How long it took; None where nodes took differently long.
            node_seconds: The same, summed over the nodes.
            duration: Which of the run's durations it is a part of.
        """
        entry = self._entry(name, duration, row)
        entry.usd.append(usd(node_seconds, row) or 0.0)
        entry.node_seconds.append(node_seconds)
        if seconds is not None:
            entry.seconds.append(seconds)

    def charge(
        self,
        name: str,
        fee: FeeRow,
        *,
        quantity: float,
        seconds: float | None = None,
        units: float = 1,
    ) -> None:
        """Adds what is charged beside nodes: `quantity` in the unit of the fee, `units` times."""
        entry = self._entry(name, "billed_seconds", fee)
        entry.usd.append(quantity * units * fee.usd)
        entry.quantity.append(quantity * units)
        if seconds is not None:
            entry.seconds.append(seconds)

    def unknown(self, name: str, why: str, duration: Duration, seconds: float | None) -> None:
        """Adds what nobody knows; the first reason stays."""
        entry = self._entry(name, duration, None)
        entry.why_unknown = entry.why_unknown or why
        if seconds is not None:
            entry.seconds.append(seconds)

    def parts(self) -> tuple[CostPart, ...]:
        """Returns the parts in the order in which they came, parts of one name side by side."""
        names = Counter(entry.name for entry in self._entries.values())
        order = {name: number for number, name in enumerate(names)}
        entries = sorted(self._entries.values(), key=lambda entry: order[entry.name])
        return tuple(
            entry.part(entry.name if names[entry.name] == 1 else _told_apart(entry))
            for entry in entries
        )

    def rows(self) -> tuple[PriceRow | FeeRow, ...]:
        """Returns every price that a part names, once."""
        rows = {entry.row.row_id: entry.row for entry in self._entries.values() if entry.row}
        return tuple(rows.values())

    def _entry(self, name: str, duration: Duration, row: PriceRow | FeeRow | None) -> _Entry:
        key = (name, row.row_id if row else None)
        return self._entries.setdefault(key, _Entry(name, duration, row))


def _told_apart(entry: _Entry) -> str:
    if entry.row is None:
        return f"{entry.name} (what is unknown of it)"
    return f"{entry.name} ({entry.row.row_id})"


def _sum(values: list[float]) -> float | None:
    return math.fsum(values) if values else None
