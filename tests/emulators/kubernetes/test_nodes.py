"""Scheduling, and pods of lost nodes."""

from __future__ import annotations

import json

import pytest

from emulators.kubernetes.scheduler import tolerates


def gpus(count):
    return {"resources": {"limits": {"nvidia.com/gpu": str(count)}}}


def unschedulable(cluster):
    """Waits for a pod that fits on no node and returns the scheduler's message."""

    def found():
        for pod in cluster.select("pods"):
            for one in pod["status"].get("conditions", []):
                if (one["type"], one.get("reason")) == ("PodScheduled", "Unschedulable"):
                    return one["message"]
        return None

    return cluster.wait_for(found)


def ready(found):
    return next(one for one in found["status"]["conditions"] if one["type"] == "Ready")


def nodes_of(cluster):
    return sorted(pod["spec"].get("nodeName", "") for pod in cluster.select("pods"))


def test_pods_spread_over_nodes_and_wait_for_gpus(cluster, make_job, wait_for_phase, wait_for_job):
    mark = cluster.root / "go"
    make_job(f"while [ ! -e {mark} ]; do sleep 0.02; done", workers=3, container=gpus(3))
    wait_for_phase("Running", 2)
    assert unschedulable(cluster) == (
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are "
        "available: 2 No preemption victims found for incoming pod."
    )
    assert nodes_of(cluster) == ["", "node-0", "node-1"]
    events = [one for one in cluster.select("events") if one["reason"] == "FailedScheduling"]
    assert [(one["type"], one["count"]) for one in events] == [("Warning", 1)]
    mark.touch()
    assert wait_for_job()["type"] == "Complete", "the third went where one had ended"


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        ({"nodeSelector": {"pool": "x"}}, "2 node(s) didn't match Pod's node affinity/selector"),
        ({"tolerations": []}, ""),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "no"}}]}, "not found"),
    ],
)
def test_a_pod_that_fits_nowhere_says_why(cluster, make_job, wait_for_phase, pod, message):
    make_job(workers=1, pod=pod)
    if message:
        assert message in unschedulable(cluster)
    else:
        wait_for_phase("Succeeded")


def test_taints_keep_pods_away_that_do_not_tolerate_them(cluster, make_job, wait_for_phase):
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    cluster.add_node("node-gpu", gpus=8, taints=[taint])
    make_job("exec sleep 60", workers=1, container=gpus(8))
    assert unschedulable(cluster) == (
        "0/3 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, "
        "2 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: "
        "1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    make_job("exec sleep 60", "second", 1, {"tolerations": [toleration]}, gpus(8))
    (pod,) = wait_for_phase("Running")
    assert pod["spec"]["nodeName"] == "node-gpu"


def test_a_toleration_without_an_effect_tolerates_all():
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    assert tolerates([{"key": "spot", "operator": "Equal", "value": "true"}], taint)
    assert tolerates([{"operator": "Exists"}], taint)
    assert not tolerates([{"key": "spot", "operator": "Equal", "value": "no"}], taint)
    assert not tolerates([{"key": "spot", "operator": "Exists", "effect": "NoExecute"}], taint)


def test_a_gang_of_whole_nodes_has_one_pod_on_each(cluster, make_job, wait_for_phase):
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"job-name": "gan"}},
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    make_job("exec sleep 60", workers=3, pod={"affinity": apart})
    wait_for_phase("Running", 2)
    assert "2 node(s) didn't match pod anti-affinity rules" in unschedulable(cluster)
    cluster.add_node("node-2")
    wait_for_phase("Running", 3)
    assert nodes_of(cluster) == ["node-0", "node-1", "node-2"]


def test_the_pods_of_a_lost_node_are_replaced_elsewhere(
    cluster, core, make_job, wait_for_phase, wait_for_job
):
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    make_job(
        f"while [ ! -e {cluster.root}/go ]; do sleep 0.02; done",
        podFailurePolicy={"rules": [ignored]},
        backoffLimit=0,
    )
    wait_for_phase("Running", 2)
    version = core.list_namespaced_pod("default").metadata.resource_version
    lost = next(pod for pod in cluster.select("pods") if pod["spec"]["nodeName"] == "node-1")
    cluster.lose_node("node-1")
    cluster.wait_for(lambda: cluster.find("nodes", None, "node-1") is None)
    cluster.wait_for(lambda: nodes_of(cluster) == ["node-0", "node-0"])
    (cluster.root / "go").touch()
    assert wait_for_job()["type"] == "Complete"
    seen = core.list_namespaced_pod(
        "default",
        watch=True,
        resource_version=version,
        timeout_seconds=1,
        field_selector=f"metadata.name={lost['metadata']['name']}",
        _preload_content=False,
    )
    outcome = [json.loads(line)["object"]["status"] for line in seen.read().splitlines()]
    reasons = [
        one["reason"]
        for status in outcome
        for one in status["conditions"]
        if one["type"] == "DisruptionTarget"
    ]
    assert list(dict.fromkeys(reasons)) == ["DeletionByTaintManager", "DeletionByPodGC"]
    assert outcome[-1]["phase"] == "Failed"


def test_a_lost_node_is_silent_at_first(cluster, core, make_job, wait_for_phase):
    from kubernetes.client import ApiException

    make_job("echo $$$$; exec sleep 60", workers=1)
    (pod,) = wait_for_phase("Running")
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    cluster.lose_node(node, unknown_seconds=0.2, evict_seconds=60)
    assert cluster.find("pods", "default", name)["status"]["phase"] == "Running"
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_pod_log(name, "default")
    assert "no route to host" in refused.value.body
    cluster.wait_for(lambda: ready(cluster.find("nodes", None, node))["status"] == "Unknown")
    assert ready(cluster.find("pods", "default", name))["status"] == "False"
    assert cluster.find("pods", "default", name)["status"]["phase"] == "Running"


def test_a_spot_machine_is_announced_before_it_is_gone(
    cluster, make_job, wait_for_phase, wait_for_job
):
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    saves = f"trap 'touch {cluster.root}/saved; exit 75' TERM; "
    make_job(
        f"{saves} echo up; while [ ! -e {cluster.root}/saved ]; do sleep 0.02; done",
        workers=1,
        podFailurePolicy={"rules": [ignored]},
        backoffLimit=0,
    )
    (pod,) = wait_for_phase("Running")
    cluster.wait_for(lambda: cluster.log("default", pod["metadata"]["name"]))
    cluster.reclaim_node(pod["spec"]["nodeName"], notice_seconds=0.5)
    assert wait_for_job()["type"] == "Complete"
    other = next(one for one in cluster.select("pods") if one["status"]["phase"] == "Succeeded")
    assert other["spec"]["nodeName"] != pod["spec"]["nodeName"]
    cluster.wait_for(lambda: len(cluster.select("nodes")) == len(cluster.select("pods")) == 1)
