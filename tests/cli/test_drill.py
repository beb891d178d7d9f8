"""`cloudgan drill`: what it shows and refuses, and a whole one against doubles.

The double of a cloud makes nodes in the test cluster; the pods are stubs that train nothing. What
a drill is for, the real cloud, no test here proves.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from cloudgan.core.labels import RUN
from providers.kubernetes.lab import launcher

TRAINER = Path(__file__).parents[1] / "auditing" / "drill_trainer.py"
DRILL = ("drill", "--provider=gcp", "--region=us-central1")


def test_a_dry_run_shows_ten_exercises_and_the_most_they_cost_without_a_login(
    cloudgan_here, cloud, user_folder
):
    cloud.nobody = True
    said = cloudgan_here(*DRILL, "--dry_run").stdout
    assert re.search(r"10 +billed against predicted", said)
    assert "if each step takes as long as it may: " in said
    found = json.loads(cloudgan_here(*DRILL, "--dry_run", "--json").stdout)
    assert len(found["exercises"]) == 10
    assert {one["outcome"] for one in found["exercises"]} == {"not run"}
    assert 0 < found["most_usd"] < 5
    assert not (user_folder / "runs").exists()


def test_it_does_not_begin_above_its_budget_nor_without_an_answer(
    cloudgan_here, cloud, user_folder
):
    said = cloudgan_here(*DRILL, "--budget_usd=1", "--yes", exits=6)
    assert "more than --budget_usd=1" in said.stderr
    said = cloudgan_here(*DRILL, exits=3)
    assert "USD on gcp?" in said.stderr
    assert "rent GPUs" in cloudgan_here(*DRILL, "--accelerator=tpu-v3:8", exits=2).stderr
    assert "Give --provider=" in cloudgan_here("drill", exits=2).stderr
    assert not cloud.asked
    assert not (user_folder / "runs").exists()


@pytest.fixture
def lab(cloud, user_folder, tmp_path, monkeypatch):
    """A cloud whose nodes come to life in the test cluster, and go when their Job is over."""
    pytest.importorskip("kubernetes")
    pytest.importorskip("h5py")
    if find_spec("tensorflow") is None:
        pytest.skip("deploy makes shards of the drill's showers, which needs TensorFlow")
    from cloudgan.kubernetes.access import connect
    from cloudgan.kubernetes.api import ClusterApi
    from cluster import Image, local_cluster, python_image

    monkeypatch.setattr("cloudgan.cli.deploy.all_wheels", lambda *_: ())
    monkeypatch.setattr("cloudgan.cli.attempt.pinned", lambda plan, *_: plan)
    sleep = time.sleep
    monkeypatch.setattr("time.sleep", lambda seconds: sleep(min(seconds, 0.02)))
    python = python_image(Path(__file__).parents[2])
    program = launcher(tmp_path, TRAINER, python.programs["python"])
    image = Image({"python": str(program)}, python.env, appended=python.appended)
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(local_cluster(0, images={"*": image}, root=tmp_path))
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig(tmp_path / "admin")))
        cloud.api = ClusterApi(stack.enter_context(connect(None)))
        cloud.sees = lambda step: bring_up(made, step)
        cloud.passes = lambda: let_go(made, cloud)
        yield cloud


def bring_up(cluster, step):
    body = step.body
    if body["kind"] == "pool":
        for index in range(body["nodes"]):
            run = body["labels"][RUN]
            cluster.add_node(f"{run}-node-{index}", gpus=1, labels={RUN: run})


def let_go(cluster, cloud):
    """The pool's own time limit: its nodes go when the Job is over, and nobody is asked."""
    for job in cluster.select("jobs", "cloudgan"):
        run = job["metadata"]["name"]
        conditions = (job.get("status") or {}).get("conditions") or ()
        failed = any(one["type"] == "Failed" and one["status"] == "True" for one in conditions)
        pool = cloud.there.get(f"cloudgan/{run}")
        if failed and pool is not None and pool.nodes:
            for index in range(pool.nodes):
                cluster.lose_node(f"{run}-node-{index}")
            cloud.there[pool.name] = replace(pool, nodes=0)


def test_a_whole_drill_against_doubles_passes_and_leaves_nothing(cloudgan_here, lab, user_folder):
    flags = ("--alone_minutes=0.05", "--watch_minutes=0.5", "--yes", "--json")
    said = json.loads(cloudgan_here(*DRILL, *flags).stdout)
    saw = {one["name"]: (one["outcome"], one["saw"]) for one in said["exercises"]}
    assert {outcome for outcome, _ in saw.values()} == {"passed"}, saw
    assert "generation 1 at step" in saw["a peer dies within a step"][1]
    assert "pool cloudgan/drill-" in saw["doctor finds what is left"][1]
    assert said["left"] == []
    assert [one.kind for one in lab.there.values()] == ["bucket"]
    (report,) = (user_folder / "runs").glob("drill-*/report.json")
    assert json.loads(report.read_text())["exercises"] == said["exercises"]
