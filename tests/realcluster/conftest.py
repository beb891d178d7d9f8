"""Clients of the double and of the real control plane."""

from __future__ import annotations

import contextlib

import pytest

from emulators.kubernetes import Image
from launch.backends.kubernetes.lab import IMAGE


@pytest.fixture
def connect(cluster, tmp_path):
    """Returns what runs a cluster of two nodes, and gives clients of its core and its batch API."""
    kubernetes = pytest.importorskip("kubernetes")

    @contextlib.contextmanager
    def run(**options):
        known = {"nodes": 2, "images": {"none": Image(), IMAGE: Image()}, "root": tmp_path}
        with cluster(**known | options) as made:
            kubeconfig = str(made.kubeconfig(tmp_path / "kubeconfig"))
            with kubernetes.config.new_client_from_config(kubeconfig) as client:
                yield kubernetes.client.CoreV1Api(client), kubernetes.client.BatchV1Api(client)

    return run


@pytest.fixture
def apis(connect):
    with connect() as clients:
        yield clients
