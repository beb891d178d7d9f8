"""Rounds in turns, clocks, and statistics of measurements that were neighbours in time."""

from __future__ import annotations

import signal
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ConfigDict, Field

from cloudgan.core.errors import CloudganError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.reports.page import Page
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cloudgan.core.progress import Progress

_TWO = 2


class Measurement(Result):
    """What `cloudgan bench` measured: its figures by name, and how a person reads them."""

    model_config = ConfigDict(extra="allow")

    machine: str = Field(default_factory=lambda: this_machine().describe())
    interrupted: bool = Field(False, description="whether Ctrl-C ended it early")
    lines: tuple[str, ...] = Field(exclude=True)
    """The first one is the result."""
    tables: tuple[Table, ...] = Field(exclude=True)
    """The first one is shown, the others with ``-v``."""
    make_page: Callable[[], Page] | None = Field(None, exclude=True)

    def view(self) -> View:
        """Returns the first table between the lines."""
        first, *others = self.tables
        return View(self.lines[0], first, notes=self.lines[1:], basis=tuple(others))

    def page(self) -> Page | None:
        """Returns the page with its tables and figures."""
        return self.make_page() if self.make_page else None

    def problem(self) -> CloudganError | None:
        """Says that rounds are missing."""
        if not self.interrupted:
            return None
        return Interrupted("stopped before the last round; the result has the rounds until then")


@dataclass(frozen=True)
class Spread:
    """Distribution of repeated measurements, in their unit.

    Attributes:
        lower_quartile: First quartile.
        upper_quartile: Third quartile.
        count: Number of measurements.
    """

    median: float
    min: float
    max: float
    lower_quartile: float
    upper_quartile: float
    count: int

    def as_json(self) -> dict[str, float | int]:
        """Returns the fields by name."""
        return asdict(self)

    def describe(self, digits: int = 3) -> str:
        """Returns median and range, such as ``2.51 (2.43 to 2.60)``."""
        low, high = f"{self.min:.{digits}g}", f"{self.max:.{digits}g}"
        return f"{self.median:.{digits}g} ({low} to {high})"


def spread(values: Sequence[float]) -> Spread:
    """Summarises measurements; quartiles are interpolated.

    Raises:
        CloudganError: No measurement.
    """
    if not values:
        raise CloudganError("nothing was measured: no round was finished")
    low, high = min(values), max(values)
    quartiles = (low, high)
    if len(values) >= _TWO:
        cut = statistics.quantiles(values, n=4, method="inclusive")
        quartiles = (cut[0], cut[2])
    return Spread(statistics.median(values), low, high, *quartiles, len(values))


def paired(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Summarises the ratios of neighbours, `above[i] / below[i]`.

    Other load on the machine slows both of a pair, so their ratio is stable, unlike the ratio of two
    medians. Unpaired values are left out.

    Raises:
        CloudganError: No pair.
    """
    return spread([one / other for one, other in zip(above, below, strict=False)])


MeasuredVariant = TypeVar("MeasuredVariant")


class Rounds(Generic[MeasuredVariant]):
    """Measures all variants in turns, so that each meets the same noise of the machine.

    Attributes:
        interrupted: Whether Ctrl-C ended the rounds early.
    """

    def __init__(self, measures: Mapping[str, Callable[[], MeasuredVariant]]) -> None:
        """Calls each of `measures` once per round."""
        self._measures = dict(measures)
        self._taken: dict[str, list[MeasuredVariant]] = {name: [] for name in self._measures}
        self.interrupted = False

    def run(self, rounds: int, progress: Progress) -> None:
        """Runs `rounds` rounds: A B, A B, ...

        Ctrl-C or SIGTERM ends them early; results so far are kept.

        Raises:
            Interrupted: No result so far.
        """
        progress.start("measuring in turns", rounds * len(self._measures), "turns")
        try:
            with _sigterm_interrupts():
                for number in range(rounds):
                    for name, measure in self._measures.items():
                        self._taken[name].append(measure())
                        progress.advance(1, f"round {number + 1}/{rounds}, {name}")
        except KeyboardInterrupt:
            self.interrupted = True
            if not any(self._taken.values()):
                raise Interrupted("stopped before anything was measured") from None

    @property
    def results(self) -> dict[str, list[MeasuredVariant]]:
        """Results by variant, in the order of the rounds; without variants that have none."""
        return {name: found for name, found in self._taken.items() if found}


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


def timed(work: Callable[[], object], count: int) -> dict[str, float]:
    """Returns wall and CPU seconds (all threads) per item of `count` items of work."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"seconds": wall / count, "cpu_seconds": cpu / count}


def round_or_latency(
    work: Callable[[int, int], object], question: str, given: Mapping[str, Any]
) -> dict[str, float]:
    """Calls `work` with a number of showers and a seed.

    A round is one call for `count` showers; `latency` is that of `count` calls for one shower each. Seconds are
    per shower.
    """
    count, seed = given["count"], given["seed"]
    if question == "latency":
        return timed(lambda: [work(1, seed + number) for number in range(count)], count)
    return timed(lambda: work(count, seed), count)
