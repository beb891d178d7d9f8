"""Requests for all nodes at once: what GKE says about one, and how a plan asks for it."""

import pytest

from cloudgan.launch.kubernetes.extensions import progress, requested_by
from launch.clouds.gcp.lab import gcp_plan


def condition(kind, status="True", reason="", message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], ("nodes are requested, and none is available yet", False)),
        ([condition("Accepted")], ("nodes are requested, and none is available yet", False)),
        (
            [condition("Provisioned", "False", "QuotaExceeded", "Quota 'A' exceeded. Limit: 1.0")],
            ("nodes are requested: QuotaExceeded: Quota 'A' exceeded. Limit: 1.0", False),
        ),
        ([condition("Accepted"), condition("Provisioned")], ("", False)),
        (
            [condition("Failed", "True", "OutOfCapacity", "no\n H100")],
            ("the request for nodes has the condition Failed: OutOfCapacity: no H100", True),
        ),
        (
            [condition("Provisioned"), condition("BookingExpired")],
            ("the request for nodes has the condition BookingExpired", True),
        ),
        (
            [condition("Provisioned"), condition("CapacityRevoked")],
            ("the request for nodes has the condition CapacityRevoked", True),
        ),
    ],
)
def test_each_condition_is_explained(conditions, expected):
    assert progress({"status": {"conditions": conditions}}) == expected


def bodies(plan):
    return {
        one.body["kind"]: one.body
        for one in plan.steps
        if isinstance(one.body, dict) and "kind" in one.body
    }


def test_several_flex_start_nodes_with_gpus_are_requested_together():
    plan = gcp_plan("a3-highgpu-1g", flex_start=True, max_hours=10, nodes=2)
    found = bodies(plan)
    request, template, job = (found[one] for one in ("ProvisioningRequest", "PodTemplate", "Job"))
    assert request["spec"] == {
        "provisioningClassName": "queued-provisioning.gke.io",
        "parameters": {"maxRunDurationSeconds": str(10 * 3600 + 1200 + 1800)},
        "podSets": [{"count": 2, "podTemplateRef": {"name": "gan"}}],
    }
    assert template["metadata"]["labels"]["cloud.google.com/apply-warden-policies"] == "true"
    assert template["template"]["spec"] == job["spec"]["template"]["spec"]
    assert requested_by(job) == "gan"
    kinds = [one.ensure.split()[0] for one in plan.steps if one.at == "cluster"]
    assert kinds[-3:] == ["Secret", "PodTemplate", "ProvisioningRequest"], "the Job owns them"
    assert "WAIT" not in {one.method for one in plan.steps}


@pytest.mark.parametrize("changes", [{"nodes": 1, "flex_start": True}, {"nodes": 2}])
def test_other_nodes_are_not(changes):
    plan = gcp_plan("a3-highgpu-8g", max_hours=10, **changes)
    assert not {"ProvisioningRequest", "PodTemplate"} & set(bodies(plan))
    assert requested_by(bodies(plan)["Job"]) is None
