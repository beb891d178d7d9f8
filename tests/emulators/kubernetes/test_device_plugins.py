"""GPUs are allocatable only where a device plugin can run."""

from __future__ import annotations

import pytest

from cloudgan.launch.kubernetes.manifests import GPU_NODE, device_plugin_step

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SPOT = {"key": "kubernetes.azure.com/scalesetpriority", "value": "spot", "effect": "NoSchedule"}


@pytest.fixture
def install(connect):
    from kubernetes import client

    def run():
        apps = client.AppsV1Api(connect())
        return apps.create_namespaced_daemon_set("kube-system", device_plugin_step().body)

    return run


def shown(cluster, name):
    return cluster.find("nodes", None, name)["status"]["allocatable"].get("nvidia.com/gpu")


def test_a_tainted_node_shows_its_gpus_when_the_plugin_is_there(cluster, install):
    cluster.add_node("gpu", hidden_gpus=4, labels=GPU_NODE, taints=[GPU, SPOT])
    assert shown(cluster, "gpu") is None
    install()
    assert cluster.wait_for(lambda: shown(cluster, "gpu")) == "4"
    cluster.add_node("later", hidden_gpus=8, labels=GPU_NODE, taints=[GPU])
    assert cluster.wait_for(lambda: shown(cluster, "later")) == "8"
    (plugin,) = cluster.select("daemonsets")
    assert plugin["status"]["numberReady"] == 2


def test_nodes_of_others_and_unknown_taints_keep_it_away(cluster, install):
    other = {"key": "team", "value": "other", "effect": "NoSchedule"}
    cluster.add_node("foreign", hidden_gpus=4, taints=[GPU])
    cluster.add_node("closed", hidden_gpus=4, labels=GPU_NODE, taints=[GPU, other])
    cluster.add_node("open", hidden_gpus=4, labels=GPU_NODE, taints=[GPU])
    install()
    cluster.wait_for(lambda: shown(cluster, "open"))
    assert shown(cluster, "foreign") is None
    assert shown(cluster, "closed") is None
