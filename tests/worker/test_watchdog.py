from __future__ import annotations

from cloudgan.worker.limits import Limits
from cloudgan.worker.watchdog import Watchdog

LIMITS = Limits(first_step_seconds=900, stall_seconds=120, stall_medians=20)


def test_the_first_steps_may_take_long_for_they_hold_the_tracing():
    dog = Watchdog(LIMITS, 0.0)
    assert not dog.is_late(899)
    assert dog.is_late(901)
    dog.saw(1, 899)
    assert not dog.is_late(899 + 800)  # how long a step takes is not known yet


def test_before_the_first_step_a_line_is_a_sign_of_life_and_afterwards_none():
    dog = Watchdog(LIMITS, 0.0)
    dog.heard(1, 800.0)
    assert not dog.is_late(1600)
    dog.heard(1, 1600.0)
    assert dog.is_late(1701)
    dog.saw(0, 1701)
    dog.saw(1, 1702)
    dog.heard(2, 1800.0)
    assert dog.is_late(1823)


def test_quick_steps_are_late_after_the_least_time():
    dog = Watchdog(LIMITS, 0.0)
    for second in range(10):
        dog.saw(second, float(second))
    assert dog.limit_seconds == 120
    assert not dog.is_late(9 + 119)
    assert dog.is_late(9 + 121)


def test_slow_steps_are_late_after_many_usual_ones():
    dog = Watchdog(LIMITS, 0.0)
    for number in range(4):
        dog.saw(number, 60.0 * number)
    assert dog.limit_seconds == 20 * 60


def test_one_slow_step_does_not_make_the_watch_slow():
    dog = Watchdog(LIMITS, 0.0)
    for number in range(20):
        dog.saw(number, float(number))
    dog.saw(20, 100.0)
    assert dog.limit_seconds == 120


def test_a_pulse_that_repeats_a_step_is_no_sign_of_life():
    dog = Watchdog(LIMITS, 0.0)
    for second in range(3):
        dog.saw(second, float(second))
    dog.saw(2, 100.0)
    assert dog.is_late(123)
