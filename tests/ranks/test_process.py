"""Ranks on this machine that fail: which failures start them again."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloudgan.core.errors import CloudganError, Interrupted, NoProgress, TryAgain
from cloudgan.core.progress import Silent
from cloudgan.ranks import mpi, process
from cloudgan.ranks.process import LocalRanks, failure_file
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder


def test_a_rank_that_fails_for_a_lasting_reason_ends_the_run_with_its_message(tmp_path: Path):
    pytest.importorskip("mpi4py")
    folder = RunFolder(tmp_path / "run")
    folder.create()
    config = RunConfig.model_validate(
        {
            "data": {"path": str(tmp_path)},
            "model": {"preset": "smoke"},
            "parallel": {"mode": "easgd", "ranks": 2},
        }
    )
    folder.write_config(config)
    (folder.logs / "rank-001.log").mkdir(parents=True)  # rank 1 cannot write its log
    command = ("train", f"--run={folder.path}")
    ranks = LocalRanks(command, 2, folder, Silent(), newest=lambda: 0, quiet=True)
    with pytest.raises(CloudganError, match=r"IsADirectoryError: .*rank-001\.log") as caught:
        ranks.run()
    assert not isinstance(caught.value, NoProgress)
    assert caught.value.exit_code == 1
    assert failure_file(folder).exists()
    assert (folder.logs / "ranks.log").read_text().count("IsADirectoryError:") == 2  # one world


def test_a_rank_whose_message_is_lost_says_so_in_one_line_and_shows_no_stack_of_mpi(
    tmp_path, monkeypatch, capsys
):
    class Lost(Exception):
        """As mpi4py's, whose text is a stack."""

    def play(world):
        raise Lost("Other MPI error, error stack:\nMPI_Test(109): failed\nprocess_vm_readv failed")

    monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace(Exception=Lost))
    monkeypatch.setenv("CLOUDGAN_SUPERVISED", "1")
    monkeypatch.setattr(process, "_follow_supervisor", lambda world, folder: None)
    monkeypatch.setattr(mpi, "world", lambda: SimpleNamespace(rank=2))
    monkeypatch.setattr(mpi, "end_with_parent", lambda code: None)
    monkeypatch.setattr(mpi, "leave", sys.exit)
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(SystemExit, match=str(TryAgain.exit_code)):
        process.run_as_rank(folder, play, unit="step")
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("cloudgan: rank 2: another rank has ended")
    assert said.endswith(": process_vm_readv failed")
    assert not failure_file(folder).exists(), "the supervisor says that a rank was killed"


def test_ranks_of_a_trial_stop_when_the_search_that_started_them_is_killed(tmp_path, monkeypatch):
    """Else they would train on, without the limits of the search, and the same command would wait for them."""
    program, (lifeline, search) = tmp_path / "mpiexec", os.pipe()
    program.write_text("#!/bin/sh\nsleep 100\n")
    program.chmod(0o700)
    monkeypatch.setattr(process, "find_program", lambda: program)
    stdin = os.fdopen(lifeline)
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setenv("CLOUDGAN_SUPERVISED", "1")
    folder = RunFolder(tmp_path / "run")
    ranks = LocalRanks(("train",), 2, folder, Silent(), newest=lambda: 0, isolated=False)
    threading.Timer(0.3, os.close, [search]).start()
    with stdin, pytest.raises(TryAgain):
        ranks.run()


WAITS = "while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("ranks_do", "saves"),
    [
        pytest.param(WAITS, False, id="before they have joined they are not waited for"),
        pytest.param(
            f"trap 'touch saved; exit 0' INT; echo [$$] > new; mv new ranks/processes.json; {WAITS}",
            True,
            id="once they have joined they save",
        ),
    ],
)
def test_ctrl_c_stops_ranks_at_once_unless_they_have_something_to_save(
    tmp_path, monkeypatch, ranks_do: str, saves: bool
):
    """Else Ctrl-C in the first seconds took a minute, in which the ranks trained on."""
    folder = RunFolder(tmp_path / "run")
    (folder.path / "ranks").mkdir(parents=True)
    program = tmp_path / "mpiexec"
    program.write_text(f"#!/bin/sh\ncd {folder.path}; touch began; {ranks_do}\n")
    program.chmod(0o700)
    monkeypatch.setattr(process, "find_program", lambda: program)

    def interrupt() -> None:
        while not (folder.path / ("ranks/processes.json" if saves else "began")).exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    began = time.monotonic()
    ranks = LocalRanks(("train",), 2, folder, Silent(), newest=lambda: 0, isolated=False)
    with pytest.raises(Interrupted, match="rerun the command to resume"):
        ranks.run()
    assert (folder.path / "saved").exists() == saves
    assert time.monotonic() - began < 20  # the grace of ranks that save is a minute
