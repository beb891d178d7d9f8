from __future__ import annotations

import os
import signal

import pytest

from cloudgan.bench.turns import Turns
from cloudgan.core.errors import Interrupted
from cloudgan.core.progress import Silent


def noting(name, seen, stops_at=None, stop=None):
    def measure():
        if len(seen) == stops_at:
            stop()
        seen.append(name)
        return len(seen)

    return measure


def ctrl_c():
    raise KeyboardInterrupt


def told_to_end():
    os.kill(os.getpid(), signal.SIGTERM)


def test_variants_take_turns_and_each_round_has_one_of_each():
    seen = []
    turns = Turns({name: noting(name, seen) for name in "AB"})
    turns.take(3, Silent())
    assert "".join(seen) == "ABABAB"
    assert turns.taken == {"A": [1, 3, 5], "B": [2, 4, 6]}
    assert not turns.interrupted


@pytest.mark.parametrize("stop", [ctrl_c, told_to_end])
def test_what_was_measured_before_the_end_stays(stop):
    seen = []
    turns = Turns({name: noting(name, seen, 3, stop) for name in "AB"})
    turns.take(5, Silent())
    assert turns.interrupted
    assert turns.taken == {"A": [1, 3], "B": [2]}


def test_a_variant_that_had_no_turn_is_left_out():
    seen = []
    turns = Turns({name: noting(name, seen, 1, ctrl_c) for name in "AB"})
    turns.take(5, Silent())
    assert turns.taken == {"A": [1]}


def test_stopped_before_anything_was_measured_there_is_no_result():
    turns = Turns({"A": ctrl_c})
    with pytest.raises(Interrupted, match="before anything was measured"):
        turns.take(5, Silent())


def test_sigterm_means_afterwards_what_it_meant_before():
    before = signal.getsignal(signal.SIGTERM)
    Turns({"A": int}).take(1, Silent())
    assert signal.getsignal(signal.SIGTERM) == before
