"""Rounds in turns and their statistics."""

from __future__ import annotations

import os
import signal

import pytest

from cloudgan.bench.measurement import Rounds, paired, spread
from cloudgan.core.errors import CloudganError, Interrupted
from cloudgan.core.progress import Silent


def test_a_spread_has_the_median_the_extremes_and_the_quartiles():
    found = spread([5.0, 1.0, 2.0, 3.0, 4.0])
    assert (found.min, found.lower_quartile, found.median) == (1, 2, 3)
    assert (found.upper_quartile, found.max, found.count) == (4, 5, 5)


def test_one_measurement_is_all_of_its_spread():
    assert set(spread([7.0]).as_json().values()) == {7.0, 1}


def test_a_ratio_compares_neighbours_and_not_medians():
    """The work of another program makes every measurement five times slower for a while."""
    slow, fast = [2.0, 10.0, 10.0, 2.0], [1.0, 5.0, 5.0, 1.0]
    assert paired(slow, fast).as_json()["min"] == paired(slow, fast).max == 2.0
    found = paired([2.0, 10.0, 3.0], [1.0, 4.0, 3.0])
    assert (found.min, found.median, found.max) == (1.0, 2.0, 2.5)


def test_what_was_measured_without_a_partner_is_in_no_ratio():
    assert paired([4.0, 6.0, 9.0], [2.0, 3.0]).as_json()["max"] == 2.0


def test_nothing_measured_is_an_error_and_no_number():
    with pytest.raises(CloudganError, match="no round was finished"):
        paired([1.0], [])


def test_a_spread_is_printed_in_a_few_digits():
    assert spread([2.51234, 2.4321, 2.6049]).describe() == "2.51 (2.43 to 2.6)"


def noting(name, seen, stops_at=None, stop=None):
    def measure():
        if len(seen) == stops_at:
            stop()
        seen.append(name)
        return len(seen)

    return measure


def ctrl_c():
    raise KeyboardInterrupt


def sigterm():
    os.kill(os.getpid(), signal.SIGTERM)


def test_variants_take_turns_and_each_round_has_one_of_each():
    seen = []
    rounds_run = Rounds({name: noting(name, seen) for name in "AB"})
    rounds_run.run(3, Silent())
    assert "".join(seen) == "ABABAB"
    assert rounds_run.results == {"A": [1, 3, 5], "B": [2, 4, 6]}
    assert not rounds_run.interrupted


@pytest.mark.parametrize("stop", [ctrl_c, sigterm])
def test_what_was_measured_before_the_end_stays(stop):
    seen = []
    rounds_run = Rounds({name: noting(name, seen, 3, stop) for name in "AB"})
    rounds_run.run(5, Silent())
    assert rounds_run.interrupted
    assert rounds_run.results == {"A": [1, 3], "B": [2]}


def test_a_variant_that_had_no_turn_is_left_out():
    seen = []
    rounds_run = Rounds({name: noting(name, seen, 1, ctrl_c) for name in "AB"})
    rounds_run.run(5, Silent())
    assert rounds_run.results == {"A": [1]}


def test_stopped_before_anything_was_measured_there_is_no_result():
    rounds_run = Rounds({"A": ctrl_c})
    with pytest.raises(Interrupted, match="before anything was measured"):
        rounds_run.run(5, Silent())


def test_the_handler_of_sigterm_is_restored_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    Rounds({"A": int}).run(1, Silent())
    assert signal.getsignal(signal.SIGTERM) == before
