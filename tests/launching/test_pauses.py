from __future__ import annotations

from itertools import islice

from cloudgan.launching.pauses import pauses


def test_pauses_grow_from_a_moment_to_what_was_asked_and_no_further():
    found = list(islice(pauses(8.0), 7))
    assert found == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
