"""The clock. Pure functions take the time as an argument; only entry points read it here."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime


def utc_now() -> str:
    """Returns now as ISO 8601 in UTC to the second, such as ``2026-11-21T05:40:00Z``."""
    return datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_today() -> date:
    """Returns today's date in UTC."""
    return datetime.now(tz=UTC).date()


def monotonic_seconds() -> float:
    """Returns a monotonic time; only differences are meaningful."""
    return time.monotonic()


def utc_moment() -> datetime:
    """Returns the current time in UTC."""
    return datetime.now(tz=UTC)


def parse_time(text: str) -> datetime:
    """Parses an ISO 8601 time stamp; one without an offset is UTC.

    Raises:
        ValueError: It is not ISO 8601.
    """
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parse_time_or_none(text: str | None) -> datetime | None:
    """Parses an ISO 8601 time stamp; None: missing or invalid."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
