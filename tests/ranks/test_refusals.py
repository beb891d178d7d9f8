"""What all ranks of a world refuse is said once, whoever started them."""

import json

import pytest

from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.simulation.gflash import simulate
from ranks.mpiexec import mpiexec_three

RANKED = ("train", "x.h5", "--preset=smoke", "--parallel=easgd", "--run=run")
REFUSED = {
    "a flag": (("train", "--epochz=3"), "unknown flag"),
    "a file that is missing": (("train", "y.h5", *RANKED[2:]), "y.h5 does not exist"),
    "what depends on the size of the world": ((*RANKED, "--ranks=7"), "rank 0: --ranks=7, but the"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_of_all_ranks_is_said_once(tmp_path, words, said):
    pytest.importorskip("mpi4py")
    write_hdf5(tmp_path / "x.h5", simulate(40, seed=1, cells=(9, 9)))
    done = mpiexec_three(*words, "--json", cwd=tmp_path)
    assert done.returncode, "Hydra's own: that of the rank which refuses, or of one that it ended"
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("cloudgan:")]
    assert said in line
    # Hydra prints there too that it ended the others.
    (told,) = [json.loads(row) for row in done.stdout.splitlines() if row.startswith("{")]
    assert told["exit_code"] == 2
    assert told["error"] in line


@pytest.mark.parametrize(
    "local", ["MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"]
)
def test_the_first_rank_of_each_machine_says_what_it_refuses(monkeypatch, cloudgan_here, local):
    """Another machine may lack the file: its first rank is no first one of the world."""
    monkeypatch.setenv("PMI_RANK", "5")
    monkeypatch.setenv(local, "0")
    assert "unknown flag" in cloudgan_here("train", "--epochz=3", exits=2).stderr
    monkeypatch.setenv(local, "1")
    waited = []
    monkeypatch.setattr("cloudgan.cli.program.time.sleep", waited.append)
    assert cloudgan_here("train", "--epochz=3", exits=2).stderr == ""
    assert waited == [10.0], "Hydra ends all ranks when one has ended"
    monkeypatch.delenv("PMI_RANK")  # such as a task of Slurm without MPI
    assert "unknown flag" in cloudgan_here("train", "--epochz=3", exits=2).stderr
