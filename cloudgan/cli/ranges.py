"""Ranges as users write them: `10:100`, or one number."""

from __future__ import annotations

from cloudgan.core.errors import ConfigError


def parse_range(flag: str, text: str) -> tuple[float, float]:
    """Reads ``low:high``, or one number for both.

    Raises:
        ConfigError: It is neither, or runs backwards.
    """
    parts = text.split(":")
    try:
        low, high = (float(part) for part in (parts if len(parts) > 1 else parts * 2))
    except ValueError as error:
        raise ConfigError(f"--{flag}={text}: expected low:high, such as 10:100") from error
    if not low <= high:
        raise ConfigError(f"--{flag}={text}: runs backwards; write --{flag}={high:g}:{low:g}")
    return low, high
