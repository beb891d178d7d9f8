"""Jobs behind `plan` and `deploy --`: grids, simulations, ranks and blocks of a search, before anything starts."""

import pytest

from command_options import job

PODS = ("--provider=kubernetes", "--store=s3://lab/x", "--image=lab/gan:1")
RING = ("--grid=2x2", "--task=ring")
TWO = (*PODS, "--nodes=2")
JOIN = ("--provider=kubernetes", "--store=s3://lab/gan", "--nodes=2")


@pytest.mark.parametrize("job_and_flags", [("simulate", *TWO), ("join lr", *JOIN)])
def test_workers_that_exchange_nothing_need_neither_a_secret_nor_a_test_of_the_ports(
    planned, job_and_flags
):
    kinds = [step["ensure"].split()[0] for step in planned(*job(*job_and_flags))["steps"]]
    assert "Job" in kinds
    assert not {"Secret", "NetworkPolicy is enforced"} & set(kinds)
    assert kinds.count("NetworkPolicy") == kinds.count("Service") == 1


# Grids of cells


def test_a_plan_has_a_master_beside_the_first_cells(cloudgan_here, plan_basis):
    words = job("evolve", *PODS, *RING, "--nodes=3", "--iterations=8")
    shown = cloudgan_here("plan", *words).stdout
    assert "evolve ring, 8 iterations of 2x2 cells, on 3 w" in shown
    shown = plan_basis(*words)
    assert "ranks      a master and 4 cells; by node: 2, 1, 2" in shown
    assert "data       none: the task of the grid has no showers" in shown
    assert "duration   no iteration of a grid was measured" in shown
    assert "by node: 1, 1, 1, 1, 1" in plan_basis(*job("evolve", *PODS, *RING, "--nodes=5"))
    in_cloud = ("--provider=aws", "--accelerator=a10g", "--grid=2x2", "--nodes=2")
    shown = plan_basis(*job("evolve", *in_cloud))
    assert "by node: 3, 2" in shown
    assert "its throughput is unknown: lowest hourly price" in shown


def test_a_plan_fixes_seed_threads_and_batch_of_the_cells(planned):
    flags = (*PODS, "--grid=2x3", "--data=s3://lab/data", "--nodes=2", "--cpus=8", "--batch=16")
    flags += ("--neighbourhood-schedule=5:all", "--losses=bce,heuristic")
    config = planned(*job("evolve", *flags))["config"]
    grid, training = config["grid"], config["training"]
    fixed = {"rows": 2, "columns": 3, "engine": "ranks", "task": "showers", "threads": 2}
    assert grid.items() >= (fixed | {"batch_size": 16, "schedule": [[5, "all"]]}).items()
    assert (training["batch_per_replica"], training["strategy"]) == (None, "auto")
    assert grid["seed"] == training["seed"] == 1, "as evolve"
    assert config["model"]["preset"] == "mini"
    config = planned(*job("evolve", *flags, "--seed=7", "--preset=smoke"))["config"]
    assert config["grid"]["seed"] == config["training"]["seed"] == 7
    assert config["model"]["preset"] == "smoke"


def test_run_yaml_may_have_the_grid_and_flags_change_it(planned, user_folder, refused):
    cells = user_folder / "cells.yaml"
    cells.write_text("grid: {rows: 1, columns: 2, task: ring, iterations: 9}")
    first, more, other = (
        planned(*job("evolve", *PODS, "--config=cells.yaml", "--nodes=2", *flag))
        for flag in ((), ("--iterations=12",), ("--population=2",))
    )
    assert first["config"]["grid"]["iterations"] == 9
    assert more["config"]["grid"]["iterations"] == 12
    assert first["run"] == more["run"] != other["run"]
    train = ("train", "--config=cells.yaml", "--data=x.h5")
    assert "`cloudgan evolve` trains a grid on this machine" in refused(*train)
    cells.write_text("grid: {row: 1}")
    assert "unknown key grid.row. Did you mean 'rows'?" in refused(*train)


# Simulations


def test_a_run_yaml_states_the_task(planned, user_folder, refused):
    (user_folder / "run.yaml").write_text("{task: simulate, simulation: {showers: 9}}")
    assert planned("--config=run.yaml")["config"]["simulation"]["showers"] == 9
    assert "simulate" in refused("train", "--config=run.yaml")


def test_the_forecast_is_the_time_of_the_busiest_worker_and_prices_1000_showers(
    planned, plan_basis, cloudgan_here, user_folder
):
    nodes = "nodes: [{offer: lab/cpu/room, vcpu: 16, usd_per_hour: 3.6}]"
    (user_folder / "own.yaml").write_text(f"{{date: 2026-11-20, {nodes}}}")
    flags = (*TWO, "--showers=1280", "--energy=40:60", "--cpus=8", "--price-file=own.yaml")
    ahead = planned(*job("simulate", *flags))["forecast"]
    # Three of five shards, 768 showers of 50 GeV on 8 cores, and 10 s to start.
    assert ahead["low_seconds"] == pytest.approx(10 + 768 * 50 * 0.008 / 8)
    assert ahead["high_seconds"] == pytest.approx(10 + 768 * 50 * 0.025 / 8)
    assert ahead["high_usd"] == pytest.approx(2 * ahead["high_seconds"] * 0.001)
    shown = cloudgan_here("plan", *job("simulate", *flags)).stdout
    assert "simulate 1,280 showers with Geant4, electrons" in shown
    assert "USD per 1,000 showers" in shown
    modelled = "modelled: 0.008 to 0.025 s per GeV and core"
    assert modelled in plan_basis(*job("simulate", *flags))
    unpriced = planned(*job("simulate", *TWO))["forecast"]
    assert unpriced["low_usd"] is None
    assert "--price-as=OFFER" in unpriced["why_unknown"]


def test_a_deadline_that_is_too_short_names_the_flag(refused):
    words = job("simulate", *TWO, "--showers=200000", "--max-hours=0.1")
    said = refused("plan", *words, exits=5)
    assert "200,000 showers take at least" in said
    assert "fewer --showers" in said


# Ranks


def test_describe_prints_the_layout_of_ranks_and_starts_nothing(cloudgan_here, user_folder):
    line = "train --data=x.h5 --preset=mini --parallel=easgd --ranks=5 --group=2 --sync-every=10"
    words = (*line.split(), "--describe")
    assert "5 ranks: 1 master, 2 workers of 2 ranks" in cloudgan_here(*words).stdout
    found = cloudgan_here(*words, "--json").json()
    assert found["parallel"]["sync_every"] == 10
    roles = [role["role"] for role in found["layout"]["roles"]]
    assert roles == ["master", "leader", "member", "leader", "member"]
    assert not list(user_folder.iterdir())


def test_a_plan_of_nodes_has_a_worker_rank_per_node_and_its_masters(planned, plan_basis, refused):
    data = ("--data=s3://lab/data", "--preset=smoke")
    flags = (*PODS, *data, "--nodes=4", "--parallel=downpour")
    assert "downpour, 7 ranks: rank 0 above 2 masters, 4 workers" in plan_basis(
        *flags, "--masters=2"
    )
    config = planned(*flags)["config"]
    assert (config["parallel"]["ranks"], config["training"]["strategy"]) == (5, "auto")
    for ranks, shown in (
        (9, "9 ranks: 1 master, 8 workers; by node: 3, 2, 2, 2"),
        (4, "4 ranks: 1 master, 3 workers; by node: 1, 1, 1, 1"),
    ):
        assert shown in plan_basis(*flags, f"--ranks={ranks}")
    said = refused("plan", *flags, "--ranks=3")
    assert "--nodes=4 are more than the 3 ranks of --parallel; use --nodes=3 or fewer" in said
    here = ("--provider=local", "--parallel=easgd", "--ranks=3", "--yes")
    said = refused("deploy", *data, *here)
    assert "--provider=local with one node starts no ranks" in said


# Searches


def test_blocks_have_no_forecast_and_the_budget_and_the_deadline_of_their_deployment(
    cloudgan_here, planned
):
    found = planned(*job("join lr", *JOIN))
    assert found["forecast"]["why_unknown"] == "the blocks train trials until the search ends"
    assert found["run"].startswith("lr-blocks-")
    shown = cloudgan_here("plan", *JOIN, "--", "join", "lr").stdout
    assert "train trials of the search lr, on 2 workers" in shown
    price = "--price-as=gcp/n1-standard-8+1xT4/us-central1/spot"
    limits = ("--accelerator=t4:1", price, "--budget-usd=1", "--max-hours=100")
    found = planned(*job("join lr", *JOIN, *limits))
    assert found["limits"]["deadline_reason"].startswith("--budget-usd=1")


@pytest.mark.parametrize(
    "words", ["join search", "search space.yaml x.h5", "crossvalidate x.h5 --run=runs/search"]
)
def test_blocks_have_the_engine_of_their_trials_and_its_image(planned, user_folder, words):
    (user_folder / "space.yaml").write_text("model.learning_rate: {low: 0.001, high: 0.01}\n")
    found = planned(*job(f"{words} --engine=jax", *JOIN))
    assert (found["config"]["join"], found["config"]["training"]["engine"]) == ("search", "jax")
    assert found["workers"]["image"] == "python:3.11-slim"
