"""TPU nodes of GKE: the pool of a slice, the Job on its hosts, and what is refused."""

import pytest

from cloudgan.core.errors import PlanError
from cloudgan.schema.config import parse_config
from launch.clouds.gcp.lab import gcp_plan
from launch.clouds.lab import of_cloud

JAX = {"engine": "jax"}


def on_tpus(plan, node_type, nodes, **asked):
    """A plan of a training with JAX on TPU nodes."""
    training = JAX | ({"strategy": "multiworker", "workers": nodes} if nodes > 1 else {})
    config = parse_config({"name": "gan", "data": {"path": "x"}, "training": training}, "a test")
    return plan(node_type, nodes=nodes, config=config, **asked)


@pytest.mark.parametrize(
    ("node_type", "nodes", "topology", "chips", "label"),
    [
        ("ct5lp-hightpu-1t", 1, "1x1", 1, "tpu-v5-lite-podslice"),
        ("ct5lp-hightpu-8t", 1, "2x4", 8, "tpu-v5-lite-podslice"),
        ("ct5lp-hightpu-4t", 2, "2x4", 4, "tpu-v5-lite-podslice"),
        ("ct5lp-hightpu-4t", 4, "4x4", 4, "tpu-v5-lite-podslice"),
        ("ct5p-hightpu-4t", 1, "2x2x1", 4, "tpu-v5p-slice"),
        ("ct5p-hightpu-4t", 16, "4x4x4", 4, "tpu-v5p-slice"),
        ("ct6e-standard-8t", 1, "2x4", 8, "tpu-v6e-slice"),
        ("ct6e-standard-4t", 64, "16x16", 4, "tpu-v6e-slice"),
    ],
)
def test_a_slice_is_a_pool_of_all_its_hosts_and_a_job_with_a_pod_on_each(
    node_type, nodes, topology, chips, label
):
    plan = on_tpus(gcp_plan, node_type, nodes)
    pool = of_cloud(plan)[-1].body["nodePool"]
    policy = {"type": "COMPACT", "tpuTopology": topology} if nodes > 1 else None
    assert (pool["config"]["machineType"], pool.get("placementPolicy")) == (node_type, policy)
    assert (pool["initialNodeCount"], pool["autoscaling"]["maxNodeCount"]) == (nodes, nodes)
    assert "accelerators" not in pool["config"], "GPUs only"
    job = next(step.body for step in plan.steps if (step.body or {}).get("kind") == "Job")
    pod = job["spec"]["template"]["spec"]
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (nodes, nodes)
    selected = {
        "cloud.google.com/gke-tpu-accelerator": label,
        "cloud.google.com/gke-tpu-topology": topology,
    }
    assert pod["nodeSelector"].items() >= selected.items()
    trainer = next(one for one in pod["containers"] if one["name"] == "trainer")
    assert trainer["resources"]["limits"]["google.com/tpu"] == str(chips)
    assert trainer["resources"]["requests"]["google.com/tpu"] == str(chips)
    assert {"google.com/tpu", "cloudgan-run"} <= {one["key"] for one in pod["tolerations"]}
    service = next(step.body for step in plan.steps if (step.body or {}).get("kind") == "Service")
    assert (service["spec"]["clusterIP"], pod["subdomain"]) == ("None", plan.run)
    assert plan.price is None
    assert plan.cost is None, "unknown, which is not zero"


def test_google_makes_the_pool_and_its_quota_is_that_of_the_chips(lab, google, cloud):
    google.compute.quotas |= {"TPU_LITE_PODSLICE_V5": 8.0}
    plan = on_tpus(lab.plan, "ct5lp-hightpu-4t", 4)
    found = {one.subject: one for one in cloud.check(plan)}
    quota = found["quota TPU_LITE_PODSLICE_V5 in us-central1"]
    assert (quota.status, "8 left and 16 needed" in quota.message) == ("missing", True)
    assert not any("GPU" in subject for subject in found)
    lab.make(plan)
    (pool,) = (one for one in google.engine.pools() if one["name"].startswith("gan"))
    assert pool["placementPolicy"]["tpuTopology"] == "4x4"
    lab.remove("gan")
    assert lab.left() == ["cluster cloudgan"]


def test_the_quotas_of_newer_chips_are_unknown_and_named(lab, cloud):
    found = [
        one for one in cloud.check(on_tpus(lab.plan, "ct6e-standard-4t", 1)) if "TPU" in one[0]
    ]
    assert [one.status for one in found] == ["unknown"]
    assert "TPUS-PER-TPU-FAMILY-per-project-region (tpu_family CT6E)" in found[0].subject


@pytest.mark.parametrize(
    ("nodes", "asked", "said"),
    [
        (3, {}, r"give --nodes=N, where N is 1 \(2x2\), 2 \(2x4\), 4 \(4x4\)"),
        (4, {"flex_start": True}, "--flex-start: not built for TPU nodes of GKE"),
        (4, {"keep_seconds": 600.0}, "--keep-nodes: not built"),
        (4, {"reservation": "week"}, "--reservation: not built"),
    ],
)
def test_what_is_no_slice_or_not_built_is_refused(nodes, asked, said):
    with pytest.raises(PlanError, match=said):
        on_tpus(gcp_plan, "ct5lp-hightpu-4t", nodes, **asked)


def test_tensorflow_is_refused_there_before_anything_is_created():
    with pytest.raises(PlanError, match=r"-- train --engine=jax, or a Cloud TPU VM such as"):
        gcp_plan("ct5lp-hightpu-4t")
