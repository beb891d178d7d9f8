"""When spot nodes are given up."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import CapacityError
from cloudgan.core.run_state import RunState, WorkerState
from cloudgan.launching.spot_losses import LEAST_LOSSES, SpotLosses

HOUR = 3600.0


def state(*replaced, phase="running"):
    workers = tuple(WorkerState(i, "running", replaced=count) for i, count in enumerate(replaced))
    return RunState(phase, workers)


def see(losses, *seen):
    for replaced, hours in seen:
        losses.see(state(*replaced), 1e9 + hours * HOUR)


def test_losses_above_the_break_even_end_it_with_both_figures():
    with pytest.raises(CapacityError, match=r"lost 4 times in 2 h: on demand .* once in 4 h"):
        see(SpotLosses(0.25, 2), ((0, 0), 0), ((4, 4), 2))


def test_losses_below_it_do_not():
    see(SpotLosses(0.25, 2), ((0, 0), 0), ((4, 4), 10))


def test_a_group_that_restarts_after_one_loss_lost_one_node():
    see(SpotLosses(0.5, 4), ((0, 0, 0, 0), 0), ((1, 1, 1, 1), 0.1))


def test_few_losses_are_bad_luck():
    see(SpotLosses(1e-6, 1), ((0,), 0), ((LEAST_LOSSES - 1,), 0.01))


def test_a_run_that_is_over_or_has_no_workers_yet_loses_none():
    losses = SpotLosses(1e-6, 1)
    losses.see(RunState("waiting"), 0.0)
    losses.see(state(9, phase="failed"), HOUR)
