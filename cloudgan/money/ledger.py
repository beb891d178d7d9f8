"""The ledger: what was or will be used, at which price row, for how long, and what it costs.

Forecast, budget, status and report are ledgers, and so are the shares of ranks, cells and trials. A line
without an amount or a price is unknown; no sum takes it as zero, and each names it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from cloudgan.core.clouds import BillingRule
from cloudgan.schema.cost_report import Duration, LineItem, Totals
from cloudgan.schema.item import Item
from cloudgan.schema.price_row import FeeRow, PriceRow

_Key = TypeVar("_Key")


@dataclass(frozen=True, kw_only=True)
class Usage:
    """A line of a ledger.

    Attributes:
        row: Its price; None: unknown.
        units: Nodes, GiB of a disk, or a number, of what is paid by time.
        since: Start of the usage, on the provider's clock; None: only its amount is known.
        until: End of the usage; None: it goes on, or its end is unknown.
        quantity: Amount, instead of a start and an end: seconds times units of what is paid by time, else
            in the unit of the price.
        rule: Rounds the time of each unit; None: to the second that it lasted.
        is_free: Whether the cloud does not charge it.
        seconds: Wall-clock time; None: unknown, or not the same on all nodes.
        attempt: Of the run, from 1; 0: none.
        duration: The run's duration that includes this time.
        why: Why it is unknown, where it is.
    """

    item: Item
    row: PriceRow | FeeRow | None = None
    units: float = 1.0
    since: datetime | None = None
    until: datetime | None = None
    quantity: float | None = None
    rule: BillingRule | None = None
    is_free: bool = False
    seconds: float | None = None
    attempt: int = 0
    duration: Duration = "billed_seconds"
    why: str = ""

    @property
    def lasted(self) -> float | None:
        """Seconds from its start to its end; None: it has not both."""
        if self.since is None or self.until is None:
            return None
        return max(0.0, (self.until - self.since).total_seconds())

    @property
    def amount(self) -> float | None:
        """The billed amount; None: unknown."""
        if self.quantity is not None or self.lasted is None:
            return self.quantity
        if self.is_free:
            return 0.0
        return self.units * (self.rule.billed_seconds(self.lasted) if self.rule else self.lasted)

    @property
    def is_node_time(self) -> bool:
        """Whether its amount is time of nodes, with a price or without."""
        return self.item.category == "compute" and not isinstance(self.row, FeeRow)

    @cached_property
    def usd(self) -> float | None:
        """The cost; None: unknown."""
        amount = self.amount
        return None if self.row is None or amount is None else self.row.cost_usd(amount)

    @property
    def name(self) -> str:
        """Title for a person."""
        of = f" of attempt {self.attempt}" if self.item is Item.NODES and self.attempt else ""
        return f"{self.item.display}{of}"


@dataclass(frozen=True)
class Ledger:
    """Lines of usage."""

    lines: tuple[Usage, ...] = ()

    def __add__(self, other: Ledger) -> Ledger:
        """Returns the lines of both."""
        return Ledger((*self.lines, *other.lines))

    @cached_property
    def known_usd(self) -> float:
        """The sum of the known lines; a lower bound if there are others."""
        return math.fsum(line.usd for line in self.lines if line.usd is not None)

    @property
    def node_seconds(self) -> float:
        """Billed time of nodes, of the lines where it is known, with a price or without."""
        return math.fsum(line.amount or 0.0 for line in self.lines if line.is_node_time)

    def total(self) -> Totals:
        """Returns the sum, with the names of the unknown lines."""
        return Totals.of(self.line_items())

    def of(self, *items: Item) -> Ledger:
        """Returns the lines of some items."""
        return Ledger(tuple(line for line in self.lines if line.item in items))

    def by(self, key_of: Callable[[Usage], _Key]) -> dict[_Key, Ledger]:
        """Returns the lines by a key, in the order of their first line; they add up to this ledger."""
        found: dict[_Key, list[Usage]] = {}
        for line in self.lines:
            found.setdefault(key_of(line), []).append(line)
        return {key: Ledger(tuple(lines)) for key, lines in found.items()}

    def until(self, when: datetime) -> Ledger:
        """Returns the usage until a moment; what goes on is known until then."""
        return Ledger(
            tuple(
                replace(line, until=min(line.until or when, when)) if line.since else line
                for line in self.lines
                if line.since is None or line.since < when
            )
        )

    def shares(self, weights_of: Callable[[Usage], Mapping[_Key, float]]) -> dict[_Key, Ledger]:
        """Divides each line in proportion to weights; the parts add up to this ledger.

        A line whose amount is unknown, or whose weights are all zero, belongs to the first part.
        """
        found: dict[_Key, list[Usage]] = {}
        for line in self.lines:
            weights, amount = weights_of(line), line.amount
            total = math.fsum(weights.values())
            if amount is None or not total:
                found.setdefault(next(iter(weights)), []).append(line)
                continue
            for key, weight in weights.items():
                part = replace(line, quantity=weight * (amount / total), since=None, until=None)
                found.setdefault(key, []).append(part)
        return {key: Ledger(tuple(lines)) for key, lines in found.items()}

    def line_items(self) -> tuple[LineItem, ...]:
        """Returns the lines of each item and price row as one, those of an item next to each other."""
        groups: dict[tuple[str, str | None], list[Usage]] = {}
        for line in self.lines:
            row = line.row.row_id if line.row and line.usd is not None else None
            groups.setdefault((line.name, row), []).append(line)
        names = Counter(name for name, _ in groups)
        order = {name: number for number, name in enumerate(names)}
        return tuple(
            _line_item(lines, name if names[name] == 1 else f"{name} ({row or 'unknown share'})")
            for (name, row), lines in sorted(groups.items(), key=lambda one: order[one[0][0]])
        )

    def rows(self) -> tuple[PriceRow | FeeRow, ...]:
        """Returns each price row of a known line, once."""
        known = (line.row for line in self.lines if line.row and line.usd is not None)
        return tuple({row.row_id: row for row in known}.values())


def _line_item(lines: list[Usage], name: str) -> LineItem:
    first, row = lines[0], lines[0].row
    amount = _sum(line.amount for line in lines)
    seconds = _sum(line.seconds for line in lines)
    is_known = first.usd is not None
    of_fee = row if isinstance(row, FeeRow) and is_known else None
    return LineItem(
        item=first.item,
        name=name,
        seconds=seconds,
        node_seconds=amount if first.is_node_time and is_known else None,
        quantity=of_fee.in_units(amount) if of_fee and amount is not None else None,
        unit=of_fee.unit if of_fee else None,
        duration=first.duration,
        usd=math.fsum(line.usd or 0.0 for line in lines) if is_known else None,
        price_row=row.row_id if row and is_known else None,
        why_unknown=None if is_known else first.why or "its amount is unknown",
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None
