"""A subscription from setup to nothing, on the stand-in."""

from __future__ import annotations

from cloudgan.launching.ledger import Ledger
from cloudgan.launching.starting import start
from cloudgan.run_folder import RunFolder


def deploy(lab, **changes):
    plan = lab.plan(**changes)
    ledger = Ledger(RunFolder(lab.folder / "runs" / plan.run), plan)
    start(plan, lab.provider(), ledger, lab.said.append)
    return plan


def test_a_run_is_made_found_and_removed_and_what_all_runs_share_stays(lab):
    plan = deploy(lab, nodes=2)
    cloud = lab.cloud()
    pool, cluster, system, *_ = sorted(cloud.things(), key=lambda one: one.rank)
    assert (pool.run, pool.nodes, pool.market, pool.state) == ("gan", 2, "on_demand", "ready")
    assert pool.labels == plan.labels().as_dict()
    assert (system.nodes, system.node_type) == (1, "Standard_D2_v2"), "it bills as well"
    assert cluster.shared == "cluster"
    assert {one.run for one in cloud.things("gan")} == {"gan"}
    assert cloud.things("another") == ()
    provider = lab.provider()
    assert provider.state("gan").phase in ("waiting", "running")
    assert len(provider.nodes("gan")) == 2
    assert list(provider.remove("gan"))
    left = lab.cloud().things()
    assert {one.shared for one in left} == {"bucket", "identity", "group"}
    assert lab.azure.aks.clusters == {}
    assert list(lab.provider().remove("gan")) == [], "twice is fine"
