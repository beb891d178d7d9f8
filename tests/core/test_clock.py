from __future__ import annotations

import re
from datetime import datetime

from cloudgan.core import clock


def test_now_is_iso_8601_in_utc_and_can_be_read_back():
    now = clock.utc_now()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", now)
    assert datetime.fromisoformat(now).utcoffset().total_seconds() == 0
