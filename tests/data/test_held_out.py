"""Enough held-out showers, or an error before training starts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudgan.core.errors import ConfigError
from cloudgan.data.held_out import LEAST_TO_JUDGE, check_can_validate, held_out_every
from cloudgan.schema.config import parse_config


def config(fraction=0.1, **training):
    return parse_config(
        {"training": {"validate_every": 1} | training, "data": {"held_out_fraction": fraction}},
        "x",
    )


def test_two_hundred_suffice_and_one_less_does_not():
    check_can_validate(config(), 2000)
    check_can_validate(config(validate_every=0), 2)  # it validates nothing
    with pytest.raises(ConfigError, match="one shower, and training needs at least two"):
        check_can_validate(config(validate_every=0), 1)
    with pytest.raises(ConfigError, match=r"199 of 1999 are held out.*at least 2000 showers"):
        check_can_validate(config(), 1999)
    with pytest.raises(ConfigError, match=r"^--until needs.* or omit --until$"):
        check_can_validate(config(validate_every=0, until="metric<1"), 90)


@given(st.integers(2, 5000), st.floats(0.001, 0.999))
def test_what_the_sentence_offers_is_enough(showers, fraction):
    try:
        check_can_validate(config(fraction), showers)
    except ConfigError as error:
        words = str(error).split()
        check_can_validate(config(fraction), int(words[words.index("least", 5) + 1]))
        if share := re.search(r"--held-out=(\S+)", str(error)):
            check_can_validate(config(float(share[1])), showers)
        assert showers // held_out_every(fraction, showers) < LEAST_TO_JUDGE
