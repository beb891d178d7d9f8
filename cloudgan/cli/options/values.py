"""Parses values of flags that several commands have: ranges, lists of counts, and `--step`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError
from cloudgan.core.ranges import MAX_GEV, MAX_STEP, Range, parse_whole

if TYPE_CHECKING:
    from cloudgan.api.run import Step


_RANGE = Range(-MAX_GEV, MAX_GEV)


def parse_range(flag: str, text: str) -> tuple[float, float]:
    """Parses ``low:high``, or a single number for both.

    Raises:
        ConfigError: The text is neither, or low exceeds high.
    """
    parts = text.split(":")
    try:
        low, high = (float(part) for part in (parts if len(parts) > 1 else parts * 2))
    except ValueError as error:
        raise ConfigError(f"--{flag}={text}: expected low:high, such as 10:100") from error
    for end in (low, high):
        _RANGE.check(f"--{flag}", end)
    if not low <= high:
        raise ConfigError(f"--{flag}={text}: low exceeds high; write --{flag}={high:g}:{low:g}")
    return low, high


def parse_counts(flag: str, text: str, bounds: Range) -> list[int]:
    """Parses different numbers such as ``1,2,4``; returns them in ascending order.

    Raises:
        ConfigError: Not such a list, or a number is out of bounds.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise ConfigError(
            f"--{flag}={text[:80]}: expected numbers of at least {bounds.low:g}, such as 2,8"
        )
    return sorted({parse_whole(f"--{flag}", word, bounds) for word in words})


def parse_step(text: str | None) -> Step:
    """Parses `--step`: the number of a checkpoint, or ``best``.

    Raises:
        ConfigError: The text is neither a whole number nor ``best``.
    """
    if text is None or text == "best":
        return "best" if text else None
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(
            f"--step={text}: expected the number of a step, or best; default: the newest"
        )
    return parse_whole("--step", text, Range(0, MAX_STEP))
