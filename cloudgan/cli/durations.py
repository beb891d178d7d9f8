"""Lengths of time as people type them: 2h, 90m, 1h30m, 1.5h, 45s, 2d."""

from __future__ import annotations

import math
import re

from cloudgan.core.errors import ConfigError

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*", re.IGNORECASE)


def seconds_of(text: str, flag: str) -> float:
    """Returns the seconds that `text` means.

    Args:
        text: Such as ``2h`` or ``1h30m``.
        flag: Where it was given, for the message.

    Raises:
        ConfigError: It is no length of time above zero; a bare number lacks its unit.
    """
    stripped, place, total = text.strip(), 0, 0.0
    units: list[float] = []
    while place < len(stripped):
        part = _PART.match(stripped, place)
        if part is None:
            break
        units.append(_UNITS[part[2].casefold()])
        total += float(part[1]) * units[-1]
        place = part.end()
    in_order = units == sorted(set(units), reverse=True)
    if place < len(stripped) or not in_order or not 0 < total < math.inf:
        unit = f"; did you mean {stripped}h?" if stripped.replace(".", "", 1).isdigit() else ""
        raise ConfigError(f"{flag} takes a time such as 2h, 90m or 1h30m; got {text!r}{unit}")
    return total


def shown(seconds: float) -> str:
    """Returns such as ``45 s``, ``12.5 min``, ``3.62 h``."""
    if seconds < 120:  # noqa: PLR2004 (up to two of a unit, the smaller one reads better)
        return f"{seconds:.3g} s"
    if seconds < 2 * _UNITS["h"]:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"
