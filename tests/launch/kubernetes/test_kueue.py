"""What a run in a queue says, by what Kueue 0.17 writes into its Workload."""

import pytest

from cloudgan.launch.kubernetes.extensions import in_queue
from cloudgan.schema.run_state import RunState

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
    assert "was suspended with another program" in in_queue(RunState("waiting"), job, None).reason
