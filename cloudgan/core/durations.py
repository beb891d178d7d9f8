"""Durations as text: parses 2h, 90m, 1h30m, 1.5h, 45s, 2d, and formats seconds for people."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from cloudgan.core.clock import parse_time_or_none
from cloudgan.core.errors import ConfigError, shorten
from cloudgan.core.ranges import MAX_SECONDS

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
_UNITS = {"d": float(DAY_SECONDS), "h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0}
_TERM = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*", re.IGNORECASE)


def parse_duration(text: str, flag: str) -> float:
    """Returns the seconds of a duration such as ``2h`` or ``1h30m``: the units in descending order.

    Raises:
        ConfigError: The text is not a positive duration, or has no unit.
    """
    stripped, position, total = text.strip(), 0, 0.0
    units: list[float] = []
    while position < len(stripped):
        term = _TERM.match(stripped, position)
        if term is None:
            break
        units.append(_UNITS[term[2].casefold()])
        total += float(term[1]) * units[-1]
        position = term.end()
    in_order = units == sorted(set(units), reverse=True)
    if position == len(stripped) and total > MAX_SECONDS:
        raise ConfigError(
            f"{flag}={text[:80]}: expected at most {MAX_SECONDS / HOUR_SECONDS:,.0f}h"
        )
    if position < len(stripped) or not in_order or not total > 0:
        unit = f"; did you mean {stripped}h?" if stripped.replace(".", "", 1).isdigit() else ""
        raise ConfigError(f"{flag} takes a time such as 2h, 90m or 1h30m; got {text!r}{unit}")
    return total


def parse_since(text: str, flag: str, now: datetime) -> datetime:
    """Parses a moment: a duration before now, such as ``10m``, or an ISO 8601 time; without an offset in UTC."""
    if (moment := parse_time_or_none(text.strip())) is not None:
        return moment
    try:
        return now - timedelta(seconds=parse_duration(text, flag))
    except ConfigError as error:
        raise ConfigError(
            f"{flag}={shorten(text)}: expected a duration such as 10m or 2h, or a time such as"
            " 2026-11-25T17:00:00Z"
        ) from error


def short_duration(seconds: float) -> str:
    """Formats an age as in a table: ``45s``, ``12m``, ``5h``, ``3d``; rounded down."""
    for unit, size in (("d", DAY_SECONDS), ("h", HOUR_SECONDS), ("m", 60.0)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def format_duration(seconds: float) -> str:
    """Formats seconds with one unit: ``45 s``, ``12.5 min``, ``3.62 h``."""
    if seconds < 120:  # noqa: PLR2004 (up to two of a unit, the smaller one reads better)
        return f"{seconds:.3g} s"
    if seconds < 2 * _UNITS["h"]:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / HOUR_SECONDS:.3g} h"


def duration_text(seconds: float) -> str:
    """Formats a time as people say it: ``45 s``, ``31 min``, ``3 h 20 min``, ``2 d 3 h``."""
    if seconds < 120:  # noqa: PLR2004 (up to two of a unit, the smaller one reads better)
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004
    minutes = round(seconds / 60)
    if minutes < 100:  # noqa: PLR2004
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 10:  # noqa: PLR2004 (of more hours the minutes say nothing)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / HOUR_SECONDS), 24)
    if days < 2:  # noqa: PLR2004
        return f"{24 * days + hours} h"
    return f"{days} d {hours} h" if hours else f"{days} d"


def duration_range(low: float, high: float, between: str = " to ") -> str:
    """Formats an interval of times, such as ``3 to 31 min``."""
    first, last = duration_text(low), duration_text(high)
    if first == last:
        return last
    number, _, unit = first.partition(" ")
    has_one_unit = " " not in unit and unit == last.partition(" ")[2]
    return f"{number if has_one_unit else first}{between}{last}"
