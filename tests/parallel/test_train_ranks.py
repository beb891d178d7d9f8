"""What a run with ranks refuses before anything starts, and the part of each worker."""

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.parallel.train_ranks import worker_config
from cloudgan.ranks.placement import has_ranks
from cloudgan.schema.config import RunConfig


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
