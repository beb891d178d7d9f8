"""The real trainer with killed workers, on a cluster and on this machine: it gets the weights of an undisturbed run."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from cloudgan.schema import launch, record
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.storage.store import open_store
from end_to_end.conftest import BUCKET, LOGIN, NAMESPACE, ON_CLUSTER, pods_of
from waiting import until

pytestmark = pytest.mark.slow

SECRET = LOGIN["AWS_SECRET_ACCESS_KEY"]
BUSY_SECONDS = 1800
"""A busy machine takes minutes to start two TensorFlow workers; only a hang takes longer."""
TRAINED = ("--epochs=3", "--seed=3", "--checkpoint-every-steps=4")


def test_a_run_survives_a_kill_here_and_an_eviction_there_with_the_weights_of_a_quiet_run(
    here, shards, cluster, cloudgan_here, run_cloudgan
):
    what = ("--config=plain.yaml", f"--data={shards}", *TRAINED)
    flags = (*what, *ON_CLUSTER, "--name=there")
    evicting = threading.Thread(target=evict_in_the_middle, args=(cluster,))
    evicting.start()
    result = json.loads(cloudgan_here("deploy", *flags).stdout)
    evicting.join()
    assert result["state"] == "finished"
    assert_whole(here / "runs" / "there")
    assert json.loads(cloudgan_here("status", "there", "--json").stdout)["phase"] == "finished"
    assert "finished" in cloudgan_here("deploy", *flags).stdout, "a second deploy shows the result"
    printed = [
        json.loads(line) for line in cloudgan_here("logs", "there", "--json").stdout.splitlines()
    ]
    assert {line["worker"] for line in printed} == {0, 1}
    (here / "elsewhere").mkdir()
    with contextlib.chdir(here / "elsewhere"):
        found = cloudgan_here("status", "there", "--provider=kubernetes", "--json").stdout
    assert json.loads(found)["heartbeat"]["exit_code"] == 0, "another machine needs a name only"
    cost = json.loads(cloudgan_here("cost", here / "runs" / "there", "--json").stdout)
    assert cost["run"] == "there"
    cloudgan_here("down", "there")
    cloudgan_here("down", "there")
    assert left(cluster) == []
    assert "worker 1 of 2" in cloudgan_here("logs", "there").stdout, "the store has the logs still"
    assert "finished" in cloudgan_here("deploy", *flags).stdout, "and the result"
    assert left(cluster) == []
    assert_no_secret(here, cluster, printed)

    run = here / "runs" / "here"
    assert run_here_and_kill(here, (*what, "--nodes=2")) > 4, "killed before its first checkpoint"
    assert_whole(run)
    for index in range(2):
        (log,) = (run / "pods" / f"worker-{index}" / "logs").glob("*.log")
        assert "generation 2: training with" in log.read_text()
    beat = Heartbeat.model_validate_json((run / "store/runs/here/heartbeat.json").read_bytes())
    assert (beat.generation, beat.step, beat.exit_code) == (2, newest_step(run), 0)
    assert not list((run / "pods").rglob("launch.json"))
    assert weights(run) == weights(here / "runs" / "there")

    config = run / "pods" / "config" / "run.yaml"
    run_cloudgan("train", f"--config={config}", f"--run={here / 'quiet'}")
    assert weights(run) == weights(here / "quiet")


def evict_in_the_middle(cluster):
    """Evicts worker 1 when the bucket has a checkpoint that is not the first."""
    store = open_store(f"{BUCKET}/runs/there/checkpoints")
    until(lambda: len(store.list("step-")) > 1, "a second checkpoint", BUSY_SECONDS)
    for pod in pods_of(cluster, "there-1-"):
        cluster.evict(NAMESPACE, pod["metadata"]["name"])


def run_here_and_kill(here, what):
    """Deploys on this machine and kills one training process; returns at which checkpoint."""
    command = (sys.executable, "-m", "cloudgan", "deploy", *what, "--name=here", "--cpus=1")
    deploy = subprocess.Popen((*command, "--json"), stdout=subprocess.PIPE)
    store = here / "runs" / "here" / "store" / "runs" / "here" / "checkpoints"
    until(
        lambda: len(list(store.glob("step-*.npz"))) > 2 or deploy.poll() is not None,
        "a third checkpoint",
        BUSY_SECONDS,
    )
    assert deploy.poll() is None
    reached = max(int(path.stem.partition("-")[2]) for path in store.glob("step-*.npz"))
    note = json.loads((here / "runs" / "here" / "pods" / "state.json").read_text())
    os.kill(training_process_of(note["workers"][1]["pid"]), signal.SIGKILL)
    output, _ = deploy.communicate(timeout=BUSY_SECONDS)
    assert deploy.returncode == 0
    assert json.loads(output)["state"] == "finished"
    return reached


def training_process_of(worker):
    done = subprocess.run(
        ("ps", "-o", "pid=", "--ppid", str(worker)), capture_output=True, text=True
    )
    return int(done.stdout.split()[0])


def assert_whole(folder):
    run = record.read(folder / "record.jsonl")
    epochs = run.epochs()
    # An epoch in which a worker was lost has two lines; no step is missing and none counts twice.
    assert sorted({epoch.epoch for epoch in epochs}) == [0, 1, 2]
    assert sum(epoch.steps for epoch in epochs) == newest_step(folder)
    assert any(line.kind == "resumed" for line in run.lines), "it was not disturbed"
    # The place of the staged showers is no part of the configuration's identity.
    assert run.started().config_hash == launch.read(folder / "launch.json").config_hash


def newest_checkpoint(folder):
    return max((folder / "checkpoints").glob("step-*.npz"))


def newest_step(folder):
    return int(newest_checkpoint(folder).stem.partition("-")[2])


def weights(folder):
    with np.load(newest_checkpoint(folder)) as found:
        return {name: found[name].tobytes() for name in found.files if name != "meta.json"}


def left(cluster):
    kinds = ("pods", "jobs", "services", "configmaps", "networkpolicies")
    return [
        f"{kind}/{one['metadata']['name']}"
        for kind in kinds
        for one in cluster.select(kind, NAMESPACE)
        if one["metadata"]["name"] != "kube-root-ca.crt"
    ]


def assert_no_secret(folder, cluster, printed):
    """No file and no request contains the secret."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".npz"]
    assert files
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in json.dumps(printed)
    store = open_store(BUCKET)
    for name in store.list("runs/"):
        assert SECRET.encode() not in store.read(name), name
