"""Indexed Jobs from start to end."""

from __future__ import annotations

import itertools
import signal

import pytest

IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
POLICY = {
    "rules": [
        IGNORED,
        {
            "action": "Ignore",
            "onExitCodes": {"containerName": "trainer", "operator": "In", "values": [75, 137, 143]},
        },
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "trainer", "operator": "NotIn", "values": [0]},
        },
    ]
}

BY_INDEX = {"rules": [IGNORED | {"action": "FailIndex"}]}


def names(pods):
    return [pod["metadata"]["name"] for pod in pods]


def test_each_index_runs_once_and_the_job_is_complete(cluster, core, make_job, wait_for_job):
    make_job(
        "echo rank $JOB_COMPLETION_INDEX on $HOSTNAME of $RUN",
        container={
            "env": [{"name": "RUN", "value": "index-$(JOB_COMPLETION_INDEX)"}],
        },
    )
    assert wait_for_job()["reason"] == "CompletionsReached"
    status = cluster.find("jobs", "default", "gan")["status"]
    assert (status["succeeded"], status["completedIndexes"]) == (2, "0,1")
    assert status["startTime"] <= status["completionTime"]
    pods = core.list_namespaced_pod("default", label_selector="job-name=gan").items
    logs = [core.read_namespaced_pod_log(pod.metadata.name, "default") for pod in pods]
    assert logs == [
        f"rank {index} on gan-{index} of index-$(JOB_COMPLETION_INDEX)\n" for index in (0, 1)
    ]
    for index, pod in enumerate(pods):
        stem, _, random = pod.metadata.name.rpartition("-")
        assert (stem, len(random)) == (f"gan-{index}", 5)
        assert pod.spec.hostname == stem
        label = "batch.kubernetes.io/job-completion-index"
        assert pod.metadata.labels[label] == pod.metadata.annotations[label] == str(index)
        assert pod.status.phase == "Succeeded"
        assert not pod.metadata.finalizers


@pytest.mark.parametrize(
    ("code", "reason"), [(3, "PodFailurePolicy"), (76, "PodFailurePolicy"), (75, None)]
)
def test_the_failure_policy_decides_by_exit_code(
    cluster, make_job, wait_for_job, *, tmp_path, code, reason
):
    mark = tmp_path / "mark"
    script = (
        f"[ $JOB_COMPLETION_INDEX = 1 ] && [ ! -e {mark} ] && touch {mark} && exit {code}; true"
    )
    make_job(script, podFailurePolicy=POLICY, backoffLimit=0)
    last = wait_for_job()
    if reason is None:
        assert last["type"] == "Complete"
        status = cluster.find("jobs", "default", "gan")["status"]
        assert "failed" not in status, "what is ignored does not count"
    else:
        assert (last["type"], last["reason"]) == ("Failed", reason)
        assert f"failed with exit code {code} matching FailJob rule at index 2" in last["message"]


def test_too_many_failures_end_the_job(cluster, make_job, wait_for_job):
    make_job("exit 4", workers=1, backoffLimit=1)
    assert wait_for_job()["reason"] == "BackoffLimitExceeded"
    assert cluster.find("jobs", "default", "gan")["status"]["failed"] == 2
    events = [event["reason"] for event in cluster.select("events")]
    assert "BackoffLimitExceeded" in events


SCALE = 0.03
LATER = "while [ ! -e {0}-1 ]; do sleep 0.05; done; sleep 0.1; exit 0"
SUCCEEDS = "[ $JOB_COMPLETION_INDEX = 1 ] && exit 4; " + LATER
ONE = "[ $JOB_COMPLETION_INDEX = 0 ] || exit 4"
AT_ONCE = {"backoffLimitPerIndex": 1, "maxFailedIndexes": 0}
ENDS = {"podFailurePolicy": POLICY, "activeDeadlineSeconds": 3}


@pytest.mark.parametrize("cluster", [{"backoff_scale": SCALE}], indirect=True)
@pytest.mark.parametrize(
    ("workers", "script", "spec", "pauses", "reason"),
    [
        (1, "exit 4", {"backoffLimit": 2}, [10, 20], "BackoffLimitExceeded"),
        (2, "exit 4", {"backoffLimit": 5}, [20, 80], "BackoffLimitExceeded"),
        (2, SUCCEEDS, {"backoffLimit": 3}, [None, 10, 20], "BackoffLimitExceeded"),
        (2, "exit 4", {"backoffLimitPerIndex": 2}, [10, 20], "FailedIndexes"),
        (2, ONE, AT_ONCE, [10], "MaxFailedIndexesExceeded"),
        (1, "exit 75", ENDS, [10, 20, 40], "DeadlineExceeded"),
        (2, "exit 75", {"backoffLimitPerIndex": 0} | ENDS, [10, 20, 40], "DeadlineExceeded"),
    ],
    ids=[
        *("one", "together", "after-success", "per-index", "failed-index"),
        *("ignored", "ignored-per-index"),
    ],
)
def test_a_failed_pod_is_replaced_after_the_back_off_of_the_real_controller(
    tmp_path, make_job, wait_for_job, *, workers, script, spec, pauses, reason
):
    """Each row was measured on the real Job controller of Kubernetes 1.37.2 (2026-11-25)."""
    starts = tmp_path / "starts"
    noted = f"date +%s.%N >> {starts}-$JOB_COMPLETION_INDEX; {script.format(starts)}"
    make_job(noted, workers=workers, **spec)
    assert wait_for_job()["reason"] == reason
    times = map(float, (tmp_path / f"starts-{workers - 1}").read_text().split())
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(gaps) == len(pauses)
    for gap, pause in zip(gaps, pauses, strict=True):
        assert not pause or 0.9 * pause * SCALE < gap < 1.5 * pause * SCALE + 0.5, gaps


def test_an_evicted_pod_stays_until_its_replacement_has_its_failure_count(
    cluster, make_job, wait_for_phase
):
    """https://kubernetes.io/docs/reference/labels-annotations-taints/ (read 2026-11-25)."""
    spec = {"podFailurePolicy": POLICY, "backoffLimitPerIndex": 3}
    make_job("exec sleep 60", workers=1, pod={"terminationGracePeriodSeconds": 0}, **spec)
    (first,) = names(wait_for_phase("Running"))
    cluster.evict("default", first)
    (failed,) = wait_for_phase("Failed")
    assert names([failed]) == [first]
    (second,) = wait_for_phase("Running")
    kept = second["metadata"]["annotations"]
    count = "batch.kubernetes.io/job-index{}failure-count"
    assert (kept[count.format("-")], kept[count.format("-ignored-")]) == ("0", "1")
    cluster.wait_for(lambda: first not in names(cluster.select("pods")))


def test_the_deadline_ends_pods_first_and_the_job_then(
    cluster, make_job, wait_for_job, wait_for_phase
):
    make_job(
        "trap 'sleep 0.3; exit 75' TERM; while :; do sleep 0.05; done", activeDeadlineSeconds=1
    )
    wait_for_phase("Running", 2)
    assert wait_for_job(kinds=["FailureTarget"])["reason"] == "DeadlineExceeded"
    found = cluster.find("jobs", "default", "gan")["status"]
    assert "Failed" not in [one["type"] for one in found["conditions"]]
    assert wait_for_job()["reason"] == "DeadlineExceeded"
    assert {pod["status"]["phase"] for pod in cluster.select("pods")} <= {"Failed"}


def test_a_suspended_job_has_no_pods_until_it_is_resumed(
    cluster, batch, make_job, wait_for_job, wait_for_phase
):
    make_job('[ -n "$LONG" ] && exec sleep 60; true', suspend=True)
    wait_for_job(kinds=["Suspended"])
    assert not cluster.select("pods")
    assert "startTime" not in cluster.find("jobs", "default", "gan")["status"]
    batch.patch_namespaced_job("gan", "default", {"spec": {"suspend": False}})
    assert wait_for_job()["type"] == "Complete"


def test_the_chiefs_success_ends_the_others(cluster, make_job, wait_for_job):
    rule = {"rules": [{"succeededIndexes": "0"}]}
    make_job("[ $JOB_COMPLETION_INDEX = 0 ] || exec sleep 60", successPolicy=rule)
    assert wait_for_job()["reason"] == "SuccessPolicy"
    assert cluster.find("jobs", "default", "gan")["status"]["completedIndexes"] == "0"


def test_a_finished_job_goes_after_its_time(cluster, make_job):
    make_job(ttlSecondsAfterFinished=0)
    cluster.wait_for(lambda: not cluster.select("jobs") and not cluster.select("pods"))


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
def test_a_pod_is_replaced_when_the_policy_says(cluster, make_job, wait_for_phase, policy):
    make_job(
        "trap 'sleep 0.4; exit 75' TERM; echo up; while :; do sleep 0.05; done",
        workers=1,
        podReplacementPolicy=policy,
    )
    (first,) = names(wait_for_phase("Running"))
    cluster.wait_for(lambda: cluster.log("default", first))
    cluster.evict("default", first)
    cluster.wait_for(lambda: set(names(cluster.select("pods"))) - {first})
    there = first in names(cluster.select("pods"))
    assert there == (policy == "TerminatingOrFailed"), "two pods of one index"


def test_an_evicted_pod_is_replaced_and_not_counted(
    cluster, core, make_job, *, wait_for_job, wait_for_phase, tmp_path
):
    from kubernetes import client

    mark = tmp_path / "saved"
    script = f"[ -e {mark} ] && exit; trap 'echo saving; touch {mark}; exit 1' TERM; "
    make_job(script + "echo up; while :; do sleep 0.05; done", workers=1, podFailurePolicy=POLICY)
    (pod,) = names(wait_for_phase("Running"))
    cluster.wait_for(lambda: cluster.log("default", pod))
    with core.read_namespaced_pod_log(
        pod, "default", follow=True, _preload_content=False
    ) as following:
        core.create_namespaced_pod_eviction(
            pod, "default", client.V1Eviction(metadata={"name": pod})
        )
        assert following.read() == b"up\nsaving\n"
    assert wait_for_job()["type"] == "Complete"
    assert "failed" not in cluster.find("jobs", "default", "gan")["status"]
    assert pod not in names(cluster.select("pods")), "an evicted pod is gone"


def test_a_jobs_pods_stay_behind_unless_the_request_says_otherwise(
    cluster, batch, make_job, wait_for_phase
):
    make_job("exec sleep 60", workers=1)
    wait_for_phase("Running")
    batch.delete_namespaced_job("gan", "default")
    cluster.wait_for(lambda: not cluster.select("jobs"))
    (pod,) = cluster.select("pods")
    assert not pod["metadata"].get("ownerReferences")
    assert pod["status"]["phase"] == "Running"


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_deleted_job_takes_its_pods_along(cluster, batch, make_job, wait_for_phase, policy):
    make_job("exec sleep 60")
    wait_for_phase("Running", 2)
    batch.delete_namespaced_job("gan", "default", propagation_policy=policy)
    assert bool(cluster.select("jobs")) == (policy == "Foreground")
    cluster.wait_for(lambda: not cluster.select("jobs") and not cluster.select("pods"))


def test_what_leaves_no_doubt_is_refused_at_once(make_job):
    from kubernetes.client import ApiException

    for wrong, field in (
        ({"podFailurePolicy": POLICY, "pod": {"restartPolicy": "OnFailure"}}, "restartPolicy"),
        ({"podFailurePolicy": POLICY, "podReplacementPolicy": "TerminatingOrFailed"}, "podRepl"),
        ({"name": "g" * 62}, "metadata.name"),
        ({"pod": {"restartPolicy": "Always"}}, "restartPolicy"),
        ({"completionMode": "NonIndexed", "backoffLimitPerIndex": 3}, "requires indexed"),
        ({"maxFailedIndexes": 0}, "when maxFailedIndexes is specified"),
        ({"podFailurePolicy": BY_INDEX}, "requires the backoffLimitPerIndex"),
    ):
        with pytest.raises(ApiException) as refused:
            make_job(**wrong)
        assert refused.value.status == 422
        assert field in refused.value.body


def test_a_killed_container_is_a_signal_in_the_exit_code(cluster, make_job, wait_for_phase):
    make_job("sleep 60 & wait $!; exit 9", workers=1, backoffLimit=0)
    (pod,) = names(wait_for_phase("Running"))
    cluster.wait_for(lambda: cluster.kill("default", pod, signal.SIGKILL))
    (failed,) = wait_for_phase("Failed")
    ended = failed["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (9, "Error")
