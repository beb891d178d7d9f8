"""Cost of grids and simulations, by the files in the folder of a run."""

import json

import pytest

from cli.test_status import write_grid
from cloudgan.api.grid_cost import grid_cost
from cloudgan.api.simulation_cost import is_simulation, simulation_cost
from cloudgan.core.errors import DataError
from cloudgan.money.price_file import read_price_file
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.simulation import SHARD_INFO, SimulationConfig
from cloudgan.storage.store import open_store

TIMES = {
    "program_started_at": "2026-11-22T10:00:00Z",
    "program_ended_at": "2026-11-22T10:30:00Z",
    "end_reason": "finished",
}


PRICED = {"provider": "lab", "region": "room", "market": "on_demand"}


@pytest.fixture
def own_prices(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("{date: 2026-11-20, nodes: [{offer: lab/cpu/room, usd_per_hour: 3}]}")
    return path


@pytest.fixture
def run(tmp_path):
    def make(**attempt):
        folder = RunFolder(tmp_path / "run")
        simulation = SimulationConfig(showers=5000)
        folder.write_config(RunConfig(name="run", task="simulate", simulation=simulation))
        given = {"provider": "kubernetes", "node_type": "cpu", "node_count": 4} | attempt
        attempts = (launch.Attempt.model_validate(given),)
        launch.write(
            folder.launch_file, launch.Launch(run="run", config_hash="0", attempts=attempts)
        )
        return folder

    return make


def test_all_nodes_are_paid_for_their_whole_time(run, own_prices):
    rows = tuple(row.model_dump() for row in read_price_file(own_prices).rows)
    found = simulation_cost(run(**TIMES | PRICED, price_rows=rows))
    assert (found.showers, found.node_seconds) == (5000, 7200)
    assert found.usd == pytest.approx(6)
    assert found.usd_per_1000_showers == pytest.approx(1.2)
    assert found.view().notes == ("5,000 showers in 2 h of nodes", "1.20 USD per 1,000 showers")


def test_an_offer_prices_nodes_without_a_price(run, own_prices):
    folder = run(**TIMES)
    assert simulation_cost(folder).usd is None
    assert "--price-as=OFFER" in simulation_cost(folder).view().line
    priced = simulation_cost(folder, offer="lab/cpu/room/on_demand", price_file=own_prices)
    assert priced.usd_per_1000_showers == pytest.approx(1.2)


def test_the_workers_of_a_local_run_share_one_machine(run):
    assert simulation_cost(run(provider="local", **TIMES)).node_seconds == 1800


def test_a_run_that_ended_after_a_part_is_priced_by_the_showers_it_made(
    run, own_prices, plan_of, tmp_path
):
    """5,000 showers were asked for, and three shards of 500 made: 4 USD per 1,000, not 1.20."""
    stopped = TIMES | {"end_reason": "stopped: the deadline"}
    folder = run(**stopped)
    config = folder.read_config()
    simulation = config.simulation.model_copy(update={"showers_per_shard": 500})
    folder.write_config(config.model_copy(update={"simulation": simulation}))
    priced = {"offer": "lab/cpu/room/on_demand", "price_file": own_prices}
    unknown = simulation_cost(folder, **priced)
    assert (unknown.showers, unknown.usd_per_1000_showers) == (None, None)
    plan = plan_of(name="run", store=(tmp_path / "store").as_uri())
    plans.write(folder.path / plans.FILE_NAME, plan)
    for number in range(3):
        open_store(plan.store).put(f"runs/run/{SHARD_INFO}/{number:05d}.json", b"{}")
    found = simulation_cost(folder, **priced)
    assert (found.showers, found.usd) == (1500, pytest.approx(6))
    assert found.usd_per_1000_showers == pytest.approx(4)


def test_a_run_that_has_not_ended_has_no_cost(run):
    folder = run(program_started_at=TIMES["program_started_at"])
    assert is_simulation(folder)
    with pytest.raises(DataError, match="no attempt that ended"):
        simulation_cost(folder)


# The state of a grid of ranks, and the cost of its cells, from the files in its folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A grid of 1x3 cells: one has finished, one trains, one has not begun."""
    monkeypatch.chdir(tmp_path)
    return RunFolder(write_grid().path.resolve())


def test_a_grid_is_priced_by_cell_and_routine(folder):
    with pytest.raises(DataError, match="no cell has recorded an iteration"):
        grid_cost(folder)
    line = {
        "iteration": 1,
        "generator_fitness": 1,
        "discriminator_fitness": 1,
        "rates": [0.1],
        "losses": ["bce"],
        "selected": ["a"],
        "entered": 0,
        "best": ["a", ""],
        "members": {"0": 1},
        "score": 1,
    }
    for name, wait in (("0-0", 0.0), ("0-1", 2.0), ("0-2", 0.5)):
        cell_folder = folder.path / "cells" / name
        cell_folder.mkdir(parents=True)
        seconds = {"gather": 1.0, "train": 9.0 - wait, "update_genomes": 0, "mutate": 0}
        text = json.dumps(line | {"seconds": seconds | {"wait": wait}})
        (cell_folder / "record.jsonl").write_text(text + "\n")
    found = grid_cost(folder, offer="gcp/n1-standard-8+1xV100/us-central1/spot")
    assert found.node_seconds == pytest.approx(10)  # five ranks on one machine
    assert found.as_json()["usd"] == pytest.approx(found.usd)
    view = found.view()
    assert view.line.startswith(
        "grid: at least 0.0033 USD, as gcp/n1-standard-8+1xV100/us-central1"
    )
    assert view.notes == (
        "idle: cell 0-1 waited for the others for 20% of its time",
        "idle: ranks without a cell, 2 s of nodes",
    )
    assert len(view.table.rows) <= 10
    assert grid_cost(folder).usd is None
    attempt = {
        "provider": "kubernetes",
        "node_type": "cpu",
        "node_count": 2,
        "program_started_at": "2026-11-23T10:00:00Z",
        "program_ended_at": "2026-11-23T10:01:00Z",
    }
    attempts = (launch.Attempt.model_validate(attempt),)
    launch.write(folder.launch_file, launch.Launch(run="grid", config_hash="0", attempts=attempts))
    launched = grid_cost(folder, offer="gcp/n1-standard-8+1xV100/us-central1/spot")
    assert launched.as_json()["launched_node_seconds"] == 120
    assert launched.launched.usd == pytest.approx(12 * found.usd)
    assert "lost iterations: 2 min of nodes" in launched.view().notes[0]
