"""Cost of simulations, grids, searches and deployments that joined one, by the files in the folder of a run."""

import importlib
import json

import pytest

from cli.test_status import write_grid
from cloudgan.api.job_cost import (
    IDLE,
    REST,
    grid_cost,
    job_pricing,
    node_time,
    simulation_cost,
    trials_cost,
)
from cloudgan.core.errors import DataError
from cloudgan.money.catalog import load_catalog
from cloudgan.money.price_file import named_row, read_price_file
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import BlockStatus, Spell, TrialRun
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
    assert found.view().notes[:2] == ("5,000 showers in 2 h of nodes", "1.20 USD per 1,000 showers")


def test_what_a_launch_does_not_tell_makes_the_cost_a_lower_bound(run):
    """The nodes are known, and neither their disks, nor the cluster, nor what was stored and downloaded."""
    offer = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")
    given = {name: getattr(offer, name) for name in ("provider", "region", "node_type", "market")}
    node = {"name": "a", "started_at": "2026-11-22T10:00:00Z"}
    nodes = (node | {"terminated_at": "2026-11-22T11:00:00Z"},)
    rows = (offer.model_dump(),)
    found = simulation_cost(run(**TIMES | given, price_rows=rows, nodes=nodes, node_count=1))
    assert found.usd == pytest.approx(offer.usd_per_hour)
    assert {"cluster", "storage", "egress"} < set(found.usd_unknown)
    assert found.view().line.startswith(f"run: at least {offer.usd_per_hour:.2f} USD, as gcp/")
    assert "cluster" in found.view().notes[-1]


def test_an_offer_prices_nodes_without_a_price(run, own_prices):
    folder = run(**TIMES)
    assert simulation_cost(folder).usd is None
    assert "--price-as=OFFER" in simulation_cost(folder).view().line
    priced = simulation_cost(folder, named_row("lab/cpu/room/on_demand", own_prices))
    assert priced.usd_per_1000_showers == pytest.approx(1.2)


def test_the_workers_of_a_local_run_share_one_machine(run):
    found = simulation_cost(run(provider="local", **TIMES))
    assert found.node_seconds == 1800


def test_a_run_that_ended_after_a_part_is_priced_by_the_showers_it_made(
    run, own_prices, plan_of, tmp_path
):
    """5,000 showers were asked for, and three shards of 500 made: 4 USD per 1,000, not 1.20."""
    stopped = TIMES | {"end_reason": "stopped: the deadline"}
    folder = run(**stopped)
    config = folder.read_config()
    simulation = config.simulation.model_copy(update={"showers_per_shard": 500})
    folder.write_config(config.model_copy(update={"simulation": simulation}))
    row = named_row("lab/cpu/room/on_demand", own_prices)
    unknown = simulation_cost(folder, row)
    assert (unknown.showers, unknown.usd_per_1000_showers) == (None, None)
    plan = plan_of(name="run", store=(tmp_path / "store").as_uri())
    plans.write(folder.path / plans.FILE_NAME, plan)
    for number in range(3):
        open_store(plan.store).put(f"runs/run/{SHARD_INFO}/{number:05d}.json", b"{}")
    found = simulation_cost(folder, row)
    assert (found.showers, found.usd) == (1500, pytest.approx(6))
    assert found.usd_per_1000_showers == pytest.approx(4)


def test_a_run_that_has_not_ended_has_no_cost(run):
    folder = run(program_started_at=TIMES["program_started_at"])
    assert job_pricing(folder) is simulation_cost
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
    found = grid_cost(folder, load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot"))
    assert found.node_seconds == pytest.approx(10)  # five ranks on one machine
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
    launched = grid_cost(folder, load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot"))
    assert launched.as_json()["launched_node_seconds"] == 120
    assert launched.as_json()["launched_usd"] == pytest.approx(12 * found.usd)
    assert "lost iterations: 2 min of nodes" in launched.view().notes[0]


# A search, and a deployment that joined one, by the statuses of its blocks


def status(seconds, *spells, **more):
    given = {"deployment": "d", "worker": 0, "incarnation": "a", "beat": 9, "seconds": seconds}
    found = tuple(Spell(trial=trial, seconds=spent) for trial, spent in spells)
    return BlockStatus.model_validate(given | {"spells": found} | more)


def cost_of(time, states, usd=None, best=None):
    return trials_cost("d", "s", time, (states, best), usd=usd, price_row="lab/cpu")


def test_time_goes_to_trials_by_their_state_to_idle_blocks_and_to_the_start_of_nodes():
    blocks = [status(100.0, (0, 40.0), (1, 30.0)), status(60.0, (2, 10.0))]
    states = {0: "complete", 1: "pruned", 2: "failed"}
    assert cost_of(node_time(blocks, 200.0), states).node_seconds == {
        "finished trials": 40.0,
        "pruned trials": 30.0,
        "failed trials": 10.0,
        "unfinished trials": 0.0,
        IDLE: 80.0,
        REST: 40.0,
    }


def test_a_block_that_was_killed_has_spent_its_time_until_its_last_beat():
    time = node_time([status(50.0, trial=4, trial_since=20.0)], 60.0)
    parts = cost_of(time, {4: "complete"}).node_seconds
    assert (parts["finished trials"], parts[IDLE], parts[REST]) == (30.0, 20.0, 10.0)
    assert cost_of(time, {}).node_seconds["unfinished trials"] == 30.0


def test_parts_add_up_to_the_bill_also_where_clocks_give_more():
    time = node_time([status(100.0, (0, 75.0))], 80.0)
    found = cost_of(time, {0: "complete"}, usd=4.0)
    assert sum(found.node_seconds.values()) == pytest.approx(80.0)
    assert sum(found.parts_usd.values()) == pytest.approx(4.0)
    assert found.parts_usd["finished trials"] == pytest.approx(3.0)
    assert cost_of(time, {0: "complete"}).parts_usd["finished trials"] is None


def test_the_price_of_a_finished_trial_of_the_best_one_and_what_pruning_saved_are_printed():
    time = {0: 50.0, 1: 30.0, 2: 10.0, IDLE: 10.0}
    states = {0: "complete", 1: "complete", 2: "pruned"}
    found = cost_of(time, states, usd=1.0, best=1)
    assert found.finished_trial_usd == pytest.approx(0.5), "of the whole 1 USD"
    assert found.best_trial_usd == pytest.approx(0.3)
    assert found.saved_by_pruning_usd == pytest.approx(0.3), "the mean of 40 s, less 10 s"
    assert found.view().line == "d: 1.00 USD, as lab/cpu"
    assert found.view().notes[:2] == (
        "0.50 USD per finished trial, the whole cost over 2",
        "best trial, 1: 0.30 USD",
    )
    unknown = cost_of(time, states, best=1)
    assert unknown.finished_trial_usd is unknown.best_trial_usd is None
    assert "unknown" in unknown.view().line
    assert cost_of(time, {0: "complete"}, usd=1.0).saved_by_pruning_usd is None


@pytest.fixture
def searches():
    pytest.importorskip("optuna")
    return importlib.import_module("searches")


def test_a_search_on_this_machine_is_priced_by_its_time_with_idle_blocks(
    searches, tmp_path, cloudgan_here
):
    """Each block has half of the machine: 300 + 100 s of two folds are 200 s of the machine."""
    folder, study, _ = searches.write_search(tmp_path / "s", 0.3, trials=2, folds=2, blocks=2)
    for fold, seconds in enumerate((300.0, 100.0)):
        searches.write_time(folder.run(TrialRun(0, fold)), seconds)
    study.note_machine_seconds(360.0)
    offer = "gcp/g2-standard-4/us-central1/spot"
    said = cloudgan_here("cost", folder.path, f"--price-as={offer}", "--json").json()
    assert said["node_seconds"]["finished trials"] == pytest.approx(200.0)
    assert said["node_seconds"][IDLE] == pytest.approx(160.0)
    assert said["finished_trial_usd"] == pytest.approx(said["usd"])
    assert offer in said["price_row"]
    shown = cloudgan_here("cost", folder.path).stdout
    assert "unknown: its nodes have no price" in shown


def test_the_time_of_a_search_that_was_killed_is_that_of_its_trials(
    searches, tmp_path, cloudgan_here
):
    """It noted only the 40 s of an earlier process; the next one goes on from all that was spent."""
    folder, study, config = searches.write_search(tmp_path / "s", 0.3, trials=2)
    searches.write_time(folder.run(TrialRun(0)), 300.0)
    study.note_machine_seconds(40.0)
    said = cloudgan_here("cost", folder.path, "--json").json()
    assert said["node_seconds"]["finished trials"] == pytest.approx(300.0)
    assert said["node_seconds"][IDLE] == 0
    importlib.import_module("cloudgan.search.trial_loop").Here(folder, config, study).note_time()
    assert study.machine_seconds == pytest.approx(300.0, abs=5.0)


def test_a_search_that_deployments_trained_names_what_has_the_price(
    searches, tmp_path, cloudgan_here
):
    searches.write_search(tmp_path / "s", store=str(tmp_path / "store"))
    done = cloudgan_here("cost", tmp_path / "s", exits=2)
    assert "-- join s" in done.stderr
