"""Before several workers start, pods test whether a NetworkPolicy has an effect."""

import pytest

from cloudgan.core.errors import OpenPortsError
from cloudgan.launch.kubernetes.manifests import PROBE
from launch.backends.kubernetes.lab import NAMESPACE, plan_of

SUSPENDED = r"Job gan-ports,.* was suspended: Kueue starts no Job of .* cloudgan without.*--queue="
ENGINE, NO_ENGINE = {"enforces_policies": True}, {"enforces_policies": False}


def probed(settle_seconds="0", nodes=2, **changes):
    """Returns a plan with a port probe that gives a cluster so long to apply its policy."""
    plan = plan_of(workers={"nodes": nodes, "allow_open_ports": False}, **changes)
    for step in plan.steps:
        if step.ensure == "Job gan-ports":
            (container,) = step.body["spec"]["template"]["spec"]["containers"]
            container["command"][3] = settle_seconds
    return plan


def test_a_run_starts_where_the_policy_keeps_others_from_its_ports(make_lab, begin):
    lab, plan = make_lab(**ENGINE), probed("20")
    (job,) = (step.body for step in plan.steps if step.ensure == "Job gan-ports")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    # Pods that end only by SIGKILL: the Job exists for a second after its deletion.
    container["command"][2] = (
        f"import signal; signal.signal(15, signal.SIG_IGN)\n{container['command'][2]}"
    )
    assert begin(lab, plan)
    assert "created Job gan-ports" in lab.said
    kept = {one for one in lab.remaining() if not one.startswith("pods/")}
    kinds = ("configmaps", "networkpolicies", "services", "jobs", "secrets")
    assert kept == {f"{kind}/gan" for kind in kinds}


def test_a_run_is_refused_and_deleted_where_others_reach_its_ports(make_lab, begin):
    lab = make_lab(**NO_ENGINE)
    with pytest.raises(OpenPortsError, match=r"does not enforce NetworkPolicy.*--allow-open-ports"):
        begin(lab, probed())
    assert OpenPortsError.exit_code == 2
    lab.cluster.wait_for(lambda: not lab.remaining())
    assert "created Job gan" not in lab.said, "no worker was started"


def test_a_run_is_refused_if_the_test_does_not_finish(make_lab, begin):
    lab = make_lab(images={})
    with pytest.raises(OpenPortsError, match=r"unknown: Job gan-ports did not finish.*Pull"):
        begin(lab, probed(gang_timeout_seconds=2.0))
    lab.cluster.wait_for(lambda: not lab.remaining())


def test_a_run_is_refused_at_once_if_the_test_is_suspended_outside_a_queue(make_lab, begin):
    """As Kueue does where it manages every Job; tests of queues run Kueue itself."""
    lab, plan = make_lab(**NO_ENGINE), probed()
    for step in plan.steps:
        if step.ensure == "Job gan-ports":
            step.body["spec"]["suspend"] = True
    with pytest.raises(OpenPortsError, match=SUSPENDED):
        begin(lab, plan)
    lab.cluster.wait_for(lambda: not lab.remaining())


def test_an_unfinished_test_is_continued(make_lab, begin):
    lab, plan = make_lab(**ENGINE), probed("20")
    for step in plan.steps:
        if step.method == PROBE:
            break
        lab.backend.ensure(step, plan)
    assert lab.cluster.find("jobs", NAMESPACE, "gan-ports")
    assert begin(lab, plan)
    assert "created Job gan-ports" not in lab.said


@pytest.mark.parametrize("nodes", [1, 2])
def test_only_several_workers_open_ports_that_need_the_test(nodes):
    methods = [step.method for step in probed(nodes=nodes).steps]
    assert (PROBE in methods) == (nodes > 1)
