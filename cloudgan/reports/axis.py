"""Axes with round numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROUND = (1, 2, 5)
_TOLERANCE = 1e-9
_ENOUGH = 3


@dataclass(frozen=True)
class Axis:
    """What an axis says.

    Attributes:
        label: With unit.
        log: Logarithmic; numbers of zero or less have no place on it.
        from_zero: A linear axis begins at zero.
        ticks: Numbers to write, ascending; empty: round ones.
    """

    label: str
    log: bool = False
    from_zero: bool = False
    ticks: tuple[float, ...] = ()

    def holds(self, value: float) -> bool:
        """Whether the number has a place here."""
        return math.isfinite(value) and (value > 0 or not self.log)


@dataclass(frozen=True)
class Scale:
    """Numbers to places.

    Attributes:
        axis: What it is the scale of.
        ticks: Round numbers that are written, ascending.
        low: Number at `start`.
        high: Number at `end`.
        start: Place of `low`, in pixels of the drawing.
        end: Place of `high`.
    """

    axis: Axis
    ticks: tuple[float, ...]
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Where a number stands, in pixels; beyond the ends for what is beyond them."""
        low, high = self.low, self.high
        if self.axis.log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def fit(axis: Axis, values: Iterable[float], start: float, end: float, most: int) -> Scale:
    """Returns a scale that holds all `values`, from tick to tick.

    Args:
        axis: Of which kind.
        values: Those without a place on the axis are left out.
        start: Place of the low end, in pixels.
        end: Place of the high end.
        most: Numbers that are written at the axis.
    """
    held = [value for value in values if axis.holds(value)] or [1.0]
    written = tuple(tick for tick in axis.ticks if axis.holds(tick))
    if len(written) > 1:
        low, high = min(*held, written[0]), max(*held, written[-1])
        kept = written[:: math.ceil(len(written) / most)]
        return Scale(axis, kept, low, high, start, end)
    if axis.log:
        edges = log_ticks(min(held), max(held))
        return Scale(axis, thinned(edges, most), edges[0], edges[-1], start, end)
    low, high = min(held), max(held)
    if axis.from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
        high = high if high > low else 1.0  # all are zero: no number below it is written
    ticks = linear_ticks(low, high, most)
    return Scale(axis, ticks, ticks[0], ticks[-1], start, end)


def linear_ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """At most `most` (3 or more) multiples of 1, 2 or 5 times a power of ten, around both ends."""
    if high - low <= abs(high) * _TOLERANCE:
        half = abs(high) / 2 or 1.0
        low, high = low - half, high + half
    power = math.floor(math.log10((high - low) / most)) - 1
    while True:
        for factor in _ROUND:
            step = factor * 10.0**power
            first = math.floor(low / step + _TOLERANCE)
            last = math.ceil(high / step - _TOLERANCE)
            if last - first < most:
                return tuple(_round(n * factor, power) for n in range(first, last + 1))
        power += 1


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 times powers of ten, from the last at or below `low` to the first beyond."""
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    ticks = [_round(factor, power) for power in range(first, last + 1) for factor in _ROUND]
    begin = max(n for n, tick in enumerate(ticks) if tick <= low * (1 + _TOLERANCE))
    end = min(n for n, tick in enumerate(ticks) if tick >= high * (1 - _TOLERANCE))
    if begin == end:  # one number only
        begin, end = begin - 1, end + 1
    return tuple(ticks[max(begin, 0) : end + 1])


def thinned(ticks: tuple[float, ...], most: int) -> tuple[float, ...]:
    """Keeps at most `most` of 1-2-5 ticks: powers of ten if there are three, or each n-th."""
    powers = tuple(t for t in ticks if math.isclose(math.log10(t), round(math.log10(t))))
    kept = powers if len(ticks) > most and len(powers) >= _ENOUGH else ticks
    return kept[:: math.ceil(len(kept) / most)]


def _round(factor: int, power: int) -> float:
    """Free of the noise of ``3 * 0.1``."""
    return float(f"{factor}e{power}")
