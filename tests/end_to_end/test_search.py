"""A search whose blocks are pods of a cluster, one of them killed: its trial continues from the bucket."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from cloudgan.schema import record
from cloudgan.storage.store import ObjectMissingError, open_store

pytestmark = pytest.mark.slow

BUCKET, NAMESPACE = "s3://physics/gan", "cloudgan"
SPACE = "model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n"


def kill_in_the_middle(cluster, killed):
    """Kills what trains in worker 1 (SIGKILL) when the bucket has records of checkpoints of both trials."""
    store = open_store(f"{BUCKET}/searches/lr/trials")
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        if all(has_recorded_checkpoint(store, trial) for trial in ("0000", "0001")):
            break
        time.sleep(0.05)
    for pod in cluster.select("pods", NAMESPACE):
        if pod["metadata"]["name"].startswith("blocks-1-"):
            killed.append(cluster.kill(NAMESPACE, pod["metadata"]["name"], signal.SIGKILL))


def has_recorded_checkpoint(store, trial):
    with contextlib.suppress(ObjectMissingError):
        lines = [json.loads(line) for line in store.read(f"{trial}/record.jsonl").splitlines()]
        return any(line["kind"] == "checkpointed" and line["step"] > 4 for line in lines)
    return False


def test_the_trial_of_a_killed_pod_continues_from_the_bucket(here, cluster, cloudgan_here):
    pytest.importorskip("optuna")
    from cloudgan.data.sources.convert import convert
    from cloudgan.data.sources.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    write_hdf5(here / "showers.h5", simulate(420, seed=1, cells=(9, 9), block=50))
    convert(str(here / "showers.h5"), here / "shards")
    plain = json.loads((here / "plain.yaml").read_text())
    # The record is uploaded every 2 s, which is longer than between these checkpoints: keep them all.
    more = {"data": {"held_out_fraction": 0.5}, "checkpoint": {"keep": 20}}
    (here / "plain.yaml").write_text(json.dumps(plain | more))
    (here / "space.yaml").write_text(SPACE)
    asked = (
        *("space.yaml", "--config=plain.yaml", "--data=shards", "--run=runs/lr", "--trials=2"),
        *("--sampler=random", "--epochs=5", "--checkpoint-every-steps=4", f"--store={BUCKET}"),
    )
    search = subprocess.Popen(
        [sys.executable, "-m", "cloudgan", "search", *asked, "--json"], stdout=subprocess.PIPE
    )
    killed = []
    killing = threading.Thread(target=kill_in_the_middle, args=(cluster, killed))
    killing.start()
    try:
        joined = (f"--store={BUCKET}", "--provider=kubernetes", "--kubernetes-secrets=s3-login")
        flags = (*joined, "--cpus=1", "--nodes=2", "--name=blocks", "--yes", "--json")
        assert (
            json.loads(cloudgan_here("deploy", *flags, "--", "join", "lr").stdout)["search"] == "lr"
        )
        found = json.loads(search.communicate(timeout=120)[0])
    finally:
        search.kill()
        killing.join()
    assert any(killed)
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 2
    records = [
        record.read(here / f"runs/lr/trials/000{number}/record.jsonl") for number in range(2)
    ]
    resumed = [line.step for found in records for line in found.lines if line.kind == "resumed"]
    assert resumed
    assert min(resumed) > 0
    assert all(len(found.validations()) == 5 for found in records), "no validation is missing"
    cost = json.loads(cloudgan_here("cost", here / "runs" / "blocks", "--json").stdout)
    assert cost["node_seconds"]["finished trials"] > 0
    cloudgan_here("down", "blocks")
