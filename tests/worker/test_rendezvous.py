"""When a generation starts and when it ends."""

from __future__ import annotations

import pytest

from cloudgan.worker.rendezvous import MemberState, Rendezvous


@pytest.fixture
def rendezvous():
    """Three workers that wait at second 0."""
    made = Rendezvous(3, fresh_seconds=5)
    for index in range(3):
        made.join(index, member(f"pod-{index}"))
    return made


def member(incarnation, phase="waiting", generation=0, seen=0.0):
    return MemberState(incarnation, phase, generation, seen)


def train(rendezvous, *indices, generation=1):
    return [rendezvous.join(i, member(f"pod-{i}", "training", generation)) for i in indices]


def test_a_generation_starts_when_all_workers_wait(rendezvous):
    assert not rendezvous.join(1, member("pod-1")).start
    assert rendezvous.begin(1.0) == 1
    assert rendezvous.join(1, member("pod-1")).start
    assert rendezvous.join(1, member("pod-1")).generation == 1


def test_no_generation_starts_without_a_recent_status_of_all(rendezvous):
    for index in (0, 2):
        rendezvous.join(index, member(f"pod-{index}", seen=6.0))
    assert rendezvous.missing_members(6.0) == (1,)
    assert rendezvous.begin(6.0) is None


@pytest.mark.parametrize("phase", ["staging", "training", "ended"])
def test_no_generation_starts_while_a_worker_is_in_another_phase(rendezvous, phase):
    rendezvous.join(2, member("pod-2", phase))
    assert rendezvous.begin(1.0) is None


def test_a_worker_that_never_joined_is_missing():
    rendezvous = Rendezvous(2, fresh_seconds=5)
    rendezvous.join(0, member("pod-0"))
    assert rendezvous.missing_members(1.0) == (1,)
    assert rendezvous.begin(1.0) is None


def test_a_worker_with_an_old_response_does_not_end_the_generation(rendezvous):
    rendezvous.begin(1.0)
    train(rendezvous, 0, 1)
    assert rendezvous.waiting_member() is None  # worker 2 still asks as before
    assert not train(rendezvous, 1)[0].restart
    assert rendezvous.join(2, member("pod-2")).start


def test_a_worker_that_waits_again_ends_the_generation(rendezvous):
    rendezvous.begin(1.0)
    train(rendezvous, 0, 1, 2)
    back = rendezvous.join(2, member("pod-2", "waiting", 1))
    assert not back.start
    assert rendezvous.waiting_member() == 2
    assert train(rendezvous, 1)[0].restart


def test_a_replacing_pod_ends_the_generation_and_waits(rendezvous):
    rendezvous.begin(1.0)
    train(rendezvous, 0, 1)
    new = rendezvous.join(2, member("pod-2b"))
    assert not new.start
    assert train(rendezvous, 1)[0].restart


def test_the_next_generation_has_the_next_number(rendezvous):
    rendezvous.begin(1.0)
    train(rendezvous, 0, 1, 2)
    for index in range(3):
        rendezvous.join(index, member(f"pod-{index}", "waiting", 1))
    assert rendezvous.begin(1.0) == 2
    assert rendezvous.join(1, member("pod-1", "waiting", 1)).start


def test_a_new_chief_restarts_all_and_continues_the_numbers():
    rendezvous = Rendezvous(2, fresh_seconds=5)
    assert rendezvous.join(1, member("pod-1", "training", 7)).restart
    rendezvous.join(0, member("pod-0b"))
    assert rendezvous.join(1, member("pod-1", "training", 7)).restart
    rendezvous.join(1, member("pod-1", "waiting", 7))
    assert rendezvous.begin(1.0) == 8
    assert rendezvous.join(1, member("pod-1", "waiting", 7)).start


def test_a_finished_worker_does_not_end_the_generation(rendezvous):
    rendezvous.begin(1.0)
    train(rendezvous, 0, 1, 2)
    rendezvous.join(0, member("pod-0", "ended", 1))
    rendezvous.exit_code = 0
    answer = train(rendezvous, 1)[0]
    assert (answer.restart, answer.exit_code) == (False, 0)
