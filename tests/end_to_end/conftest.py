"""The real trainer on a cluster and an object-store server of this machine."""

import base64
import contextlib
import json
import os
from functools import partial
from urllib.parse import urlsplit

import pytest

from s3_bucket import s3_bucket

BUCKET = "s3://physics/gan"
NAMESPACE = "cloudgan"
ON_CLUSTER = (
    *("--provider=kubernetes", f"--store={BUCKET}", "--kubernetes-secrets=s3-login"),
    *("--cpus=1", "--nodes=2", "--yes", "--json"),
)
"""Flags of a deployment of two pods."""
LOGIN = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "planted-secret"}


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """A few hundred showers as a store."""
    from cloudgan.data.convert import convert
    from cloudgan.data.hdf5_writer import write_hdf5
    from cloudgan.simulation.gflash import simulate

    folder = tmp_path_factory.mktemp("showers")
    write_hdf5(folder / "showers.h5", simulate(320, seed=1, cells=(9, 9), block=50))
    convert(str(folder / "showers.h5"), folder / "shards")
    return folder / "shards"


@pytest.fixture
def here(tmp_path, monkeypatch, plain_model):
    """The folder in which the user types; it holds plain.yaml, and no wheel is downloaded."""
    from cloudgan.launch.lifecycle.wheels import cache_folder, own_wheel

    # The emulated image of TensorFlow has the dependencies of cloudgan.
    monkeypatch.setattr(
        "cloudgan.launch.operations.deployment.all_wheels", lambda *_: (own_wheel(cache_folder()),)
    )
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "plain.yaml").write_text(json.dumps({"model": plain_model}))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def s3_server():
    """A real S3 server; this process and the pods log in to it."""
    with s3_bucket("physics", LOGIN["AWS_SECRET_ACCESS_KEY"]):
        yield os.environ["AWS_ENDPOINT_URL"]


@contextlib.contextmanager
def with_login(cluster, s3_server, monkeypatch, kubeconfig):
    """A cluster with the bucket's login as a secret, and a kubeconfig of full rights."""
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.launch.kubernetes.kubeconfig import connect
    from emulators.kubernetes import RCLONE, python_image, rclone_image

    names = ("tensorflow/tensorflow:2.21.0", "python:3.11-slim", "lab/gan:1")
    images = {name: python_image() for name in names}
    images[RCLONE] = rclone_image()
    with cluster(images=images) as made:
        monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig(kubeconfig)))
        with connect(None) as client:
            api = ClusterApi(client)
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            api.create("/api/v1/namespaces", body)
            login = LOGIN | {"AWS_ENDPOINT_URL": s3_server, "AWS_DEFAULT_REGION": "us-east-1"}
            data = {key: base64.b64encode(value.encode()).decode() for key, value in login.items()}
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s3-login"},
                "data": data,
            }
            api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", body)
        yield made


@pytest.fixture
def cluster(tmp_path, monkeypatch, s3_server):
    """The double of a cluster of two nodes."""
    from emulators.kubernetes import local_cluster

    run = partial(local_cluster, nodes=2, root=tmp_path)
    with with_login(run, s3_server, monkeypatch, tmp_path / "kubeconfig") as made:
        yield made


@pytest.fixture
def real(tmp_path, monkeypatch, s3_server):
    """The real control plane with two nodes, where it was built."""
    from realcluster.cluster import real_cluster

    store = urlsplit(s3_server).port
    run = partial(real_cluster, nodes=2, root=tmp_path, host_ports=(store,))
    with with_login(run, s3_server, monkeypatch, tmp_path / "kubeconfig") as made:
        yield made


def pods_of(cluster, prefix):
    """Returns the pods of a worker, by the beginning of their names."""
    found = cluster.select("pods", NAMESPACE)
    return [one for one in found if one["metadata"]["name"].startswith(prefix)]
