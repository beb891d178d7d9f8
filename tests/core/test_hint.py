"""A hint in words."""

from __future__ import annotations

from cloudgan.core.hint import Hint


def test_a_hint_says_what_is_known_of_its_saving_and_no_more() -> None:
    silent = Hint(title="it waits", figure="90 % of the time", flag="--cache")
    assert silent.describe() == "it waits: 90 % of the time. Try --cache"
    known = silent.model_copy(update={"saves_seconds_per_epoch": 0.0, "saves_usd": 1.25})
    assert known.describe() == (
        "it waits: 90 % of the time; saves 0 s per epoch and 1.25 USD. Try --cache"
    )
