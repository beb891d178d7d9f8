"""`make live`: output, refusals, and a complete run against doubles.

The double of a cloud makes nodes in the test cluster; the pods are stubs that train nothing. What
a live test proves, the real cloud, no test here proves.
"""

import contextlib
import json
import re
from dataclasses import replace

import pytest

from cloudgan.core.labels import RUN
from live.__main__ import run

LIVE_TEST = ("--provider=gcp", "--region=us-central1")


@pytest.fixture
def live(monkeypatch, user_folder, capsys):
    def type_(*words, exits=0):
        monkeypatch.chdir(user_folder)
        assert run([*LIVE_TEST, *words]) == exits
        return capsys.readouterr()

    return type_


def test_a_dry_run_shows_ten_scenarios_and_the_most_they_cost_without_a_login(
    live, cloud, user_folder
):
    cloud.has_no_login = True
    said = live("--dry-run").out
    assert "10 invoice against forecast" in said
    most = re.search(r"maximum cost, if each scenario takes its maximum time: ([\d.]+) USD", said)
    assert 0 < float(most[1]) < 5
    assert not (user_folder / "runs").exists()


def test_it_does_not_start_above_its_budget(live, cloud, user_folder):
    assert "more than --budget=1" in live("--budget=1", exits=6).err
    assert not cloud.calls
    assert not (user_folder / "runs").exists()


@pytest.fixture
def lab(cloud, user_folder, tmp_path, monkeypatch, trainer_image):
    """A cloud whose nodes join the test cluster, and leave it when their Job is over."""
    pytest.importorskip("h5py")
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.launch.kubernetes.kubeconfig import connect
    from emulators.kubernetes import local_cluster

    with contextlib.ExitStack() as stack:
        made = stack.enter_context(local_cluster(0, images={"*": trainer_image}, root=tmp_path))
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
        pools = [one for one in cloud.there.values() if (one.kind, one.run) == ("pool", run)]
        for pool in pools if failed else ():
            for index in range(pool.nodes):
                cluster.lose_node(f"{run}-node-{index}")
            cloud.there[pool.name] = replace(pool, nodes=0)


@pytest.mark.tf  # deploy makes shards of the showers
def test_a_whole_live_test_against_doubles_passes_and_leaves_nothing(live, lab, user_folder):
    live("--unattended-minutes=0.05", "--watch-minutes=0.5")
    (report,) = (user_folder / "runs").glob("live-test-*/report.json")
    said = json.loads(report.read_text())
    saw = {one["name"]: (one["outcome"], one["observed"]) for one in said["scenarios"]}
    assert {outcome for outcome, _ in saw.values()} == {"passed"}, saw
    assert "generation 1 at step" in saw["a peer fails within a step"][1]
    assert "pool us-central1/" in saw["doctor finds orphans"][1]
    assert said["remaining"] == []
    assert [one.kind for one in lab.there.values()] == ["bucket"]
