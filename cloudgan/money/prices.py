"""The price catalogue: lists and refreshes prices; the command `prices`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from cloudgan.core.clock import utc_moment, utc_today
from cloudgan.core.clouds import title_of
from cloudgan.core.command import command
from cloudgan.core.errors import CloudganError, CredentialsError, counted
from cloudgan.core.progress import Progress, Silent
from cloudgan.money.catalog import (
    load_catalog,
    price_folder,
    shipped_catalog,
    updated,
    write_catalog,
)
from cloudgan.money.fees import load_fees
from cloudgan.money.refresh.feeds import RefreshResult, feeds_by_provider, refresh
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Number, Table
from cloudgan.schema.options.money import PricesOptions
from cloudgan.schema.price_row import ANY_REGION, STALE_DAYS, FeeRow, Market, PriceRow

_MAX_REJECTED = 10


class PriceList(Result):
    """Prices of nodes, and the fees beside them."""

    today: dt.date
    rows: tuple[PriceRow, ...]
    fees: tuple[FeeRow, ...]
    by_node: bool = Field(description="whether the table has a row per node, not per accelerator")

    def as_json(self) -> dict[str, Any]:
        """Returns all rows with their ages."""
        return {
            "schema_version": self.schema_version,
            "today": self.today.isoformat(),
            "rows": [row.model_dump() | _age_facts(row, self.today) for row in self.rows],
            "fees": [row.model_dump() | _age_facts(row, self.today) for row in self.fees],
        }

    def view(self) -> View:
        """Returns the prices by accelerator, or by node; storage, egress and clusters are the basis."""
        stale = sum(row.is_stale(self.today) for row in self.rows)
        notes = [
            "USD per hour; grade: A in the source, B partly derived, C not confirmed; ≤ at most"
        ]
        if not self.by_node:
            notes = ["USD per accelerator and hour, the lowest; --accelerator=NAME shows the nodes"]
        if self.fees:
            notes.append("-v shows storage, egress and clusters")
        if stale:
            notes.append(
                f"{counted(stale, 'is', 'are')} undated or older than {STALE_DAYS} days: `cloudgan prices refresh`"
            )
        return View(
            line=f"{counted(len(self.rows), 'price')} of nodes",
            table=self._node_table() if self.by_node else self._accelerator_table(),
            notes=tuple(notes),
            basis=tuple(self._fee_lines()),
        )

    def _accelerator_table(self) -> Table:
        by_name: dict[str, list[PriceRow]] = {}
        for row in self.rows:
            if row.accelerator_count:
                by_name.setdefault(row.accelerator, []).append(row)
        rows = tuple(
            (
                name,
                self._least(its, "spot"),
                self._least(its, "on_demand"),
                ", ".join(map(str, sorted({row.accelerator_count for row in its}))),
                ", ".join(sorted({title_of(row.provider) for row in its})),
                self._oldest(its),
            )
            for name, its in sorted(by_name.items())
        )
        heads = ("accelerator", "spot", "on demand", "per node", "clouds", "days old")
        return Table(heads, rows, align="lrrllr")

    def _least(self, rows: list[PriceRow], market: Market) -> Number:
        each = [row.usd_per_hour / row.accelerator_count for row in rows if row.market == market]
        return Number(min(each), f"{min(each):.2f}") if each else Number(None, "")

    def _oldest(self, rows: list[PriceRow]) -> str:
        ages = sorted({age for row in rows if (age := row.age_days(self.today)) is not None})
        if not ages:
            return "undated"
        return str(ages[0]) if ages[0] == ages[-1] else f"{ages[0]} - {ages[-1]}"

    def _node_table(self) -> Table:
        rows = tuple(
            (
                row.node_type.removeprefix("Standard_"),
                f"{row.usd_per_hour:.4f}",
                row.market.replace("_", " "),
                f"{title_of(row.provider)} {row.region}",
                self._age(row),
                row.confidence,
            )
            for row in self.rows
        )
        heads = ("node", "USD/h", "market", "where", "days old", "grade")
        return Table(heads, rows, align="lrllrl")

    def _age(self, row: PriceRow) -> Number:
        days = row.age_days(self.today)
        if days is None:
            return Number(None, "")
        return Number(days, f"{'≤' if row.has_earliest_date else ''}{days}")

    def _fee_lines(self) -> Iterator[str]:
        for fee in self.fees:
            name = (
                f"{title_of(fee.provider)} {fee.kind.replace('_', ' ')}: {fee.name}, {fee.region}"
            )
            yield f"{name:<64}{fee.usd:>10.4f} USD/{fee.unit:<10}{fee.age_text(self.today)}"


class RefreshedPrices(Result):
    """Result of a refresh of the price lists."""

    folder: str
    sources: tuple[RefreshResult, ...]
    output: str | None = Field(description="new nodes.csv; None: none was asked for")
    changed: int | None = Field(description="prices of it that differ from the package")

    def view(self) -> View:
        """Returns the result of each cloud as lines."""
        lines = [line for result in self.sources for line in refresh_lines(result)]
        notes = [f"written to {self.folder}"]
        if self.output:
            notes.append(f"{self.changed} prices differ from the package; written to {self.output}")
        return View("\n".join(lines), notes=tuple(notes))

    def problem(self) -> CloudganError | None:
        """Returns the error of a cloud whose price list could not be read."""
        failed = [result.source for result in self.sources if result.state == "failed"]
        return CloudganError(f"not refreshed: {', '.join(failed)}") if failed else None


@command
def prices(
    options: PricesOptions, *, progress: Progress | None = None
) -> PriceList | RefreshedPrices:
    """Returns the prices of nodes, storage, egress and clusters, or what a refresh changed.

    Args:
        options: Which prices.
        progress: Receives each task of a refresh and its progress.

    Raises:
        UnknownNameError: A name is not in the catalogue.
        CredentialsError: All clouds were skipped for lack of credentials.
        CloudganError: No cloud was refreshed.
    """
    provider, region = options.provider, options.region
    if options.action == "refresh":
        return _refreshed(provider, options.output, progress or Silent())
    rows = load_catalog().find(
        provider=provider, accelerator=options.accelerator, region=region, market=options.market
    )
    fees = (
        row
        for row in load_fees().rows
        if provider in {None, row.provider}
        and (region is None or row.region in {region, ANY_REGION})
    )
    only_nodes = options.accelerator is not None or options.market is not None
    return PriceList(
        today=utc_today(),
        rows=rows,
        fees=() if only_nodes else tuple(fees),
        by_node=options.accelerator is not None or region is not None,
    )


def _refreshed(provider: str | None, output: Path | None, progress: Progress) -> RefreshedPrices:
    """Downloads the clouds' price lists into the data folder; a cloud that failed keeps its old prices.

    `output` receives the prices of the package with the refreshed ones, as a new nodes.csv.
    """
    results = tuple(
        refresh(name, feeds, price_folder())
        for name, feeds in feeds_by_provider(progress, utc_moment()).items()
        if provider in {None, name}
    )
    if any(result.state == "refreshed" for result in results):
        changed = None
        if output:
            old = shipped_catalog()
            new = updated(old, load_catalog())
            write_catalog(output, new.rows)
            changed = len(set(new.rows) - set(old.rows))
        return RefreshedPrices(
            folder=str(price_folder()),
            sources=results,
            output=str(output) if output else None,
            changed=changed,
        )
    reasons = "\n".join(line for result in results for line in refresh_lines(result))
    if all(result.state == "skipped" for result in results):
        raise CredentialsError(f"no prices were refreshed\n{reasons}")
    raise CloudganError(f"no prices were refreshed\n{reasons}")


def refresh_lines(result: RefreshResult) -> Iterator[str]:
    """Yields the result of one cloud as lines."""
    count = f", {counted(result.rows, 'price')}" if result.rows else ""
    yield f"{result.source}: {result.state}{count}"
    yield from (f"  {line}" for line in result.notes)
    if result.rejected:
        yield f"  {counted(len(result.rejected), 'implausible price')} rejected:"
        for quote in result.rejected[:_MAX_REJECTED]:
            yield f"    {quote.offer}: {quote.why}"
        more = len(result.rejected) - _MAX_REJECTED
        if more > 0:
            yield f"    and {more} more, listed by --json"


def _age_facts(row: PriceRow | FeeRow, today: dt.date) -> dict[str, Any]:
    """Returns the identifier and the age of a row."""
    return {
        "id": row.row_id,
        "age": row.age_text(today),
        "age_days": row.age_days(today),
        "stale": row.is_stale(today),
    }
