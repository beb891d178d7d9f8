"""A run is followed to its end, and ended where it would wait in vain."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import CapacityError, LaunchError
from cloudgan.core.run_state import RunState, WorkerState
from cloudgan.launching import following
from cloudgan.launching.following import Follower
from launching.place_double import PlaceDouble

ENDED = "2026-11-21T12:30:00Z"
FINISHED = RunState("finished", ended=ENDED)


def running(*replaced, why=""):
    workers = [WorkerState(n, "running", "node", r, why) for n, r in enumerate(replaced)]
    return RunState("running", tuple(workers))


@pytest.fixture
def clock(monkeypatch):
    """A clock that only waiting moves."""
    now = [1000.0]
    monkeypatch.setattr(following, "monotonic_seconds", lambda: now[0])
    return now


@pytest.fixture
def follow(clock, plan_of):
    """Follows a run through states; returns the last one, what was told, and the place."""

    def run(*states, plan=None, **options):
        place, said, seen = PlaceDouble(states), [], []

        def wait(seconds):
            assert seconds > 0, "a busy loop"
            clock[0] += seconds

        place.passes = wait
        run.place, run.said, run.seen = place, said, seen
        plan = plan or plan_of(workers={"nodes": 2})
        return Follower(place, plan, said.append, seen.append, **options).follow()

    return run


def test_a_run_is_followed_to_its_end_and_each_change_told_once(follow):
    one_up = RunState("starting", (WorkerState(0, "running"), WorkerState(1, "starting")))
    states = [RunState("waiting"), RunState("waiting"), one_up, running(0, 0), running(0, 0)]
    assert follow(*states, FINISHED) == FINISHED
    assert follow.said == [
        "waiting: 0 of 2 workers up",
        "starting: 1 of 2 workers up",
        "running: 2 of 2 workers up",
        "finished: 0 of 2 workers up",
    ]
    assert follow.seen == [*states, FINISHED], "each state is given to whoever notes it"
    assert follow.place.calls == [], "nothing was ended"


def test_each_replacement_is_told_once_whatever_its_reason_becomes(follow):
    follow(
        running(0, 0),
        running(0, 1, why="taken away"),
        running(0, 1, why=""),
        running(0, 1, why="taken away"),
        running(0, 2, why="taken away"),
        FINISHED,
    )
    told = [line for line in follow.said if "replaced" in line]
    assert told == ["worker 1 was replaced (taken away)"] * 2


def test_a_reason_is_told_when_it_changes(follow):
    why = "worker 0: 0/2 nodes are available"
    pending = RunState("waiting", (WorkerState(0, "waiting", why=why),), why, "placement")
    follow(pending, pending, FINISHED)
    assert follow.said.count(why) == 1


@pytest.mark.parametrize(
    ("cause", "hint"), [("image", "correct --image"), ("configuration", "a secret that --secrets")]
)
def test_what_cannot_start_is_ended_after_half_a_minute(follow, clock, cause, hint):
    stuck = RunState("waiting", why="worker 0: it cannot be", cause=cause)
    with pytest.raises(LaunchError, match=rf"^worker 0: it cannot be; {hint}.*cloudgan down gan"):
        follow(stuck)
    assert clock[0] == 1030
    assert follow.place.calls == [("stop", "gan")]


def test_a_registry_that_hiccups_is_forgiven(follow, clock):
    stuck = RunState("waiting", why="worker 0: image", cause="image")
    assert follow(*[stuck] * 5, running(0, 0), *[stuck] * 5, FINISHED) == FINISHED
    assert clock[0] > 1030
    assert follow.place.calls == []


def test_an_image_may_be_given_no_time_at_all(follow, clock):
    with pytest.raises(LaunchError, match="image"):
        follow(RunState("waiting", why="image", cause="image"), image_seconds=0)
    assert clock[0] == 1000


def test_too_little_memory_is_ended_at_once_with_what_to_type(follow, clock):
    state = RunState("starting", why="worker 1: it needed more memory (OOMKilled)", cause="memory")
    with pytest.raises(LaunchError, match=r"limit is 8 GiB\. Give --memory_gib=16, or a smaller"):
        follow(state)
    assert (clock[0], follow.place.calls) == (1000, [("stop", "gan")])


def test_workers_that_do_not_all_come_up_are_all_ended(follow, clock, plan_of):
    half = RunState("starting", (WorkerState(0, "running"),), "worker 1: no node", "placement")
    plan = plan_of(workers={"nodes": 2}, gang_timeout_seconds=601)
    with pytest.raises(CapacityError, match=r"only 1 of 2 workers came up within 601 s \(worker 1"):
        follow(half, plan=plan)
    assert clock[0] == 1601, "the limit is not overslept"
    assert follow.place.calls == [("stop", "gan")]


def test_a_run_that_was_whole_once_is_not_ended_when_a_worker_is_replaced(follow, plan_of):
    half = RunState("starting", (WorkerState(0, "running"),))
    plan = plan_of(workers={"nodes": 2}, gang_timeout_seconds=60)
    assert follow(running(0, 0), *[half] * 100, FINISHED, plan=plan) == FINISHED


def test_time_in_a_queue_is_nobody_s_fault(follow, clock, plan_of):
    plan = plan_of(workers={"nodes": 2}, gang_timeout_seconds=60, place={"queue": "physics"})
    queued, admitted = RunState("waiting"), RunState("starting", (WorkerState(0, "starting"),))
    assert follow(*[queued] * 100, admitted, running(0, 0), FINISHED, plan=plan) == FINISHED
    with pytest.raises(CapacityError):
        follow(*[queued] * 100, admitted, plan=plan)
    with pytest.raises(CapacityError):
        follow(queued, plan=plan_of(gang_timeout_seconds=60))


def test_a_failed_run_is_looked_at_until_it_has_ended(follow):
    settling = RunState("failed", why="worker 1: exit code 1", cause="program")
    done = RunState("failed", why="worker 1: exit code 1", cause="program", ended=ENDED)
    assert follow(running(0, 0), settling, settling, done) == done
    assert follow.seen[-1] == done


def test_a_failed_run_that_never_says_when_it_ended_is_not_waited_for_for_ever(follow, clock):
    settling = RunState("failed", why="worker 1: exit code 1", cause="program")
    assert follow(settling) == settling
    assert 1000 + 60 < clock[0] < 1000 + 120
    assert follow.place.calls == []
