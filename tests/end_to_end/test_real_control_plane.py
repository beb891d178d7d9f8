"""Two real workers in pods of the real control plane: disturbed, followed, entered, cancelled, and nothing is left.

The pods have networks of their own, in which nothing enforces a NetworkPolicy.
"""

import json
import subprocess
import sys
import threading

import pytest

from cloudgan.schema import record
from cloudgan.storage.store import open_store
from end_to_end.conftest import BUCKET, NAMESPACE, ON_CLUSTER, pods_of
from end_to_end.test_launch import weights
from waiting import until

pytestmark = pytest.mark.slow

THERE = (*ON_CLUSTER, "--seed=3", "--checkpoint-every-steps=4", "--allow-open-ports")


def objects(cluster):
    """All objects of the run's namespace, of every kind in every API group; events pass by themselves."""
    groups = ["/api/v1"] + [
        f"/apis/{group['preferredVersion']['groupVersion']}"
        for group in cluster._ask("GET", "/apis")["groups"]
    ]
    found = set()
    for path in groups:
        for kind in cluster._ask("GET", path)["resources"]:
            if kind["namespaced"] and "list" in kind["verbs"] and kind["name"] != "events":
                listed = cluster._ask("GET", f"{path}/namespaces/{NAMESPACE}/{kind['name']}")
                found |= {f"{kind['name']}/{one['metadata']['name']}" for one in listed["items"]}
    return found


def wait_for_checkpoints(run, number):
    store = open_store(f"{BUCKET}/runs/{run}/checkpoints")
    until(lambda: len(store.list("step-")) >= number, "a checkpoint", 400)


def test_ports_of_workers_that_other_pods_reach_are_refused_and_nothing_is_left(
    real, here, shards, cloudgan_here
):
    before = objects(real)
    what = ("--config=plain.yaml", f"--data={shards}", "--epochs=3", "--name=open")
    done = cloudgan_here("deploy", *what, *THERE[:-1], exits=2)
    assert "this cluster does not enforce NetworkPolicy" in done.stderr
    real.wait_for(lambda: objects(real) == before)


def test_a_run_that_is_evicted_ends_with_the_weights_of_a_quiet_one_and_leaves_nothing(
    real, here, shards, cloudgan_here, run_cloudgan
):
    before = objects(real)

    def disturb():
        wait_for_checkpoints("there", 2)
        (pod,) = (
            one["metadata"]["name"]
            for one in pods_of(real, "there-1-")
            if one["status"]["phase"] == "Running"
        )
        real.evict(NAMESPACE, pod)

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    what = ("--config=plain.yaml", f"--data={shards}", "--epochs=3", "--name=there")
    result = json.loads(cloudgan_here("deploy", *what, *THERE).stdout)
    disturbing.join()
    assert result["state"] == "finished"
    run = here / "runs" / "there"
    lines = record.read(run / "record.jsonl").lines
    assert any(line.kind == "resumed" and line.step > 0 for line in lines)
    assert json.loads(cloudgan_here("status", "there", "--json").stdout)["phase"] == "finished"
    printed = cloudgan_here("logs", "there", "--follow", "--json").stdout.splitlines()
    lines = [json.loads(line) for line in printed]
    ended = {line["worker"] for line in lines if "exiting with code 0" in json.dumps(line)}
    assert ended == {0, 1}
    cloudgan_here("down", "there")
    real.wait_for(lambda: objects(real) == before)
    config = here / "quiet.yaml"
    config.write_text((run / "run.yaml").read_text())
    run_cloudgan("train", f"--config={config}", f"--data={shards}", f"--run={here / 'quiet'}")
    assert weights(run) == weights(here / "quiet")


def test_a_run_is_entered_and_cancelled_with_a_checkpoint_and_leaves_nothing(
    real, here, shards, cloudgan_here, run_cloudgan
):
    before = objects(real)
    what = ("--config=plain.yaml", f"--data={shards}", "--epochs=500", "--name=long")
    words = [sys.executable, "-m", "cloudgan", "deploy", *what, *THERE]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as deploy:
        wait_for_checkpoints("long", 2)
        shown = run_cloudgan("exec", "long", "--", "python", "-c", "print(6 * 7)").stdout
        assert shown.split() == ["42"]
        cloudgan_here("cancel", "long")
        out, err = deploy.communicate(timeout=600)
    assert deploy.returncode != 0, out
    assert "Traceback" not in err.decode()
    assert open_store(f"{BUCKET}/runs/long/checkpoints").list("step-")
    cloudgan_here("down", "long")
    real.wait_for(lambda: objects(real) == before)
