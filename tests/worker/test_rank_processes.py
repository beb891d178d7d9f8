"""Agents that start MPI ranks with MPICH's process manager, with small programs as ranks."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from worker.conftest import is_dead

pytest.importorskip("mpi4py")

PROGRAM = Path(__file__).with_name("rank_program.py")
LONG = 1_000_000


@pytest.fixture
def rank_team(team, monkeypatch):
    """Makes a team of two agents on different addresses that start three ranks.

    No test here is about a chief that is silent, as one is on a busy machine that runs nothing of it for a second.
    """
    made = team(2, barrier_seconds=60.0, chief_timeout_seconds=20.0)
    made.peers[1] = made.peers[1].replace("127.0.0.1", "127.0.0.2")
    document = json.loads(made.config.read_text())
    document["parallel"] = {"mode": "easgd", "ranks": 3}
    made.config.write_text(json.dumps(document))
    command = (sys.executable, str(PROGRAM), str(made.orders))
    monkeypatch.setattr(type(made), "command", command)
    return made


def descendants(pid):
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            yield child
            yield from descendants(child)


def begun(team, rank):
    paths = sorted(team.group.glob(f"seen-{rank}-*.json"))
    return [json.loads(path.read_text()) for path in paths]


def test_agents_start_the_ranks_of_a_world_each_with_its_own_folder_and_log(rank_team, monkeypatch):
    rank_team.order(steps=10)
    monkeypatch.setenv("LAB_MODE", "on")
    workers = [rank_team.start(index) for index in range(2)]
    assert [worker.wait(120) for worker in workers] == [0, 0], workers[0].output
    folders = [begun(rank_team, rank)[0] for rank in range(3)]
    assert [each["ranks"] for each in folders] == [3, 3, 3]
    assert ["work-0" in each["run"] for each in folders] == [True, True, False]
    assert all(each["agent"] for each in folders)
    assert [each["variable"] for each in folders] == ["on"] * 3, "the user's variables reach ranks"
    assert [each["host"] for each in folders] == ["127.0.0.1", "127.0.0.1", "127.0.0.2"]
    assert [each["writes_liveness"] for each in folders] == [True, False, True]
    assert "rank 2 begins at 0" in workers[1].output
    assert "rank 2 begins" not in workers[0].output


def test_a_killed_rank_and_a_lost_agent_start_all_ranks_again(rank_team, wait_until):
    rank_team.order(steps=LONG, deaf=True)
    chief, other = rank_team.start(0), rank_team.start_process(1)
    rank_team.checkpoint(10)
    os.kill(int((rank_team.group / "pid-1").read_text()), signal.SIGKILL)
    wait_until(lambda: len(begun(rank_team, 2)) == 2, "second start", 120)
    assert begun(rank_team, 2)[1]["begins"] >= 10
    assert "ended by SIGKILL (probably out of memory)" in chief.output
    rank_team.checkpoint(rank_team.newest() + 10)
    # The agent and its process group are lost; its ranks, which are in sessions of their own, end.
    rank = int((rank_team.group / "pid-2").read_text())
    os.killpg(other.pid, signal.SIGKILL)
    other.wait()
    wait_until(lambda: is_dead(rank), "end of the ranks of a lost agent", 60)
    rank_team.order(steps=rank_team.newest() + 50)
    replaced = rank_team.start(1)
    assert (chief.wait(120), replaced.wait(120)) == (0, 0), chief.output
    assert "generation 3" in chief.output


def test_ranks_save_although_a_signal_reaches_the_processes_of_hydra_too(rank_team, wait_until):
    rank_team.order(steps=LONG, slow_end=0.5)
    workers = [rank_team.start_process(index) for index in range(2)]
    rank_team.checkpoint(10)
    every = [pid for worker in workers for pid in (*descendants(worker.pid), worker.pid)]
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in every}
    assert {"sh", "hydra_pmi_proxy"} < names
    assert any(name.startswith("mpiexec") for name in names)
    for pid in every:  # as Slurm does
        os.kill(pid, signal.SIGTERM)
    said = [worker.communicate(timeout=600)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [75, 75], said
    assert len({(rank_team.group / f"stopped-{rank}").read_text() for rank in range(3)}) == 1
    assert not any("ended by" in text for text in said), said


@pytest.mark.slow
def test_the_last_validation_of_rank_0_may_last_longer_than_a_stall(rank_team):
    rank_team.timeout_values |= {"stall_seconds": 5.0, "stall_medians": 1.0}
    rank_team.order(steps=100, validation=15.0)
    workers = [rank_team.start_process(index) for index in range(2)]
    said = [worker.communicate(timeout=600)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    assert len(begun(rank_team, 0)) == 1, said


def test_a_rank_that_fails_for_a_lasting_reason_ends_its_worker_with_its_code(
    rank_team, wait_until
):
    rank_team.order(steps=LONG, exit={"2": 1})
    chief, other = rank_team.start(0), rank_team.start(1)
    assert other.wait(120) == 1
    assert "this is why" in other.output
    wait_until(
        lambda: "a rank of another worker ended" in chief.output, "end of the other ranks", 60
    )
