"""Messages between real ranks, started by the mpiexec of the wheel; and when one counts as lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cloudgan.ranks.mpi import Silence, SilenceClock
from ranks.mpiexec import mpiexec
from waiting import until

PROGRAM = Path(__file__).with_name("mpi_program.py")


def start(task: str, folder: Path, ranks: int = 4) -> subprocess.Popen[str]:
    return subprocess.Popen(
        mpiexec(ranks, PROGRAM, task, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def pids_when_started(folder: Path, ranks: int = 4) -> list[int]:
    files = [folder / f"pid-{rank}" for rank in range(ranks)]
    until(
        lambda: all(file.exists() and file.read_text() for file in files), "the start of the ranks"
    )
    return [int(file.read_text()) for file in files]


def wait_until_gone(pids: list[int], seconds: float) -> None:
    until(lambda: not any(map(is_running, pids)), "the end of the ranks", seconds)


def files_of_mpich(pid: int, proxy: int) -> tuple[set[str], set[str]]:
    """Returns the shared memory that a rank has mapped, and the topology that its proxy has open."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    mapped = ["/" + line.partition("/")[2] for line in lines if "/mpich_shm_" in line]
    opened = [str(link.readlink()) for link in Path(f"/proc/{proxy}/fd").iterdir()]
    opened = [name for name in opened if "hydra_hwloc" in name]
    return tuple({name.removesuffix(" (deleted)") for name in names} for names in (mapped, opened))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_four_ranks_send_split_gather_and_agree(tmp_path):
    process = start("talk", tmp_path)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    found = [json.loads((tmp_path / f"found-{rank}.json").read_text()) for rank in range(4)]
    for rank, one in enumerate(found):
        assert one["gathered"] == [[other, "x" * other] for other in range(4)]
        assert one["exchanged"] == {str(other): other * 1e6 for other in range(4) if other != rank}
        assert one["looked"] or rank == 2
        assert one["half"] == [rank // 2, 2, float(rank % 2)]  # the first of each half is 0 and 1
        assert one["lost"] == [True, False]  # a rank that cannot be reached, and another error
    assert found[0]["sums"] == [100_000.0, 200_000.0, 300_000.0]
    assert found[0]["json"] == [{"from": 1}, {"from": 2}, {"from": 3}]
    assert found[0]["waited"].startswith("any rank has sent nothing for 1 s")
    assert found[0]["share"] < 0.2  # a blocked receive of MPI uses a whole core


def test_a_rank_that_leaves_ends_the_world_without_waiting_for_the_others(tmp_path):
    process = start("fail", tmp_path)
    began = time.monotonic()
    process.communicate(timeout=600)
    assert process.returncode != 0
    assert time.monotonic() - began < 60  # the others sleep for 60 s
    wait_until_gone(pids_when_started(tmp_path), 5)


@pytest.mark.parametrize("victim", ["mpiexec", "its proxy"])
def test_ranks_end_with_their_parent(tmp_path, victim):
    process = start("sleep", tmp_path)
    pids = pids_when_started(tmp_path)
    proxy = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
    memory, topology = files_of_mpich(pids[0], proxy)
    os.kill(process.pid if victim == "mpiexec" else proxy, signal.SIGKILL)
    wait_until_gone(pids, 5)
    process.kill()
    process.communicate()
    assert memory, "the ranks share no memory"
    assert topology, "the proxy has written no topology"
    assert not [name for name in memory | topology if Path(name).exists()]


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
