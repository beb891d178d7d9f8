"""The `simulation` section: which showers each worker simulates."""

import pytest

from cloudgan.schema.config import RunConfig
from cloudgan.schema.simulation import SimulationConfig


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("showers", [1, 4, 22, 24])
def test_each_shower_is_simulated_by_one_worker(workers, showers):
    simulation = SimulationConfig(showers=showers, showers_per_shard=4)
    parts = [simulation.shards_of(worker, workers) for worker in range(workers)]
    numbers = [n for part in parts for shard in part for n in simulation.events(shard)]
    assert sorted(numbers) == list(range(showers))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_last_shard_that_is_not_full_counts_its_showers():
    simulation = SimulationConfig(showers=22, showers_per_shard=4)
    assert (simulation.shards, simulation.events(5)) == (6, range(20, 22))
    assert [simulation.finished(shards) for shards in (0, 3, 6)] == [0, 12, 22]


def test_a_run_that_trains_has_neither_task_nor_section_and_keeps_its_hash():
    assert not {"task", "simulation"} & set(RunConfig().model_dump())
    other = RunConfig(simulation=SimulationConfig(showers=7))
    assert other.config_hash() == RunConfig().config_hash()


def test_a_simulation_is_identified_by_its_showers_and_seed_alone():
    run = RunConfig(task="simulate")
    assert RunConfig.model_validate(run.model_dump(mode="json")) == run
    networks = RunConfig(task="simulate", model={"preset": "mini"}, training={"threads": 3})
    assert networks.config_hash() == run.config_hash()
    for changed in ({"training": {"seed": 1}}, {"simulation": {"particle": "photon"}}):
        other = RunConfig.model_validate({"task": "simulate"} | changed)
        assert other.config_hash() != run.config_hash()
