"""The smoke step of a worker: before the data are staged, with all workers, and what its failure does."""

import contextlib
import socket
from pathlib import Path

import pytest

from cloudgan.worker.pod_environment import read_pod_environment
from cloudgan.worker.rendezvous import AgentStatus, Rendezvous

PLANNED = {"CLOUDGAN_ACCELERATORS": "1"}


def start(team, world=2):
    return [team.start(index, **PLANNED) for index in range(world)]


@pytest.mark.parametrize("world", [1, 2])
def test_the_smoke_step_comes_before_the_data_and_the_training_follows_it(team, world):
    some = team(world)
    workers = start(some, world)
    assert [worker.wait() for worker in workers] == [0] * world
    for index, worker in enumerate(workers):
        (smoke,) = some.smoke_steps(index)
        assert (smoke["task"]["index"] if smoke else None) == (index if world > 1 else None)
        assert worker.output.index("devices found") < worker.output.index("generation 2: training")
    assert some.began(0) == [0], "the smoke step is no training"
    seconds = (some.group / "smoke-seconds-0").read_text()
    assert float(seconds) > 0, "the first trainer of a pod records them"


def test_a_worker_with_missing_devices_ends_with_2_and_stages_nothing(team):
    one = team(2, orders={"smoke": {"1": {"devices": 2}}})
    (one.root / "showers").rmdir()  # staging would fail with another code
    chief, other = start(one)
    assert other.wait() == 2
    assert f"worker 1 on {socket.gethostname()}: worker 1 sees no device" in other.output
    assert "generation" not in chief.output + other.output
    chief.stop.request()
    assert chief.wait() == 75
    assert one.began(0) == []


def test_a_worker_that_stops_before_the_others_come_leaves_no_process_and_no_pipe(team, wait_until):
    before = children_and_pipes()
    one = team(2)
    chief = one.start(0, **PLANNED)
    wait_until(lambda: "devices found" in chief.output, "the start of the smoke step")
    assert children_and_pipes() - before
    chief.stop.request()
    assert chief.wait() == 75
    assert not children_and_pipes() - before


def children_and_pipes():
    """Returns the process IDs of the children of this one, ended or not, and the names of its open pipes."""
    found = set()
    for path in Path("/proc/self").glob("task/*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            found |= set(path.read_text().split())
    for path in Path("/proc/self").glob("fd/*"):
        with contextlib.suppress(OSError):  # that of the listing
            found |= {str(path.readlink())}
    return {one for one in found if one.isdigit() or one.startswith("pipe:")}


def test_a_wrong_result_ends_the_run_before_the_training(team):
    one = team(1, orders={"smoke": {"0": {"step": 1}}})
    (worker,) = start(one, 1)
    assert worker.wait() == 1
    assert one.heartbeat().message.startswith("worker 0 on ")
    assert one.heartbeat().message.endswith(": worker 0 computes wrong results")
    assert one.began(0) == []


def test_a_device_that_does_not_respond_is_named_and_the_process_is_killed(team):
    one = team(1, orders={"smoke": {"0": {"hang": 60}}}, smoke_seconds=0.3)
    (worker,) = start(one, 1)
    assert worker.wait() == 1
    assert ": the smoke step did not end within 0 s" in one.heartbeat().message


def test_smoke_steps_that_are_cut_short_again_and_again_end_the_run(team):
    one = team(1, orders={"smoke": {"0": {"step": 75}}}, max_restarts=1)
    (worker,) = start(one, 1)
    assert worker.wait() == 76
    assert len(one.smoke_steps(0)) == 2


def test_a_replaced_worker_has_a_smoke_step_with_all_others():
    rendezvous = Rendezvous(2)

    def joined(index, phase, generation=0, now=1.0, pod=None):
        name = pod or f"pod-{index}"
        status = AgentStatus(incarnation=name, phase=phase, generation=generation)
        return rendezvous.join(index, status, now)

    for index in range(2):
        joined(index, "gathering", now=0.0)
    assert (rendezvous.begin(1.0), rendezvous.smoke) == (1, True)
    joined(0, "staging", 1)
    assert not joined(1, "checking", 1).restart, "the other was faster"
    for index in range(2):
        joined(index, "waiting", 1)
    assert (rendezvous.begin(2.0), rendezvous.smoke) == (2, False)
    joined(0, "training", 2, 2.0)
    joined(1, "gathering", now=2.0, pod="other-pod")
    assert joined(0, "training", 2, 2.0).restart
    joined(0, "waiting", 2, 2.0)
    assert (rendezvous.begin(3.0), rendezvous.smoke) == (3, True)
    assert joined(0, "waiting", 2, 3.0).smoke


@pytest.mark.parametrize(
    ("accelerators", "peers", "expected"),
    [
        ("0", "127.0.0.1:1,127.0.0.1:3", False),
        ("1", "127.0.0.1:1,127.0.0.1:3", True),
        ("0", "gan-{index}.gan:2222", True),
    ],
)
def test_only_accelerators_and_several_machines_need_one(team, accelerators, peers, expected):
    changes = {"CLOUDGAN_ACCELERATORS": accelerators, "CLOUDGAN_PEERS": peers}
    pod = read_pod_environment(team(2).environment(0, **changes).get)
    assert pod.smoke_step is expected
