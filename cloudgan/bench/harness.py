"""The harness of `cloudgan bench`: variants in turns, their statistics, tables, JSON, page and comparison.

A turn of a variant is a `Row`: numbers by name, and each name ends with its unit. `in_turns` takes one row of
each variant per round, so that each meets the same noise of the machine. A `Column` says how a number is
summed up and under which head it stands; table and JSON follow from it. `run` compares with an earlier result.
"""

from __future__ import annotations

import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from cloudgan.bench.processes import Child
from cloudgan.core.documents import parse_json, read_text
from cloudgan.core.errors import CloudganError, ConfigError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.core.provenance import git_commit, versions
from cloudgan.reports.page import Block, Page, Paragraph, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Number, Table
from cloudgan.schema.options.bench import BenchOptions

Row = dict[str, float]


@dataclass(frozen=True)
class Spread:
    """Repeated measurements in their unit: median, extremes, quartiles and number."""

    median: float
    min: float
    max: float
    lower_quartile: float
    upper_quartile: float
    count: int

    def describe(self) -> str:
        """Returns median and range, such as ``2.51 (2.43 to 2.6)``."""
        return f"{self.median:.3g} ({self.min:.3g} to {self.max:.3g})"


def spread(values: Sequence[float]) -> Spread:
    """Sums up measurements; quartiles are interpolated. To have none is a CloudganError."""
    if not values:
        raise CloudganError("nothing was measured: no round was finished")
    several = values if len(values) > 1 else [*values, *values]
    low, _, high = statistics.quantiles(several, n=4, method="inclusive")
    return Spread(statistics.median(values), min(values), max(values), low, high, len(values))


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Returns the ratios of neighbours, `above[i] / below[i]`; a value without a partner is left out.

    Other load on the machine slows both of a pair, so their ratio is stable, unlike that of two medians.
    """
    return [one / other for one, other in zip(above, below, strict=False)]


@dataclass
class Measured:
    """A variant: what is known of it, and the rows of its turns."""

    name: str
    facts: dict[str, Any]
    rows: list[Row]

    def values(self, key: str) -> list[float]:
        """Returns a number of all turns that have it."""
        return [row[key] for row in self.rows if key in row]

    def spread(self, key: str) -> Spread:
        """Sums up a number of all turns."""
        return spread(self.values(key))

    def ratio(self, of: str, to: Measured) -> Spread:
        """Sums up the ratios of a number to that of another variant."""
        return spread(ratios(self.values(of), to.values(of)))

    def put_ratio(self, key: str, of: str, to: Measured | float, per: float = 1) -> None:
        """Adds the ratio of a number to that of another variant, or to one number, divided by `per`.

        A row without a partner in the other variant gets none.
        """
        theirs = to.values(of) if isinstance(to, Measured) else [to] * len(self.rows)
        for row, ratio in zip(self.rows, ratios(self.values(of), theirs), strict=False):
            row[key] = ratio / per


def in_turns(
    variants: Mapping[str, Callable[[], Row]],
    rounds: int,
    progress: Progress,
    *,
    facts: Mapping[str, dict[str, Any]] | None = None,
) -> tuple[list[Measured], bool]:
    """Measures all variants in turns: A B, A B, ...; Ctrl-C or SIGTERM keeps the rows so far.

    Returns:
        The variants that had a turn, with their facts, and whether it was interrupted.

    Raises:
        Interrupted: No variant had a turn.
    """
    found = {name: Measured(name, (facts or {}).get(name, {}), []) for name in variants}
    progress.start("measuring in turns", rounds * len(variants), "turns")
    interrupted = False
    try:
        with _sigterm_interrupts():
            for number in range(rounds):
                for name, measure in variants.items():
                    found[name].rows.append(measure())
                    progress.advance(1, f"round {number + 1}/{rounds}, {name}")
    except KeyboardInterrupt:
        interrupted = True
    measured = [variant for variant in found.values() if variant.rows]
    if not measured:
        raise Interrupted("stopped before anything was measured")
    return measured, interrupted


def children_in_turns(
    children: Sequence[Child], rounds: int, progress: Progress, *, warm_up: bool = True
) -> tuple[list[Measured], bool]:
    """Starts processes, which build their variants at the same time, and measures them as `in_turns` does.

    With `warm_up` each has a turn before that is not counted.
    """
    with ExitStack() as stack:
        progress.start("building " + ", ".join(child.variant for child in children))
        turns = {child.variant: stack.enter_context(child) for child in children}
        facts = {name: child.facts() for name, child in turns.items()}
        if warm_up:
            for child in children:
                child()
        return in_turns(turns, rounds, progress, facts=facts)


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def timed(work: Callable[[], object], count: int = 1) -> tuple[float, float]:
    """Returns wall and CPU seconds (all threads) per item of `count` items of work."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def with_range(found: Spread) -> Cell:
    """Shows median and range; of one measurement the plain number."""
    text = found.describe() if found.count > 1 else f"{found.median:.3g}"
    return Number(found.median, text)


class Column(NamedTuple):
    """A number of the rows of each variant: its name there and in JSON, and its head in the table, "": none.

    `shown` makes the cell, by default of the median; `scale` is from the unit of the row to that of the table.
    """

    key: str
    head: str = ""
    shown: Callable[[Spread], Cell] = lambda found: found.median
    scale: float = 1.0


def table_of(
    variants: Sequence[Measured],
    columns: Sequence[Column],
    caption: str,
    facts: Mapping[str, str] | None = None,
    head: str = "variant",
) -> Table:
    """Returns a row per variant: its name, facts by head, and the columns that have a head."""
    rows: list[dict[str, Cell]] = []
    for one in variants:
        row: dict[str, Cell] = {head: one.name}
        row |= {name: one.facts.get(key) for name, key in (facts or {}).items()}
        rows.append(row)
        for column in (each for each in columns if each.head):
            values = [column.scale * value for value in one.values(column.key)]
            row[column.head] = column.shown(spread(values)) if values else None
    return Table.of(rows, caption)


def variants_json(variants: Sequence[Measured], columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Returns the facts, the summed-up numbers and all rows of each variant."""
    keys = [column.key for column in columns]
    return [
        {"name": one.name}
        | one.facts
        | {key: one.spread(key) if one.values(key) else None for key in keys}
        | {"rounds": one.rows}
        for one in variants
    ]


class Measurement(Result):
    """What `cloudgan bench` measured: its figures by name, and how a person reads them."""

    model_config = ConfigDict(extra="allow")

    machine: str = Field(default_factory=lambda: this_machine().describe())
    versions: dict[str, str] = Field(default_factory=versions)
    commit: str | None = Field(
        default_factory=git_commit, description="of the checkout; null: an installed package"
    )
    interrupted: bool = Field(False, description="whether Ctrl-C ended it early")
    title: str = Field(description="the question that it answers")
    lines: tuple[str, ...] = Field(exclude=True)
    """The first one is the result."""
    tables: tuple[Table, ...] = Field(exclude=True)
    """The first one is shown, the others with ``-v``."""
    pictures: Callable[[], tuple[Block, ...]] = Field(tuple, exclude=True)
    """Made for the page only."""

    def view(self) -> View:
        """Returns the first table between the lines."""
        first, *others = self.tables
        return View(self.lines[0], first, notes=self.lines[1:], basis=tuple(others))

    def page(self) -> Page:
        """Returns the page with its tables and figures."""
        blocks = (*self.pictures(), *self.tables, *map(Paragraph, self.lines))
        about = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return Page(self.title, self.machine, (Section("Results", blocks),), footer=about)

    def problem(self) -> CloudganError | None:
        """Says that rounds are missing."""
        if not self.interrupted:
            return None
        return Interrupted("stopped before the last round; the result has the rounds until then")


def run(
    measure: Callable[[Any, Progress], Measurement | None],
    options: BenchOptions,
    progress: Progress,
) -> Measurement | None:
    """Measures, and compares the result with `options.compare`.

    An earlier result that cannot be read is refused before anything is measured.
    """
    earlier = _read_earlier(options.compare) if options.compare else None
    found = measure(options, progress)
    return _compared(found, earlier, options.compare) if found and earlier else found


def _read_earlier(path: Path) -> dict[str, Any]:
    how = f"write it with `cloudgan bench ... --json > {path}`"
    if not path.is_file():
        raise ConfigError(f"--compare={path}: no such file; {how}")
    found = parse_json(read_text(path, ConfigError), str(path), ConfigError)
    if not isinstance(found, dict) or not list(_numbers(found)):
        raise ConfigError(f"--compare={path} has no measured numbers; {how}")
    return found


_MEASURED = "measured"


def _numbers(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yields name and median of each number of a JSON document; an item of a list has its own name.

    A fraction below `measured` was measured once.
    """
    if isinstance(value, Mapping):
        if value.keys() >= Spread.__dataclass_fields__.keys():
            yield place, value["median"]
            return
        for key, inner in value.items():
            is_list = isinstance(inner, list | tuple) and key != _MEASURED
            yield from _numbers(inner, place if is_list else (*place, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            named = item if isinstance(item, Mapping) else {}
            own = next((named[key] for key in ("name", "grid", "preset") if key in named), number)
            yield from _numbers(item, (*place, str(own)))
    elif isinstance(value, float) and _MEASURED in place:
        yield place, value


def _compared(found: Measurement, earlier: Mapping[str, Any], path: Path | None) -> Measurement:
    before, now = dict(_numbers(earlier)), dict(_numbers(found.as_json()))
    both = [place for place in now if before.get(place) and now[place]]
    if not both:
        said = f"{path} has no number of these variants: nothing is compared"
        return found.model_copy(update={"lines": (*found.lines, said)})
    lines, machine = found.lines, str(earlier.get("machine"))
    if machine != found.machine:
        lines += (f"Of another machine than this one ({found.machine}): compare ratios only.",)
    table = Table(
        ("number", "earlier", "now", "now / earlier"),
        tuple((": ".join(at), before[at], now[at], now[at] / before[at]) for at in both),
        f"Medians beside those of {path}, commit {earlier.get('commit') or 'unknown'}, {machine}.",
    )
    comparison = [{"of": list(at), "earlier": before[at], "now": now[at]} for at in both]
    more = {"tables": (table, *found.tables), "lines": lines, "comparison": comparison}
    return found.model_copy(update=more)
