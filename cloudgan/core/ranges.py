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
        """Refuses a number outside of the range.

        Args:
            name: Flag or key, as the user wrote it.
            value: The number.

        Raises:
            ConfigError: It is outside, or not finite.
        """
        if not math.isfinite(value):
            raise ConfigError(f"{name}={value}: expected a finite number")
        if self.above and value <= self.low:
            low = "zero" if self.low == 0 else _text(self.low)
            raise ConfigError(f"{name}={value:g} must be above {low}")
        if value < self.low:
            raise ConfigError(f"{name}={value:g}: expected at least {_text(self.low)}")
        if value > self.high:
            raise ConfigError(f"{name}={_text(value)}: expected at most {_text(self.high)}")


def parse_whole(name: str, text: str, known: Range) -> int:
    """Parses a whole number.

    Raises:
        ConfigError: The text is not one, or the number is outside of the range.
    """
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
    """Parses ``low:high`` in GeV or degrees, or a single number for both.

    Raises:
        ConfigError: The text is neither, or low exceeds high.
    """
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

_PROCESSES = Range(1, MAX_PROCESSES)
_SECONDS = Range(0, MAX_SECONDS, above=True)
_USD = Range(0, MAX_USD, above=True)

FLAGS: Final = {
    "barrier_seconds": _SECONDS,
    "batch": Range(1, MAX_BATCH),
    "batches": Range(1, MAX_STEP),
    "blocks": _PROCESSES,
    "budget_usd": _USD,
    "checkpoint_every_steps": Range(1, MAX_STEP),
    "checkpoint_seconds": Range(0, MAX_SECONDS),
    "cpus": Range(0, MAX_CORES, above=True),
    "cut_mm": Range(0, 1e6, above=True),
    "data_share": Range(0, 1, above=True),
    "discriminator_every": Range(1, MAX_STEP),
    "elastic_force": Range(0, MAX_PROCESSES),
    "epochs": Range(1, MAX_EPOCHS),
    "feed": Range(0, 1e12, above=True),
    "fitness_samples": Range(1, MAX_BATCH),
    "first_step_seconds": _SECONDS,
    "folds": Range(2, 100),
    "global_batch": Range(1, MAX_BATCH),
    "grace_seconds": Range(0, MAX_SECONDS),
    "group": _PROCESSES,
    "iterations": Range(1, MAX_EPOCHS),
    "learning_rate": Range(0, 1e6, above=True),
    "losses_per_node_hour": Range(0, 3600),
    "master_sync_every": Range(1, 10**6),
    "held_out": Range(0, 0.5, above=True),
    "masters": _PROCESSES,
    "max_hours": Range(0, MAX_SECONDS / 3600, above=True),
    "max_seconds": _SECONDS,
    "max_steps": Range(1, MAX_STEP),
    "max_usd_per_hour": _USD,
    "memory_gib": Range(0, MAX_GIB, above=True),
    "message_seconds": Range(0, MAX_SECONDS),
    "mixture_sigma": Range(0, 1),
    "nodes": _PROCESSES,
    "patience": Range(1, MAX_PATIENCE),
    "population": Range(1, 100),
    "port": Range(0, 65_535),
    "quality": Range(1, MAX_STEP),
    "ranks": _PROCESSES,
    "rate_probability": Range(0, 1),
    "rate_sigma": Range(0, 1e6),
    "records_per_shard": Range(1, 10**6),
    "repeats": Range(1, 100),
    "replacements": Range(1, 100),
    "replicas": _PROCESSES,
    "restart_seconds": Range(0, MAX_SECONDS),
    "rounds": Range(1, 10**6),
    "save_every": Range(1, MAX_EPOCHS),
    "score_samples": Range(1, MAX_BATCH),
    "seconds": _SECONDS,
    "seed": Range(0, MAX_SEED),
    "service_seconds": _SECONDS,
    "showers": Range(1, MAX_SHOWERS),
    "silence_seconds": Range(1, MAX_SECONDS),
    "size": Range(1, 1024),
    "smooth": Range(1, MAX_SMOOTH),
    "stall_seconds": _SECONDS,
    "step_seconds": _SECONDS,
    "step_showers_per_second": Range(0, 1e12, above=True),
    "steps": Range(1, MAX_STEP),
    "steps_per_loop": Range(1, 10**6),
    "sync_every": Range(1, 10**6),
    "threads": _PROCESSES,
    "tournament": Range(1, MAX_PROCESSES),
    "unattended_minutes": Range(0, MAX_SECONDS / 60),
    "validate_every": Range(0, MAX_EPOCHS),
    "watch_minutes": Range(0, MAX_SECONDS / 60),
    "worker": Range(0, MAX_PROCESSES),
    "trials": Range(1, 10_000),
    "workers": Range(1, MAX_LOCAL_PROCESSES),
}
"""By the name of the flag, or of the keyword of the Python API: a name means the same everywhere."""


def check(**values: float | None) -> None:
    """Checks keyword arguments by the ranges of their flags; None is not given.

    Raises:
        ConfigError: A value is outside of its range.
    """
    for name, value in values.items():
        if value is not None:
            FLAGS[name].check(f"--{name.replace('_', '-')}", value)
