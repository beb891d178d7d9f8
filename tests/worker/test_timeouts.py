import inspect

import pytest

from cloudgan.cli.commands.worker import worker
from cloudgan.schema.plan import Limits
from cloudgan.worker.trainer_process import Timeouts, Watchdog

LIMITS = Timeouts(first_step_seconds=900, stall_seconds=120, stall_medians=20)


def test_the_first_steps_have_a_longer_timeout():
    dog = Watchdog(LIMITS, 0.0)
    assert not dog.is_stalled(899)
    assert dog.is_stalled(901)
    dog.saw_step(1, 899)
    assert not dog.is_stalled(899 + 800)  # how long a step takes is not known yet


def test_output_counts_as_progress_only_before_the_first_step():
    dog = Watchdog(LIMITS, 0.0)
    dog.saw_output(1, 800.0)
    assert not dog.is_stalled(1600)
    dog.saw_output(1, 1600.0)
    assert dog.is_stalled(1701)
    dog.saw_step(0, 1701)
    dog.saw_step(1, 1702)
    dog.saw_output(2, 1800.0)
    assert dog.is_stalled(1823)


@pytest.mark.parametrize(
    ("seconds", "limit"),
    [
        pytest.param(range(10), 120, id="fast steps: the minimum"),
        pytest.param(range(0, 240, 60), 20 * 60, id="slow steps: a multiple of the median"),
        pytest.param([*range(20), 100], 120, id="one slow step does not raise it"),
    ],
)
def test_steps_stall_after_a_multiple_of_their_median_and_a_minimum(seconds, limit):
    dog = Watchdog(LIMITS, 0.0)
    for number, second in enumerate(seconds):
        dog.saw_step(number, float(second))
    assert dog.limit_seconds == limit
    assert not dog.is_stalled(seconds[-1] + limit - 1)
    assert dog.is_stalled(seconds[-1] + limit + 1)


def test_a_repeated_step_is_no_progress():
    dog = Watchdog(LIMITS, 0.0)
    for second in range(3):
        dog.saw_step(second, float(second))
    dog.saw_step(2, 100.0)
    assert dog.is_stalled(123)


def test_workers_wait_longer_than_a_pod_that_was_lost_often_needs_to_come_back():
    """600 s of the Job controller's longest back-off, and the gang timeout to start."""
    command = inspect.signature(worker).parameters["barrier_seconds"].default
    needed = 600 + Limits.model_fields["gang_timeout_seconds"].default
    assert command == Timeouts().barrier_seconds >= needed
