"""`deploy -- simulate` with the real Geant4, on a cluster and on this machine, with workers killed."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from cloudgan.data.manifest import read_manifest
from cloudgan.data.sources import open_source
from cloudgan.storage.store import open_store
from command_options import job
from end_to_end.conftest import BUCKET, NAMESPACE, pods_of
from simulation.geant4.conftest import prepared
from waiting import until

pytestmark = pytest.mark.slow

SHOWERS = (
    *("--showers=22", "--records-per-shard=4", "--seed=7"),
    *("--energy=8:12", "--theta=80:100", "--particle=photon", "--cpus=1"),
)
PRICES = """
date: 2026-11-20
nodes:
  - {offer: lab/cpu-32/room-1, vcpu: 32, memory_gib: 64, usd_per_hour: 1.5}
"""
ARRAYS = ("cells", "energy", "eta", "mtheta", "offsets", "sum", "theta", "values")
FILES = (
    "manifest.json",
    *(f"part-{number:05d}-{name}.npy" for number in range(6) for name in ARRAYS),
)


@pytest.fixture(scope="module", autouse=True)
def is_here(tmp_path_factory):
    prepared(tmp_path_factory.mktemp("geant4"))


def content(store):
    return {name: store.read(name) for name in store.list()}


def kill_in_the_middle(cluster):
    """Kills worker 1 (SIGKILL) when its first shard is in the bucket."""
    store = open_store(f"{BUCKET}/runs/there/shard-info")
    until(lambda: "00001.json" in store.list())
    for pod in pods_of(cluster, "there-1-"):
        assert cluster.kill(NAMESPACE, pod["metadata"]["name"], signal.SIGKILL)


@pytest.fixture
def quiet(here, cloudgan_here):
    """The shards of one worker of this machine, and the folder that `train --data=` reads."""
    result = json.loads(
        cloudgan_here("deploy", *job("simulate", *SHOWERS, "--name=quiet", "--json")).stdout
    )
    return result["data"], content(open_store(result["data"]))


def test_killed_workers_on_a_cluster_and_here_leave_the_bits_of_a_quiet_run(
    here, quiet, cluster, cloudgan_here, run_cloudgan
):
    folder, wanted = quiet
    assert sorted(wanted) == sorted(FILES)

    there = (
        "--provider=kubernetes",
        f"--store={BUCKET}",
        "--kubernetes-secrets=s3-login",
        "--image=lab/gan:1",
    )
    flags = job("simulate", *SHOWERS, *there, "--nodes=2", "--name=there", "--yes", "--json")
    (here / "prices.yaml").write_text(PRICES)
    priced = ("--price-file=prices.yaml",)
    killing = threading.Thread(target=kill_in_the_middle, args=(cluster,))
    killing.start()
    result = json.loads(cloudgan_here("deploy", *priced, *flags).stdout)
    killing.join()
    assert (result["state"], result["showers"]) == ("finished", 22)
    assert content(open_store(result["data"])) == wanted
    status = json.loads(cloudgan_here("status", "there", "--json").stdout)
    assert status["phase"] == "finished"
    assert status["heartbeat"]["showers"] == 22
    assert (status["done"], status["total"], status["unit"]) == (22, 22, "showers")
    logs = cloudgan_here("logs", "there").stdout
    assert "1 of 3 shards of this worker are finished" in logs, "it resumed after its first shard"
    kinds = [one["kind"] for one in cluster.select("networkpolicies", NAMESPACE)]
    assert len(kinds) == 1, "workers that exchange nothing need no port probe"
    cost = json.loads(cloudgan_here("cost", here / "runs" / "there", "--json").stdout)
    assert cost["showers"] == 22
    assert cost["usd_per_1000_showers"] == pytest.approx(cost["usd"] / 22 * 1000)
    cloudgan_here("down", "there")

    command = (
        sys.executable,
        "-m",
        "cloudgan",
        "deploy",
        *job("simulate", *SHOWERS, "--name=here", "--nodes=2", "--json"),
    )
    deploy = subprocess.Popen(command, stdout=subprocess.PIPE)
    run = here / "runs" / "here"
    until((run / "store/runs/here/shard-info/00000.json").exists)
    note = json.loads((run / "pods" / "state.json").read_text())
    os.kill(note["workers"][0]["pid"], signal.SIGKILL)
    output, _ = deploy.communicate(timeout=600)
    assert deploy.returncode == 0
    assert content(open_store(json.loads(output)["data"])) == wanted

    source = open_source(folder)
    assert (source.count, source.particles) == (22, {"photon"})
    found = [block for file in source.files for block in file.raw_blocks(22)]
    run_cloudgan(
        *(
            "simulate",
            "file.h5",
            "--engine=geant4",
            "--showers=22",
            "--seed=7",
            "--particle=photon",
        ),
        *("--energy=8:12", "--theta=80:100"),
    )
    (file,) = open_source("file.h5").files
    whole = next(iter(file.raw_blocks(22)))
    assert np.concatenate([block.ecal for block in found]).tobytes() == whole.ecal.tobytes()
    for name, values in whole.columns.items():
        parts = np.concatenate([block.columns[name] for block in found])
        assert parts.tobytes() == values.tobytes(), name
    assert read_manifest(here / folder).records == 22
