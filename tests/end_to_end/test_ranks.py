"""Masters and workers in the pods of a cluster: a tree with one pod evicted, and a group over two pods."""

import json
import threading

import numpy as np
import pytest

from cloudgan.schema import record
from cloudgan.storage.store import open_store
from end_to_end.conftest import BUCKET, NAMESPACE, ON_CLUSTER, pods_of
from waiting import until

pytestmark = pytest.mark.slow


def test_a_tree_in_pods_continues_where_all_have_saved_after_one_pod_is_evicted(
    here, shards, cluster, cloudgan_here
):
    pytest.importorskip("mpi4py")
    flags = (
        *(*ON_CLUSTER, "--config=plain.yaml", f"--data={shards}", "--seed=3", "--epochs=99"),
        *("--parallel=downpour", "--ranks=5", "--masters=2", "--master-sync-every=1"),
        *("--sync-every=2", "--checkpoint-every-steps=8"),
        *("--max-steps=150", "--name=ranks"),
    )
    evicting = threading.Thread(target=evict_in_the_middle, args=(cluster,))
    evicting.start()
    result = json.loads(cloudgan_here("deploy", *flags).stdout)
    evicting.join()
    assert result["state"] == "finished"
    folder = here / "runs" / "ranks"
    found = record.read(folder / "record.jsonl")
    assert found.stopped().reason == "max_steps"
    resumed = next(line for line in found.lines if line.kind == "resumed")
    assert resumed.step in [line.step for line in found.lines if line.kind == "checkpointed"]
    assert resumed.step > 0
    exchanged = {
        (line.rank, line.master) for line in found.lines if line.kind == "exchanged" and line.rank
    }
    assert exchanged == {(1, 0), (2, 0), (3, 1), (4, 2)}
    newest = max((folder / "checkpoints").glob("step-*.npz"))
    with np.load(newest) as archive:
        assert json.loads(archive["meta.json"].tobytes())["step"] == found.stopped().step
    printed = [
        json.loads(line) for line in cloudgan_here("logs", "ranks", "--json").stdout.splitlines()
    ]
    assert {line["worker"] for line in printed} == {0, 1}


def test_a_group_with_its_members_in_two_pods_trains_one_batch_together(
    here, shards, cluster, cloudgan_here
):
    pytest.importorskip("mpi4py")
    flags = (
        *(*ON_CLUSTER, "--config=plain.yaml", f"--data={shards}", "--seed=3", "--max-steps=6"),
        *("--parallel=easgd", "--ranks=3", "--group=2", "--sync-every=2", "--trace"),
        "--name=group",
    )
    result = json.loads(cloudgan_here("deploy", *flags).stdout)
    assert result["state"] == "finished"
    folder = here / "runs" / "group"
    found = record.read(folder / "record.jsonl")
    assert (found.stopped().reason, found.stopped().step) == ("max_steps", 6)
    assert found.started().numerics.global_batch_size == 64, "two members with a batch of 32"
    assert {line.worker for line in found.lines if line.kind == "exchanged"} == {None, 0}
    events = json.loads((folder / "trace.json").read_bytes())["traceEvents"]
    names = {
        event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"
    }
    assert names[3] == "rank 2: worker 0, member 1"


def evict_in_the_middle(cluster):
    """Evicts the pod of the second worker rank when the bucket has a checkpoint that is not the first."""
    store = open_store(f"{BUCKET}/runs/ranks/checkpoints")
    until(lambda: len(store.list("step-")) > 1, "a second checkpoint", 240)
    for pod in pods_of(cluster, "ranks-1-"):
        cluster.evict(NAMESPACE, pod["metadata"]["name"])
