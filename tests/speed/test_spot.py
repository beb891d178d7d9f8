"""Expected cost of preemptions."""

import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.speed.spot import (
    Preemption,
    break_even,
    checkpoint_interval,
    describe_risk,
    expected_seconds,
)

SLOW_MACHINES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
OFTEN = Preemption(per_node_hour=0.5, restart_seconds=300, checkpoint_seconds=20)
rates = st.floats(1e-6, 50)
preemptions = st.builds(Preemption, rates, st.floats(0, 3000), st.floats(0, 300))


def simulated(work, preemption, interval, source):
    """Plays one job: segments of work and a checkpoint, lost whole when a node is taken."""
    mean, clock, left = preemption.mean_seconds(1), 0.0, work
    while left > 1e-9:
        segment = min(interval, left)
        needed = segment + preemption.checkpoint_seconds
        taken = source.expovariate(1 / mean)
        while taken < needed:  # restart until one goes through, itself not spared
            clock += taken
            restart = preemption.restart_seconds
            while (again := source.expovariate(1 / mean)) < restart:
                clock += again
            clock += restart
            taken = source.expovariate(1 / mean)
        clock += needed
        left -= segment
    return clock


def test_the_expected_time_is_what_a_simulation_takes():
    source = random.Random(3)
    interval = checkpoint_interval(OFTEN, 1)
    work = 20 * interval
    took = [simulated(work, OFTEN, interval, source) for _ in range(1500)]
    assert sum(took) / len(took) == pytest.approx(expected_seconds(work, OFTEN, 1), rel=0.02)


@pytest.mark.parametrize("factor", [0.3, 0.7, 1.4, 3.0])
def test_no_other_checkpoint_interval_is_better(factor, monkeypatch):
    best = expected_seconds(1e6, OFTEN, 1)
    mean, other = OFTEN.mean_seconds(1), factor * checkpoint_interval(OFTEN, 1)
    wasteful = (
        mean
        * math.exp(OFTEN.restart_seconds / mean)
        * math.expm1((other + OFTEN.checkpoint_seconds) / mean)
        * 1e6
        / other
    )
    assert best < wasteful


RARE = Preemption(0.001, 300, 20)
NEVER = OFTEN._replace(per_node_hour=0)


@pytest.mark.parametrize(
    ("preemption", "nodes", "seconds"),
    [
        (RARE, 1, pytest.approx(math.sqrt(2 * 20 * RARE.mean_seconds(1)), rel=0.01)),
        (Preemption(60, 10, 200), 1, 60),
        (OFTEN, 8, checkpoint_interval(OFTEN._replace(per_node_hour=4), 1)),
        (NEVER, 4, math.inf),
    ],
    ids=["Young's, to first order", "lost before two checkpoints", "of any node", "without losses"],
)
def test_the_interval_between_checkpoints_follows_from_the_losses(preemption, nodes, seconds):
    assert checkpoint_interval(preemption, nodes) == seconds
    assert expected_seconds(5000, NEVER, nodes) == 5000
    assert checkpoint_interval(OFTEN, 8) < checkpoint_interval(OFTEN, 1)


def test_a_job_that_never_ends_has_infinite_time():
    hopeless = Preemption(3600, 10_000, 10)
    assert expected_seconds(1e5, hopeless, 64) == math.inf
    assert "never end" in describe_risk(1e5, hopeless, 64)


@given(st.floats(1, 1e6), preemptions, st.integers(1, 32))
@SLOW_MACHINES
def test_losses_never_make_a_job_shorter(work, preemption, nodes):
    assert expected_seconds(work, preemption, nodes) >= work * (1 - 1e-9)


@given(st.floats(100, 1e6), st.floats(0.05, 0.95), preemptions, st.integers(1, 32))
@SLOW_MACHINES
def test_at_the_break_even_both_markets_cost_the_same(work, ratio, preemption, nodes):
    rate = break_even(work, ratio, preemption, nodes)
    if rate > 0:
        took = expected_seconds(work, preemption._replace(per_node_hour=rate), nodes)
        assert took * ratio == pytest.approx(work, rel=0.02) or rate > 1000


def test_cheaper_spot_allows_more_preemptions_and_a_more_expensive_one_none():
    rates = [break_even(36_000, ratio, OFTEN, 1) for ratio in (0.2, 0.7, 1.0, 1.2)]
    assert rates[0] > rates[1] > rates[2] == rates[3] == 0


def test_the_preemption_risk_is_described():
    said = describe_risk(7200, Preemption(1 / 24, 600, 10), 4)
    assert "one of 4 nodes is preempted about 0.3" in said
    assert "chance of no preemption is 72%" in said
    assert "rate of 0" in describe_risk(7200, NEVER, 4)
