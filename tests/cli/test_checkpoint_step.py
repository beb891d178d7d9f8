"""Which checkpoint `--step` means."""

from __future__ import annotations

import pytest

from cloudgan.cli.checkpoint_step import parse_step
from cloudgan.core.errors import ConfigError


def test_a_number_is_a_step_best_is_the_best_and_nothing_the_newest():
    assert [parse_step(text) for text in ("0", "120", "best", None)] == [0, 120, "best", None]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "worst", "Best", "²"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="the number of a step, or best"):
        parse_step(text)
