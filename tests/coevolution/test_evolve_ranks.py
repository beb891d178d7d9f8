"""`cloudgan evolve --engine=ranks` by its real processes; the engine itself is tested in coevolution."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import Grid
from forking_server import ForkedProgram
from ranks.mpiexec import mpiexec
from waiting import until

GRID = ("evolve", "--task=ring", "--grid=1x2", "--iterations=8", "--batches=10", "--threads=1")
GRID += ("--neighbourhood-schedule=3:all", "--losses=bce,least_squares,heuristic", "--save-every=2")


@pytest.mark.slow
@pytest.mark.tf
def test_a_grid_whose_rank_is_killed_starts_again_and_has_the_bits_of_one_process(
    tmp_path, run_cloudgan
):
    one, ranks = tmp_path / "one", tmp_path / "ranks"
    run_cloudgan(*GRID, f"--run={one}")
    folder = GridFolder(ranks, Grid(1, 2))
    words = [*GRID, f"--run={ranks}", "--engine=ranks"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    with contextlib.closing(ForkedProgram(words, environment, merged=True)) as process:
        until(lambda: folder.newest_common() or process.poll() is not None, seconds=240)
        assert process.poll() is None, process.communicate()
        before = json.loads((ranks / "ranks" / "processes.json").read_text())
        os.kill(before[2], signal.SIGKILL)
        said, _ = process.communicate(240)
    assert process.returncode == 0, said
    assert "a rank was killed, perhaps for lack of memory" in said
    assert "all ranks start again after iteration" in said
    assert not set(before) & set(json.loads((ranks / "ranks" / "processes.json").read_text()))
    for number in range(2):
        state = folder.cell(number).path / "state-000000008.npz"
        assert state.read_bytes() == (one / state.relative_to(ranks)).read_bytes()
        lines = folder.cell(number).lines()
        assert [line.iteration for line in lines] == list(range(1, 9))
        assert all("wait" in line.seconds for line in lines)
    assert folder.read_quality().iteration == 8


@pytest.mark.slow
def test_all_cells_in_one_process_are_refused_in_an_mpi_world(cloudgan_here, monkeypatch, tmp_path):
    monkeypatch.setenv("PMI_RANK", "0")
    said = cloudgan_here(*GRID, f"--run={tmp_path / 'run'}", exits=2)
    assert "--engine=one trains all cells in one process" in said.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.tf
def test_an_mpi_that_two_threads_must_not_call_is_refused_before_a_folder_holds_the_run(tmp_path):
    """mpi4py asks MPI for the level in this variable (documentation of mpi4py 4.1, `mpi4py.rc`)."""
    pytest.importorskip("mpi4py")
    words = (*GRID, "--engine=ranks", f"--run={tmp_path / 'run'}")
    ended = subprocess.run(
        mpiexec(3, "-m", "cloudgan", *words),
        env=os.environ | {"MPI4PY_RC_THREAD_LEVEL": "serialized"},
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )
    assert "from two threads, and this MPI gives MPI_THREAD_SERIALIZED; use an MPI" in ended.stderr
    assert "or give --engine=one" in ended.stderr
    assert ended.returncode
    assert not (tmp_path / "run").exists()
