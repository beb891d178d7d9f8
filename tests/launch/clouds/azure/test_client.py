"""A subscription from `setup` to the deletion of all resources, on the emulator."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import CredentialsError
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.schema.run_folder import RunFolder

NEW_CLUSTER = "cloudgan.launch.lifecycle.provisioned_backend._NEW_CLUSTER_SECONDS"


def deploy(lab, **changes):
    plan = lab.plan(**changes)
    ledger = LaunchLog(RunFolder(lab.folder / "runs" / plan.run), plan)
    apply(plan, lab.provider(), ledger, lab.said.append)
    return plan


def test_a_run_is_made_found_and_removed_and_what_all_runs_share_stays(lab):
    plan = deploy(lab, nodes=2)
    cloud = lab.cloud()
    pool, cluster, system, *_ = sorted(cloud.list_resources(), key=lambda one: one.deletion_order)
    assert (pool.run, pool.nodes, pool.market, pool.state) == ("gan", 2, "on_demand", "ready")
    assert pool.labels == plan.labels().as_dict()
    assert (system.nodes, system.node_type) == (1, "Standard_D2s_v3"), "it bills as well"
    assert cluster.shared == "cluster"
    assert {one.run for one in cloud.list_resources("gan")} == {"gan"}
    assert cloud.list_resources("another") == ()
    provider = lab.provider()
    assert provider.state("gan").phase in ("waiting", "starting", "running")
    assert len(provider.nodes("gan")) == 2
    assert list(provider.destroy("gan"))
    left = lab.cloud().list_resources()
    assert {one.shared for one in left} == {"bucket", "identity", "group"}
    assert lab.azure.aks.clusters == {}
    assert list(lab.provider().destroy("gan")) == [], "twice is fine"


def test_without_rights_in_the_cluster_no_pool_is_created_and_nothing_is_left(lab, monkeypatch):
    monkeypatch.setattr(NEW_CLUSTER, 0.1)
    lab.azure.aks.rules = []
    with pytest.raises(CredentialsError, match=r"create namespaces.*cloudgan launcher"):
        deploy(lab)
    assert lab.azure.aks.clusters == {}
    asked = [step.path for step in lab.plan().steps if "/agentPools/" in step.path]
    assert asked
    assert not [one for one in lab.azure.arm.held() if "agentpools" in one.lower()]
