"""Fixtures: a cluster per test and its official client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulators.kubernetes import local_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emulators.kubernetes import Cluster


@pytest.fixture
def cluster(tmp_path, request) -> Iterator[Cluster]:
    """A cluster of two nodes; its parameter, if any, are further options."""
    options = getattr(request, "param", {})
    with local_cluster(nodes=2, gpus=4, root=tmp_path, **options) as running:
        yield running


@pytest.fixture
def connect(cluster, tmp_path) -> Iterator[Callable[..., Any]]:
    """Returns a function that opens a client with a token."""
    from kubernetes import client, config

    opened = []

    def open_client(token=None, retries=None):
        path = cluster.kubeconfig(tmp_path / f"kubeconfig-{len(opened)}", token)
        settings = client.Configuration()
        config.load_kube_config(str(path), client_configuration=settings)
        settings.retries = retries
        opened.append(client.ApiClient(settings))
        return opened[-1]

    yield open_client
    for one in opened:
        one.rest_client.pool_manager.clear()


@pytest.fixture
def core(connect):
    from kubernetes import client

    return client.CoreV1Api(connect())


@pytest.fixture
def batch(connect):
    from kubernetes import client

    return client.BatchV1Api(connect())


@pytest.fixture
def make_job(batch, cluster) -> Callable[..., dict[str, Any]]:
    """Returns a function that makes an Indexed Job of shell scripts."""

    def make(script="true", name="gan", workers=2, pod=(), container=(), **spec):
        main = {"name": "trainer", "image": "busybox:1", "command": ["sh", "-c", script]}
        main |= dict(container)
        template = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5} | dict(pod)
        template["containers"] = [main]
        counts = {"parallelism": workers, "completions": workers, "completionMode": "Indexed"}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": counts | {"template": {"spec": template}} | spec,
        }
        batch.create_namespaced_job("default", body)
        return body

    return make


@pytest.fixture
def wait_for_job(cluster) -> Callable[..., dict[str, Any]]:
    """Returns a function that waits for the final condition of a Job and returns it."""

    def wait(name="gan", kinds=("Complete", "Failed")):
        def last():
            found = cluster.find("jobs", "default", name) or {"status": {}}
            for one in found["status"].get("conditions", []):
                if one["type"] in kinds and one["status"] == "True":
                    return one
            return None

        return cluster.wait_for(last)

    return wait


@pytest.fixture
def wait_for_phase(cluster) -> Callable[..., dict[str, Any]]:
    """Returns a function that waits until so many pods are in a phase and returns them."""

    def wait(phase, count=1):
        def found():
            pods = [one for one in cluster.select("pods") if one["status"]["phase"] == phase]
            return pods if len(pods) == count else None

        return cluster.wait_for(found)

    return wait


@pytest.fixture
def run_pod(core, cluster):
    """Returns a function that makes a pod of one shell script."""

    def run(script, name="p", pod=(), **container):
        main = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", script]} | container
        spec = {"restartPolicy": "Never", "containers": [main]} | dict(pod)
        core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})

    return run
