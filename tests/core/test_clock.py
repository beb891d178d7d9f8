from __future__ import annotations

import re
from datetime import datetime

from cloudgan.core import clock


def test_now_is_iso_8601_in_utc_and_can_be_read_back():
    now = clock.utc_now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", now)
    assert datetime.fromisoformat(now).utcoffset().total_seconds() == 0


def test_today_is_the_day_of_now():
    before, today, after = clock.utc_now(), clock.utc_today(), clock.utc_now()
    assert today.isoformat() in {before[:10], after[:10]}


def test_monotonic_seconds_never_run_backwards():
    assert clock.monotonic_seconds() <= clock.monotonic_seconds()
