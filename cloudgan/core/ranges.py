"""Ranges of the numbers that users give: within what memory, disk, clock and formats can hold.

The bounds are generous: they refuse what no machine can do, so that no number overflows a file
format, a library or a sum. Sources of bounds that a format sets are beside them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from cloudgan.core.errors import ConfigError

MAX_SEED: Final = 2**31 - 1
"""TensorFlow's seeds are 32-bit integers, and HDF5 attributes at most 64-bit ones."""
MAX_STEP: Final = 999_999_999
"""Names of checkpoints have nine digits."""
MAX_SECONDS: Final = 1e9
"""About 32 years: deadlines are dates, and those of the clouds' APIs end with the year 9999."""
MAX_USD: Final = 1e9
MAX_SHOWERS: Final = 10**12
MAX_EPOCHS: Final = 10**6
MAX_PROCESSES: Final = 10_000
"""Nodes, replicas or threads; no batch of showers is divided further."""
MAX_LOCAL_PROCESSES: Final = 1024
"""Worker processes of one machine, at most one per core: no node of the price catalog has as many
cores, and each process takes a port and about a gigabyte."""
MAX_SIZE: Final = 10**9
"""Accelerators, nodes or steps in a file of timings."""
MAX_BATCH: Final = 2**24
MAX_PATIENCE: Final = 1000
MAX_SMOOTH: Final = 100
"""A checkpoint keeps the metrics of so many validations."""
MAX_CORES: Final = 10_000
MAX_GIB: Final = 100_000
MAX_GEV: Final = 1e6


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included unless `above`.

    Attributes:
        above: Whether `low` itself is outside.
    """

    low: float
    high: float
    above: bool = False

    def check(self, name: str, value: float) -> None:
        """Refuses a number outside of the range."""
        if not abs(value) < math.inf:  # an integer may be too large for a float
            raise ConfigError(f"{name}={value}: expected a finite number")
        if self.above and value <= self.low:
            low = "zero" if self.low == 0 else _text(self.low)
            raise ConfigError(f"{name}={_text(value)} must be above {low}")
        if value < self.low:
            raise ConfigError(f"{name}={_text(value)}: expected at least {_text(self.low)}")
        if value > self.high:
            raise ConfigError(f"{name}={_text(value)}: expected at most {_text(self.high)}")


def parse_whole(name: str, text: str, known: Range) -> int:
    """Parses a whole number."""
    if not re.fullmatch(r"\s*[+-]?[0-9]+(_[0-9]+)*\s*", text):
        raise ConfigError(f"{name} must be a whole number, got {text[:80]!r}")
    digits = re.sub("[^0-9]", "", text)
    if len(digits.lstrip("0")) > _MAX_DIGITS:
        bound = f"at least {_text(known.low)}" if "-" in text else f"at most {_text(known.high)}"
        raise ConfigError(f"{name} has {len(digits)} digits: expected {bound}")
    value = int(text)
    known.check(name, value)
    return value


def parse_range(name: str, text: str) -> tuple[float, float]:
    """Parses ``low:high`` in GeV or degrees, or a single number for both."""
    parts = text.split(":")
    try:
        low, high = (float(part) for part in (parts if len(parts) > 1 else parts * 2))
    except ValueError as error:
        raise ConfigError(f"{name}={text}: expected low:high, such as 10:100") from error
    for end in (low, high):
        Range(-MAX_GEV, MAX_GEV).check(name, end)
    if not low <= high:
        raise ConfigError(f"{name}={text}: low exceeds high; write {name}={high:g}:{low:g}")
    return low, high


def _text(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


_MAX_DIGITS = 18
