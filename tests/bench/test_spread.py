from __future__ import annotations

import pytest

from cloudgan.bench.spread import paired, spread
from cloudgan.core.errors import CloudganError


def test_a_spread_has_the_median_the_extremes_and_the_quartiles():
    found = spread([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (found.min, found.lower_quartile, found.median) == (1, 2, 3)
    assert (found.upper_quartile, found.max, found.count) == (4, 5, 5)


def test_one_measurement_is_all_of_its_spread():
    assert set(spread([7.0]).as_json().values()) == {7.0, 1}


def test_a_ratio_compares_neighbours_and_not_medians():
    """Somebody else's work makes every measurement five times slower for a while."""
    slow, fast = [2.0, 10.0, 10.0, 2.0], [1.0, 5.0, 5.0, 1.0]
    assert paired(slow, fast).as_json()["min"] == paired(slow, fast).max == 2.0
    found = paired([2.0, 10.0, 3.0], [1.0, 4.0, 3.0])
    assert (found.min, found.median, found.max) == (1.0, 2.0, 2.5)


def test_what_was_measured_without_a_partner_is_in_no_ratio():
    assert paired([4.0, 6.0, 9.0], [2.0, 3.0]).as_json()["max"] == 2.0


def test_nothing_measured_is_an_error_and_no_number():
    with pytest.raises(CloudganError, match="no round was finished"):
        paired([1.0], [])


def test_a_spread_is_told_in_a_few_digits():
    assert spread([2.51234, 2.4321, 2.6049]).told() == "2.51 (2.43 to 2.6)"
