"""What was found, as JSON and as Markdown tables."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu_step.prices import (
    EPOCH_SHOWERS,
    GOAL_USD,
    PUBLISHED_USD,
    epoch_usd,
    usd_per_gpu_hour,
)
from benchmarks.gpu_step.timing import limit_of
from cloudgan.bench.harness import Spread, ratios, spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.gpu_step.timing import Ceilings
    from cloudgan.schema.price_row import PriceRow

SCHEMA = 1
STEP = "step"
_UNKNOWN = "unknown"


class Row(NamedTuple):
    """What a run of a program of a variant took, in each round, in seconds; None: unknown."""

    program: str
    conv_impl: str
    precision: str
    batch: int
    rounds: tuple[float, ...]
    compile_seconds: float
    flops: float | None
    moved_bytes: float | None
    temporary_bytes: float | None

    @property
    def seconds(self) -> Spread:
        """Of one run, over the rounds."""
        return spread(self.rounds)

    @property
    def samples_per_second(self) -> float:
        """Of the median."""
        return self.batch / self.seconds.median


class LeftOut(NamedTuple):
    """What was not timed, and why."""

    program: str
    conv_impl: str
    precision: str
    batch: int
    reason: str


class Difference(NamedTuple):
    """How far a variant's first step is from the first variant's, relative to it.

    Attributes:
        update: Of all that is learned, after the whole step.
        loss: The total of the first pass, which no update went before.
    """

    conv_impl: str
    precision: str
    batch: int
    update: float
    loss: float


@dataclass
class Report:
    """All that a run of the benchmark found."""

    about: dict[str, Any]
    ceilings: Ceilings
    prices: tuple[PriceRow, ...]
    rows: list[Row] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Returns everything, for JSON."""
        return {
            "schema": SCHEMA,
            "about": self.about,
            "ceilings": self.ceilings._asdict(),
            "rows": [self._row(row) for row in self.rows],
            "differences": [_finite(difference._asdict()) for difference in self.differences],
            "left_out": [left._asdict() for left in self.left_out],
            "price_rows": [row.model_dump() for row in self.prices],
            "epoch": {
                "showers": EPOCH_SHOWERS,
                "published_usd": PUBLISHED_USD,
                "goal_usd": GOAL_USD,
            },
        }

    def markdown(self) -> str:
        """Returns the tables."""
        parts = [
            "## " + ", ".join(f"{name} {value}" for name, value in self.about.items()),
            self._ceilings_line(),
            self._steps(),
            self._parts(),
            self._epochs(),
            self._differences(),
            self._left_out(),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _row(self, row: Row) -> dict[str, Any]:
        limit = limit_of(self.ceilings, row.precision, row.flops, row.moved_bytes)
        return {
            **row._asdict(),
            "seconds": vars(row.seconds),
            "samples_per_second": row.samples_per_second,
            "limit": limit and limit._asdict(),
            "share_of_limit": limit and limit.seconds / row.seconds.median,
            "epoch_usd": {
                price.row_id: epoch_usd(row.samples_per_second, price)
                for price in self.prices
                if row.program == STEP
            },
        }

    def _ceilings_line(self) -> str:
        products = ", ".join(
            f"{name} {tflops:.4g} TFLOP/s" for name, tflops in self.ceilings.tflops.items()
        )
        copied = self.ceilings.memory_gb_per_second
        return f"Measured limits: matrix product in {products}; copy {copied:.4g} GB/s."

    def _steps(self) -> str:
        rows = [row for row in self.rows if row.program == STEP]
        head = [*_HEAD, "samples/s", "ratio to first", "USD/epoch, cheapest"]
        body = []
        for row in rows:
            first = next(other for other in rows if other.batch == row.batch)
            ratio = spread(ratios(first.rounds, row.rounds)).describe()
            usd = f"{epoch_usd(row.samples_per_second, self.prices[0]):.4f}" if self.prices else ""
            body.append(
                [
                    *self._cells(row),
                    f"{row.samples_per_second:.1f}",
                    ratio,
                    usd or _UNKNOWN,
                ]
            )
        return _table(head, body)

    def _parts(self) -> str:
        rows = {(r.program, r.conv_impl, r.precision, r.batch): r for r in self.rows}
        head = [*_HEAD, "backward ms"]
        body = []
        for row in self.rows:
            if row.program == STEP:
                continue
            network, _, kind = row.program.partition("_")
            forward = rows.get((f"{network}_forward", *row[1:4]))
            backward = ""
            if kind == "gradient" and forward:
                backward = f"{1e3 * (row.seconds.median - forward.seconds.median):.2f}"
            body.append([*self._cells(row), backward])
        return _table(head, body)

    def _cells(self, row: Row) -> list[str]:
        limit = limit_of(self.ceilings, row.precision, row.flops, row.moved_bytes)
        spread = f"{1e3 * row.seconds.min:.2f}-{1e3 * row.seconds.max:.2f}"
        return [
            row.program,
            str(row.batch),
            row.conv_impl,
            row.precision,
            f"{1e3 * row.seconds.median:.2f}",
            spread,
            _scaled(row.flops, 1e9),
            _scaled(row.moved_bytes, 1e9),
            f"{limit.seconds / row.seconds.median:.0%} ({limit.bound})" if limit else _UNKNOWN,
            _scaled(row.temporary_bytes, 2**30),
            f"{row.compile_seconds:.1f}",
        ]

    def _epochs(self) -> str:
        rows = [row for row in self.rows if row.program == STEP]
        if not rows or not self.prices:
            return "What an epoch costs is unknown: no row of the catalogue is of this device."
        best = max(rows, key=lambda row: row.samples_per_second)
        speed = best.samples_per_second
        body = [
            [
                price.offer,
                f"{usd_per_gpu_hour(price):.4f}",
                f"{epoch_usd(speed, price):.4f}",
                f"{PUBLISHED_USD / epoch_usd(speed, price):.1f}",
                "yes" if epoch_usd(speed, price) < GOAL_USD else "no",
                price.source,
                price.date,
            ]
            for price in self.prices
        ]
        intro = (
            f"An epoch of {EPOCH_SHOWERS:,} showers by the fastest step"
            f" ({best.conv_impl}, {best.precision}, batch {best.batch}):"
            f" {EPOCH_SHOWERS / speed:.1f} s of steps, without start-up, input and validation."
            f" One GPU is charged its share of the node. Published: {PUBLISHED_USD} USD."
        )
        head = ["spot offer", "USD/GPU/h", "USD/epoch", "times cheaper than published"]
        return intro + "\n\n" + _table([*head, f"under {GOAL_USD}", "source", "of"], body)

    def _differences(self) -> str:
        body = [
            [d.conv_impl, d.precision, f"{d.update:.2e}", f"{d.loss:.2e}"] for d in self.differences
        ]
        head = ["conv_impl", "precision", "update differs by", "first loss differs by"]
        return _table(head, body)

    def _left_out(self) -> str:
        variants: dict[tuple[str, int, str], list[str]] = {}
        for left in self.left_out:
            place = left.program, left.batch, left.reason
            variants.setdefault(place, []).append(f"{left.conv_impl} {left.precision}")
        body = [
            [program, str(batch), ", ".join(names), reason]
            for (program, batch, reason), names in variants.items()
        ]
        return _table(["left out", "batch", "conv_impl and precision", "why"], body)


_HEAD = [
    "program",
    "batch",
    "conv_impl",
    "precision",
    "median ms",
    "least-most",
    "GFLOP",
    "GB moved",
    "of the limit",
    "temporary GiB",
    "compile s",
]


def _scaled(value: float | None, unit: float) -> str:
    return _UNKNOWN if value is None else f"{value / unit:.4g}"


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no nan."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _table(head: list[str], body: Iterable[list[str]]) -> str:
    """A Markdown table; nothing where it has no rows."""
    lines = [f"| {' | '.join(cells)} |" for cells in body]
    rule = f"|{' --- |' * len(head)}"
    return "\n".join([f"| {' | '.join(head)} |", rule, *lines]) if lines else ""
