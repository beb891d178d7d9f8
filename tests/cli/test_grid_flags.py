"""A grid of cells on nodes: the plan, run.yaml, and refusals before anything is started."""

from __future__ import annotations

import json

import pytest

from cli.provisioned import basis
from command_options import job

PODS = ("--provider=kubernetes", "--store=s3://lab/x", "--image=lab/gan:1")
RING = ("--grid=2x2", "--task=ring")


def test_a_plan_has_a_master_beside_the_first_cells(cloudgan_here, user_folder):
    words = ("plan", *job("evolve", *PODS, *RING, "--nodes=3", "--iterations=8"))
    assert "evolve ring, 8 iterations of 2x2 cells, on 3 w" in cloudgan_here(*words).stdout
    words = ("plan", *job("evolve", *PODS, *RING, "--nodes=3", "--iterations=8", "--json"))
    shown = basis(cloudgan_here(*words).stdout)
    assert "ranks      a master and 4 cells; by node: 2, 1, 2" in shown
    assert "data       none: the task of the grid has no showers" in shown
    assert "duration   no iteration of a grid was measured" in shown
    shown = basis(cloudgan_here("plan", *job("evolve", *PODS, *RING, "--nodes=5", "--json")).stdout)
    assert "by node: 1, 1, 1, 1, 1" in shown


def test_a_plan_fixes_seed_threads_and_batch_of_the_cells(cloudgan_here, user_folder):
    flags = (*PODS, "--grid=2x3", "--data=s3://lab/data", "--nodes=2", "--cpus=8", "--batch=16")
    flags += ("--neighbourhood-schedule=5:all", "--losses=bce,heuristic")
    config = json.loads(cloudgan_here("plan", *job("evolve", *flags, "--json")).stdout)["config"]
    grid, training = config["grid"], config["training"]
    assert (grid["rows"], grid["columns"], grid["engine"], grid["task"]) == (
        2,
        3,
        "ranks",
        "showers",
    )
    assert (grid["threads"], grid["batch_size"], grid["schedule"]) == (2, 16, [[5, "all"]])
    assert training["batch_per_replica"] is None
    assert training["strategy"] == "auto"
    assert grid["seed"] == training["seed"] == 1, "as evolve"
    assert config["model"]["preset"] == "mini"
    config = json.loads(
        cloudgan_here("plan", *job("evolve", *flags, "--seed=7", "--preset=smoke", "--json")).stdout
    )
    assert config["config"]["grid"]["seed"] == config["config"]["training"]["seed"] == 7
    assert config["config"]["model"]["preset"] == "smoke"


def test_run_yaml_may_have_the_grid_and_flags_change_it(cloudgan_here, user_folder):
    (user_folder / "cells.yaml").write_text(
        "grid: {rows: 1, columns: 2, task: ring, iterations: 9}"
    )
    flags = (*PODS, "--config=cells.yaml", "--nodes=2", "--json")
    first = json.loads(cloudgan_here("plan", *job("evolve", *flags)).stdout)
    more = json.loads(cloudgan_here("plan", *job("evolve", *flags, "--iterations=12")).stdout)
    other = json.loads(cloudgan_here("plan", *job("evolve", *flags, "--population=2")).stdout)
    assert first["config"]["grid"]["iterations"] == 9
    assert more["config"]["grid"]["iterations"] == 12
    assert first["run"] == more["run"] != other["run"]


def test_the_nodes_of_a_cloud_are_the_cheapest_without_a_forecast(cloudgan_here, user_folder):
    flags = ("--provider=aws", "--accelerator=a10g", "--grid=2x2", "--nodes=2")
    shown = basis(cloudgan_here("plan", *job("evolve", *flags, "--json")).stdout)
    assert "by node: 3, 2" in shown
    assert "its throughput is unknown: lowest hourly price" in shown


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((*RING, "--max-steps=5"), "unknown flag of `cloudgan deploy -- evolve` '--max-steps"),
        ((*RING, "--parallel=easgd"), "unknown flag of `cloudgan deploy -- evolve` '--parallel"),
        ((*RING, "--nodes=6"), "--nodes=6 are more than the 5 ranks of a grid of 2x2"),
        ((*RING, "--data=x.h5"), "--data=x.h5: on nodes the task ring has no data"),
        (("--grid=1x1", "--task=ring"), "a grid of 1x1 has no neighbours"),
        ((*RING, "--tournament=9"), "--tournament=9 is larger"),
        (("--grid=2y",), "expected ROWSxCOLUMNS"),
        (("--grid=2x2", "--task=simulate"), "unknown value of --task 'simulate'"),
        ((*RING, "--seeds=1,2"), "--seeds compares trainings of one GAN"),
        ((*RING, "--losses=bce,huristic"), "Did you mean 'heuristic'?"),
    ],
)
def test_bad_input_is_refused(cloudgan_here, user_folder, flags, expected):
    assert expected in cloudgan_here("plan", *job("evolve", *PODS, *flags), exits=2).stderr


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            ("--provider=local", *RING),
            "--provider=local with one node starts no ranks, so --grid=2x2",
        ),
        ((*PODS, "--grid=2x2"), "--data is missing"),
    ],
)
def test_nodes_that_cannot_run_a_grid_are_refused(cloudgan_here, user_folder, flags, expected):
    assert expected in cloudgan_here("deploy", *job("evolve", *flags, "--yes"), exits=2).stderr


def test_train_refuses_the_run_yaml_of_a_grid(cloudgan_here, user_folder):
    (user_folder / "cells.yaml").write_text("grid: {rows: 1, columns: 2}")
    said = cloudgan_here("train", "--config=cells.yaml", "--data=x.h5", exits=2).stderr
    assert "`cloudgan evolve` trains a grid on this machine" in said
    (user_folder / "cells.yaml").write_text("grid: {row: 1}")
    said = cloudgan_here("train", "--config=cells.yaml", "--data=x.h5", exits=2).stderr
    assert "unknown key grid.row. Did you mean 'rows'?" in said
