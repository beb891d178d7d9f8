"""What a run says of Kueue's queue and GKE's request for nodes, and how a plan asks for nodes together."""

import pytest

from cloudgan.launch.kubernetes.extensions import in_queue, progress, requested_by
from cloudgan.schema.run_state import RunState
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


FULL = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor nodes, 1 more needed"
CHECKS = "The workload has not all checks ready"
WAITS = "waits in queue physics until Kueue admits it"
OVER = ("Evicted", "True", "DeactivatedDueToMaximumExecutionTimeExceeded", "exceeding the maximum")


def workload(*conditions, active=True):
    names = ("type", "status", "reason", "message")
    listed = [dict(zip(names, one, strict=True)) for one in conditions]
    return {"spec": {"active": active}, "status": {"conditions": listed}}


@pytest.mark.parametrize(
    ("made", "phase", "reason", "cause"),
    [
        (None, "waiting", WAITS, ""),
        (workload(), "waiting", WAITS, ""),
        (
            workload(("QuotaReserved", "False", "Pending", f"{FULL}\n")),
            *("waiting", f"{WAITS} ({FULL})", ""),
        ),
        (
            workload(
                ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue lab"),
                ("Admitted", "False", "UnsatisfiedChecks", CHECKS),
            ),
            *("waiting", f"{WAITS} ({CHECKS})", ""),
        ),
        (
            workload(
                ("QuotaReserved", "False", "Pending", "The workload is deactivated"), active=False
            ),
            "waiting",
            "was deactivated in queue physics; an administrator of Kueue activates it (The workload is deactivated)",
            "",
        ),
        (
            workload(("QuotaReserved", "False", "Pending", "deactivated"), OVER, active=False),
            *("failed", "its deadline of 90 s has passed", "deadline"),
        ),
    ],
    ids=["unknown", "new", "full", "checks", "deactivated", "deadline"],
)
def test_a_suspended_run_has_the_words_of_its_queue(made, phase, reason, cause):
    labels = {"kueue.x-k8s.io/queue-name": "physics"}
    job = {"metadata": {"labels": labels}, "spec": {"activeDeadlineSeconds": 90}}
    found = in_queue(RunState("waiting"), job, made)
    assert (found.phase, found.reason, found.cause) == (phase, reason, cause)


def test_a_run_that_somebody_suspended_has_no_queue():
    job = {"metadata": {}, "spec": {"suspend": True}}
    why = in_queue(RunState("waiting"), job, None).reason
    assert "was suspended with another program; Kueue starts none without --queue" in why
