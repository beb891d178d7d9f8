"""What a run with ranks refuses before anything starts, and the part of each worker."""

import json

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.parallel.rank import rank_folder
from cloudgan.parallel.train_ranks import worker_config
from cloudgan.ranks.placement import has_ranks
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.simulation.gflash import simulate
from ranks.mpiexec import mpiexec_three


def config(parallel=None, **training):
    return RunConfig.model_validate(
        {
            "data": {"path": "showers"},
            "model": {"preset": "smoke"},
            "training": training,
            "parallel": parallel or {"mode": "easgd", "ranks": 4},
        }
    )


def test_a_rank_of_an_mpi_world_without_a_mode_is_refused(monkeypatch):
    assert not has_ranks(RunConfig())
    monkeypatch.setenv("PMI_RANK", "1")
    assert has_ranks(config())
    with pytest.raises(ConfigError, match=r"rank of an MPI world .* give --parallel=easgd"):
        has_ranks(RunConfig())


def test_workers_share_the_steps_of_a_run_exactly():
    run = config(max_steps=20, until="metric<1", track="tensorboard")
    parts = [worker_config(run, worker, 3) for worker in range(3)]
    assert [part.training.max_steps for part in parts] == [7, 7, 6]
    # The master validates and decides when all save; the same mathematics resumes their checkpoints.
    for part in parts:
        assert not part.training.validates_every
        assert part.training.track == "none"
        assert part.checkpoint.every_steps is None
        assert part.config_hash() == run.config_hash()


def test_fewer_steps_than_workers_are_refused():
    with pytest.raises(ConfigError, match="--max-steps=2 are fewer than the 3 workers"):
        worker_config(config(max_steps=2), 0, 3)


@pytest.mark.slow
@pytest.mark.tf
def test_ranks_that_mpiexec_started_need_no_number_of_ranks(tmp_path):
    pytest.importorskip("mpi4py")
    write_hdf5(tmp_path / "x.h5", simulate(40, seed=1, cells=(9, 9)))
    words = ("train", "x.h5", "--preset=smoke", "--parallel=gem", "--max-steps=2", "--json")
    done = mpiexec_three(*words, "--run=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said, folder = json.loads(done.stdout), RunFolder(tmp_path / "runs/run")
    assert said["ended"] == "max_steps"
    assert folder.config().parallel.ranks == 3
    ends = [record.read(rank_folder(folder, rank).record_file).lines[-1] for rank in (1, 2)]
    largest = max(end.peak_memory_bytes for end in ends)  # the master has no TensorFlow
    assert said["peak_memory_bytes"] == pytest.approx(largest, rel=0.2)
