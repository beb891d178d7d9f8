"""When all begin together, and when a generation is over."""

from __future__ import annotations

import pytest

from cloudgan.worker.roster import Member, Roster


@pytest.fixture
def roster():
    """Three workers that wait at second 0."""
    made = Roster(3, fresh_seconds=5)
    for index in range(3):
        made.join(index, member(f"pod-{index}"))
    return made


def member(incarnation, phase="waiting", generation=0, seen=0.0):
    return Member(incarnation, phase, generation, seen)


def train(roster, *indices, generation=1):
    return [roster.join(i, member(f"pod-{i}", "training", generation)) for i in indices]


def test_a_generation_begins_when_all_wait(roster):
    assert not roster.join(1, member("pod-1")).go
    assert roster.begin(1.0) == 1
    assert roster.join(1, member("pod-1")).go
    assert roster.join(1, member("pod-1")).generation == 1


def test_nothing_begins_while_one_was_not_heard_of_lately(roster):
    for index in (0, 2):
        roster.join(index, member(f"pod-{index}", seen=6.0))
    assert roster.absent(6.0) == (1,)
    assert roster.begin(6.0) is None


@pytest.mark.parametrize("phase", ["staging", "training", "ended"])
def test_nothing_begins_while_one_does_something_else(roster, phase):
    roster.join(2, member("pod-2", phase))
    assert roster.begin(1.0) is None


def test_a_worker_that_never_came_is_missing():
    roster = Roster(2, fresh_seconds=5)
    roster.join(0, member("pod-0"))
    assert roster.absent(1.0) == (1,)
    assert roster.begin(1.0) is None


def test_who_has_not_heard_the_word_yet_does_not_end_the_generation(roster):
    roster.begin(1.0)
    train(roster, 0, 1)
    assert roster.who_waits() is None  # worker 2 still asks as before
    assert not train(roster, 1)[0].regroup
    assert roster.join(2, member("pod-2")).go


def test_a_worker_that_comes_back_ends_the_generation_for_all(roster):
    roster.begin(1.0)
    train(roster, 0, 1, 2)
    back = roster.join(2, member("pod-2", "waiting", 1))
    assert not back.go
    assert roster.who_waits() == 2
    assert train(roster, 1)[0].regroup


def test_a_pod_in_anothers_place_ends_the_generation_and_is_not_told_to_go(roster):
    roster.begin(1.0)
    train(roster, 0, 1)
    new = roster.join(2, member("pod-2b"))
    assert not new.go
    assert train(roster, 1)[0].regroup


def test_the_next_generation_counts_on(roster):
    roster.begin(1.0)
    train(roster, 0, 1, 2)
    for index in range(3):
        roster.join(index, member(f"pod-{index}", "waiting", 1))
    assert roster.begin(1.0) == 2
    assert roster.join(1, member("pod-1", "waiting", 1)).go


def test_a_new_chief_tells_those_that_train_to_come_back_and_counts_on_from_them():
    roster = Roster(2, fresh_seconds=5)
    assert roster.join(1, member("pod-1", "training", 7)).regroup
    roster.join(0, member("pod-0b"))
    assert roster.join(1, member("pod-1", "training", 7)).regroup
    roster.join(1, member("pod-1", "waiting", 7))
    assert roster.begin(1.0) == 8
    assert roster.join(1, member("pod-1", "waiting", 7)).go


def test_who_is_done_ends_nothing_and_the_chiefs_end_is_told(roster):
    roster.begin(1.0)
    train(roster, 0, 1, 2)
    roster.join(0, member("pod-0", "ended", 1))
    roster.ended = 0
    answer = train(roster, 1)[0]
    assert (answer.regroup, answer.ended) == (False, 0)
