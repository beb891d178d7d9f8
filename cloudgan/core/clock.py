"""The time. Whoever needs it for a result takes it as an argument; only borders ask here."""

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
    """Returns seconds that never run backwards; only differences mean something."""
    return time.monotonic()


def utc_moment() -> datetime:
    """Returns now, in UTC, to subtract moments that others wrote."""
    return datetime.now(tz=UTC)
