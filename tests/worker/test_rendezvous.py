"""When a generation starts and when it ends, and what the chief reports of a grid of cells."""

from types import SimpleNamespace

import pytest

from cloudgan.schema.config import RunConfig
from cloudgan.schema.heartbeat import Liveness
from cloudgan.worker.rendezvous import AgentState, AgentStatus, Rendezvous, read_heartbeat


@pytest.fixture
def rendezvous():
    """Three workers that wait at second 0."""
    made = Rendezvous(3, fresh_seconds=5)
    for index in range(3):
        joined(made, index, f"pod-{index}")
    return made


def joined(rendezvous, index, incarnation, phase="waiting", generation=0, *, seen=0.0):
    """Returns the response to a status that comes at the second `seen`."""
    member = AgentStatus(incarnation=incarnation, phase=phase, generation=generation)
    return rendezvous.join(index, member, seen)


def train(rendezvous, *indices, generation=1):
    return [joined(rendezvous, i, f"pod-{i}", "training", generation) for i in indices]


def test_no_generation_starts_without_a_recent_status_of_all(rendezvous):
    for index in (0, 2):
        joined(rendezvous, index, f"pod-{index}", seen=6.0)
    assert rendezvous.missing_members(6.0) == (1,)
    assert rendezvous.begin(6.0) is None


@pytest.mark.parametrize("phase", ["staging", "training", "ended"])
def test_no_generation_starts_while_a_worker_is_in_another_phase(rendezvous, phase):
    joined(rendezvous, 2, "pod-2", phase)
    assert rendezvous.begin(1.0) is None


def test_a_worker_with_an_old_response_does_not_end_the_generation(rendezvous):
    rendezvous.begin(1.0)
    train(rendezvous, 0, 1)
    assert rendezvous.waiting_member() is None  # worker 2 still asks as before
    assert not train(rendezvous, 1)[0].restart
    assert joined(rendezvous, 2, "pod-2").start


def test_a_new_chief_restarts_all_and_continues_the_numbers():
    rendezvous = Rendezvous(2, fresh_seconds=5)
    assert joined(rendezvous, 1, "pod-1", "training", 7).restart
    joined(rendezvous, 0, "pod-0b")
    assert joined(rendezvous, 1, "pod-1", "training", 7).restart
    joined(rendezvous, 1, "pod-1", "waiting", 7)
    assert rendezvous.begin(1.0) == 8
    assert joined(rendezvous, 1, "pod-1", "waiting", 7).start


def test_a_finished_worker_does_not_end_the_generation(rendezvous):
    rendezvous.begin(1.0)
    train(rendezvous, 0, 1, 2)
    joined(rendezvous, 0, "pod-0", "ended", 1)
    rendezvous.exit_code = 0
    answer = train(rendezvous, 1)[0]
    assert (answer.restart, answer.exit_code) == (False, 0)


def test_the_heartbeat_of_a_grid_counts_iterations():
    config = RunConfig.model_validate({"grid": {"iterations": 40}})
    pod = SimpleNamespace(config=config, config_hash="0" * 16)
    state = AgentState(0, 2, AgentStatus(incarnation="first"))
    found = read_heartbeat(pod, state, {})
    assert (found.epoch, found.epochs, found.step) == (None, 40, None)
    state.liveness = Liveness(7, 7, 0.5)
    assert read_heartbeat(pod, state, {}).epoch == 7
    state.change(phase="ended")
    state.exit_code = 0
    assert read_heartbeat(pod, state, {}).epoch == 40
