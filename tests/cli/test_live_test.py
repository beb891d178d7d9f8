"""`cloudgan live-test`: output, refusals, and a complete run against doubles.

The double of a cloud makes nodes in the test cluster; the pods are stubs that train nothing. What
a live test proves, the real cloud, no test here proves.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cloudgan.core.labels import RUN
from launch.backends.kubernetes.lab import launcher

TRAINER = Path(__file__).parents[1] / "launch" / "ops" / "live_test_trainer.py"
LIVE_TEST = ("live-test", "--provider=gcp", "--region=us-central1")


def test_a_dry_run_shows_ten_scenarios_and_the_most_they_cost_without_a_login(
    cloudgan_here, cloud, user_folder
):
    cloud.has_no_login = True
    said = cloudgan_here(*LIVE_TEST, "--dry-run").stdout
    assert re.search(r"10 +invoice against forecast", said)
    assert "maximum cost, if each scenario takes its maximum time: " in said
    found = json.loads(cloudgan_here(*LIVE_TEST, "--dry-run", "--json").stdout)
    assert len(found["scenarios"]) == 10
    assert {one["outcome"] for one in found["scenarios"]} == {"not run"}
    assert 0 < found["max_usd"] < 5
    assert not (user_folder / "runs").exists()


def test_it_does_not_start_above_its_budget_or_without_confirmation(
    cloudgan_here, cloud, user_folder
):
    said = cloudgan_here(*LIVE_TEST, "--budget-usd=1", "--yes", exits=6)
    assert "more than --budget-usd=1" in said.stderr
    said = cloudgan_here(*LIVE_TEST, exits=3)
    assert "USD on gcp?" in said.stderr
    assert "needs GPUs" in cloudgan_here(*LIVE_TEST, "--accelerator=tpu-v3:8", exits=2).stderr
    assert "give --provider=" in cloudgan_here("live-test", exits=2).stderr
    assert not cloud.asked
    assert not (user_folder / "runs").exists()


@pytest.fixture
def lab(cloud, user_folder, tmp_path, monkeypatch):
    """A cloud whose nodes join the test cluster, and leave it when their Job is over."""
    pytest.importorskip("kubernetes")
    pytest.importorskip("h5py")
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.launch.kubernetes.kubeconfig import connect
    from emulators.kubernetes import Image, local_cluster, python_image

    monkeypatch.setattr("cloudgan.api.deployment.all_wheels", lambda *_: ())
    monkeypatch.setattr("cloudgan.api.deploy_attempt.pin_image", lambda plan, *_: plan)
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
    """The pool's own time limit: its nodes end when the Job is over, without a request of the launcher."""
    for job in cluster.select("jobs", "cloudgan"):
        run = job["metadata"]["name"]
        conditions = (job.get("status") or {}).get("conditions") or ()
        failed = any(one["type"] == "Failed" and one["status"] == "True" for one in conditions)
        pool = cloud.there.get(f"cloudgan/{run}")
        if failed and pool is not None and pool.nodes:
            for index in range(pool.nodes):
                cluster.lose_node(f"{run}-node-{index}")
            cloud.there[pool.name] = replace(pool, nodes=0)


@pytest.mark.tf  # deploy makes shards of the showers
def test_a_whole_live_test_against_doubles_passes_and_leaves_nothing(
    cloudgan_here, lab, user_folder
):
    flags = ("--unattended-minutes=0.05", "--watch-minutes=0.5", "--yes", "--json")
    said = json.loads(cloudgan_here(*LIVE_TEST, *flags).stdout)
    saw = {one["name"]: (one["outcome"], one["observed"]) for one in said["scenarios"]}
    assert {outcome for outcome, _ in saw.values()} == {"passed"}, saw
    assert "generation 1 at step" in saw["a peer fails within a step"][1]
    assert "pool cloudgan/live-test-" in saw["doctor finds orphans"][1]
    assert said["remaining"] == []
    assert [one.kind for one in lab.there.values()] == ["bucket"]
    (report,) = (user_folder / "runs").glob("live-test-*/report.json")
    assert json.loads(report.read_text())["scenarios"] == said["scenarios"]
