"""A grid of cells in the pods of a cluster, one node lost: to the end, with the bits of one process."""

import json
import threading

import pytest

from cloudgan.coevolution.samples import read_result
from cloudgan.schema.coevolution import CELLS, common_iteration, saved_in_store
from cloudgan.storage.store import open_store
from end_to_end.conftest import BUCKET, ON_CLUSTER, pods_of
from waiting import until

pytestmark = pytest.mark.slow

GRID = ("--grid=1x2", "--task=ring", "--iterations=90", "--batches=10", "--save-every=3")
GRID += (
    "--losses=bce,heuristic",
    "--neighbourhood-schedule=8:all",
    "--score-samples=100",
    "--seed=3",
)


def test_a_grid_in_pods_ends_with_the_bits_of_one_process_after_a_pod_is_killed(
    here, cluster, cloudgan_here, run_cloudgan
):
    pytest.importorskip("mpi4py")
    flags = (*ON_CLUSTER, "--name=cells")
    seen = []
    losing = threading.Thread(target=lose_a_node_in_the_middle, args=(cluster, seen))
    losing.start()
    result = json.loads(cloudgan_here("deploy", *flags, "--", "evolve", *GRID).stdout)
    losing.join()
    assert result["state"] == "finished"
    assert 0 < seen[0] < 90, "the pod was killed in the middle of the run"
    folder = here / "runs" / "cells"
    printed = [
        json.loads(line) for line in cloudgan_here("logs", "cells", "--json").stdout.splitlines()
    ]
    assert any("generation 2" in line["text"] for line in printed)
    continued = [line["text"] for line in printed if "the cells continue after" in line["text"]]
    assert seen[0] <= int(continued[0].split()[-1]) < 90
    status = json.loads(cloudgan_here("status", "cells", "--json").stdout)
    assert status["phase"] == "finished"
    assert [cell["iteration"] for cell in status["grid"]["cells"]] == [90, 90]
    run_cloudgan("evolve", *GRID, "--run=one", "--threads=1")
    for cell in ("0-0", "0-1"):
        state = f"{CELLS}/{cell}/state-000000090.npz"
        assert (folder / state).read_bytes() == (here / "runs" / "one" / state).read_bytes()
        lines = (folder / CELLS / cell / "record.jsonl").read_text().splitlines()
        assert [json.loads(line)["iteration"] for line in lines] == list(range(1, 91))
    assert read_result(folder / "mixture.npz").iteration == 90
    assert (folder / "evolution.html").exists()
    cost = json.loads(cloudgan_here("cost", "runs/cells", "--json").stdout)
    assert cost["launched_node_seconds"] > cost["node_seconds"] > 0


def lose_a_node_in_the_middle(cluster, seen):
    """Kills all of the second pod at once when the bucket has a state of all cells; adds an empty node."""
    store = open_store(f"{BUCKET}/runs/cells")
    common = lambda: common_iteration(saved_in_store(store.list(f"{CELLS}/"), 2))
    seen.append(until(common, "a state of all cells", 900))
    for pod in pods_of(cluster, "cells-1-"):
        cluster.add_node("new")
        cluster.lose_node(pod["spec"]["nodeName"])
