"""A fact knows its age, or that nobody knows it."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from cloudgan.core.dated_fact import Date, DatedFact

TODAY = dt.date(2026, 11, 21)


class Fact(DatedFact):
    date: Date


def test_a_fact_knows_its_age_in_days() -> None:
    assert Fact(date="2026-11-01").age_days(TODAY) == 20
    assert Fact(date="unknown").age_days(TODAY) is None


@pytest.mark.parametrize("date", ["", "2026-13-01", "20261101", "01.11.2026", "Unknown"])
def test_a_date_is_iso_or_unknown(date: str) -> None:
    with pytest.raises(ValidationError):
        Fact(date=date)
