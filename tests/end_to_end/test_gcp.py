"""From `setup` to the deletion of all resources on the emulated Google Cloud: the real command line and trainer.

Google's control plane is tests/emulators/gcp, objects are in fake-gcs-server, and the nodes of a pool
join the test cluster when the pool exists.
"""

import json

import pytest
import requests

from cloudgan.schema import record
from cloudgan.storage.store import open_store

pytestmark = pytest.mark.slow

STORE = "gs://cloudgan-lab-us-central1"


@pytest.fixture
def google(tmp_path, monkeypatch):
    """A project in which nothing is prepared; this process is logged in to it."""
    # Its first import warns where grpc is not whole.
    pytest.importorskip("google.cloud.storage", reason="needs pip install '.[gcp]'")
    from emulators.gcp.key_file import write_key_file
    from emulators.gcp.project import project
    from emulators.kubernetes import (
        RCLONE,
        local_cluster,
        python_image,
        rclone_image,
        with_gpus,
    )
    from storage.servers import gcs_server

    with gcs_server() as objects, project() as made:
        python = python_image(STORAGE_EMULATOR_HOST=objects)
        there = {"RCLONE_GCS_ENDPOINT": f"{objects}/storage/v1/", "RCLONE_GCS_ANONYMOUS": "true"}
        images = {"python:3.11-slim": with_gpus(python), RCLONE: rclone_image(**there)}
        with local_cluster(nodes=0, images=images, root=tmp_path) as cluster:
            made.tie(cluster)
            made.server.issued = cluster.token()
            made.server.tokens = {made.server.issued: None}
            made.engine.operation_ticks = 1  # the command line polls each 5 s
            made.identity.accounts.clear()
            made.storage.made = lambda name: requests.post(
                f"{objects}/storage/v1/b", params={"project": "lab"}, json={"name": name}, timeout=9
            ).raise_for_status()
            # Google's library would ask another host, in a thread, where a key may be used from.
            monkeypatch.setattr(
                "google.auth.credentials.CredentialsWithRegionalAccessBoundary"
                "._is_regional_access_boundary_lookup_required",
                lambda _: False,
            )
            key = write_key_file(tmp_path / "key.json", made.server)
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
            monkeypatch.setenv("CLOUDGAN_GCP_ENDPOINT", made.server.url)
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", objects)
            made.cluster = cluster
            yield made


def test_a_run_on_rented_nodes_trains_is_priced_and_leaves_nothing(
    google, here, shards, cloudgan_here
):
    flags = (
        "--config=plain.yaml",
        f"--data={shards}",
        "--nodes=1",
        "--epochs=1",
        "--name=gan",
    )
    flags += ("--provider=gcp", "--region=us-central1", "--accelerator=l4:1", "--cpus=1")
    flags += ("--yes", "--allow-stale-price", "--json")
    assert "cloudgan setup --provider=gcp" in cloudgan_here("deploy", *flags, exits=2).stderr
    assert google.left() == []
    cloudgan_here("setup", "--provider=gcp", "--region=us-central1", "--yes")
    result = json.loads(cloudgan_here("deploy", *flags).stdout)
    assert result["state"] == "finished"
    assert google.left() == [], "nodes and cluster go by themselves"
    assert google.cluster.select("nodes") == []
    cost = json.loads(cloudgan_here("cost", here / "runs" / "gan", "--json").stdout)
    assert cost["run"] == "gan"
    kept = [name for name in open_store(STORE).list("runs/gan/checkpoints/") if "step-" in name]
    assert kept, "its results are in the bucket"
    cloudgan_here("down", "gan")
    found = json.loads(cloudgan_here("doctor", "--provider=gcp", "--json").stdout)
    assert "node pool" not in json.dumps(found)
    cloudgan_here("setup", "--provider=gcp", "--teardown", "--purge", "--yes")
    assert (google.identity.accounts, google.storage.buckets) == ({}, {})


def test_four_pods_train_as_one_with_jax_on_the_hosts_of_a_tpu_slice(
    google, here, shards, cloudgan_here
):
    pytest.importorskip("jax")
    google.compute.quotas |= {"TPU_LITE_PODSLICE_V5": 16.0}
    cloudgan_here("setup", "--provider=gcp", "--region=us-central1", "--yes")
    flags = (
        "--provider=gcp",
        "--region=us-central1",
        "--accelerator=ct5lp-hightpu-4t",
        "--nodes=4",
    )
    flags += (
        "--allow-unknown-price",
        "--name=gan",
        "--cpus=1",
        "--memory-gib=2",
        "--yes",
        "--json",
    )
    flags += ("--env=XLA_FLAGS=--xla_backend_optimization_level=0",)
    job = ("train", "--config=plain.yaml", f"--data={shards}", "--engine=jax", "--epochs=1")
    result = json.loads(cloudgan_here("deploy", *flags, "--", *job, "--global-batch=32").stdout)
    assert result["state"] == "finished"
    assert google.left() == []
    started = record.read(here / "runs" / "gan" / "record.jsonl").started()
    assert (started.strategy, started.numerics.workers) == ("multiworker", 4)
    assert started.numerics.jax
    assert not started.numerics.tensorflow
    assert result["usd"] is None, "unknown, which is not zero"
