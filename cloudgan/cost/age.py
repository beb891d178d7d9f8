"""How old a price is, in words: shown wherever a price is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cloudgan.core.dated_fact import STALE_DAYS, UNKNOWN_DATE

if TYPE_CHECKING:
    import datetime as dt

_AS_OF = "as of: "


class Dated(Protocol):
    """A row that says when it held."""

    @property
    def date(self) -> str:
        """YYYY-MM-DD, or unknown."""

    @property
    def note(self) -> str:
        """Says what is known of the age of a row without a date, after ``as of:``."""

    def age_days(self, today: dt.date) -> int | None:
        """Days since the date of the row; None where that is unknown."""


def age_text(row: Dated, today: dt.date) -> str:
    """Returns such as ``2026-11-01, 20 days old``, or what is known where there is no date."""
    days = row.age_days(today)
    if days is None:
        known = row.note.partition(_AS_OF)[2].partition(";")[0]
        return f"age unknown ({known})" if known else "age unknown"
    if days < 0:
        return f"{row.date}, dated in the future"
    return f"{row.date}, {days} day{'' if days == 1 else 's'} old"


def is_stale(row: Dated, today: dt.date) -> bool:
    """Whether nobody should rent by this price unasked: undated, misdated or older than 90 days."""
    days = row.age_days(today)
    return row.date == UNKNOWN_DATE or days is None or not 0 <= days <= STALE_DAYS
