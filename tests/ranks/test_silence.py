"""One rule of who is lost, with a clock that a test moves."""

import pytest

from cloudgan.ranks.mpi import Silence, SilenceClock


@pytest.fixture
def clock(monkeypatch):
    """A clock that is looked at every half second until a time."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    found = SilenceClock()

    def until(seconds):
        while found.look() < seconds:
            now[0] += min(0.5, seconds - found.look())

    found.until, found.now = until, now
    return found


@pytest.mark.parametrize(
    ("interval", "has_begun", "limit"),
    [
        pytest.param(0.0, False, 1800, id="it traces and compiles"),
        pytest.param(0.0, True, 60, id="the least"),
        pytest.param(1.0, True, 60, id="twenty short intervals"),
        pytest.param(10.0, True, 200, id="twenty of its longest interval"),
    ],
)
def test_one_is_lost_after_its_limit(clock, interval, has_begun, limit):
    silence = Silence(clock, 60.0, 1800.0)
    clock.until(15)
    silence.heard()  # no interval of its work
    for work in (interval, 0.5):  # a shorter one does not lower the limit
        clock.until(silence.heard_at + work)
        silence.heard(at_work=True)
    last = silence.heard_at
    clock.until(last + limit)
    assert not silence.is_lost(has_begun=has_begun)
    clock.until(last + limit + 1)
    assert silence.is_lost(has_begun=has_begun)
    assert str(silence.error("worker 1")).startswith(f"worker 1 has sent nothing for {limit + 1} s")


def test_one_who_was_suspended_does_not_take_its_own_pause_for_the_silence_of_others(clock):
    silence = Silence(clock, 30.0, 30.0)
    clock.now[0] += 3600
    assert silence.seconds == 1.0
    assert not silence.is_lost(has_begun=True)
