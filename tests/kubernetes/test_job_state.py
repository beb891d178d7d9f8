"""Each fault of a cluster, as the API shows it, in one sentence."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.kubernetes.job_state import INDEX, run_state

NOW = dt.datetime(2026, 11, 21, 12, 10, tzinfo=dt.UTC)
BEGAN = "2026-11-21T12:00:00Z"
ENDED = "2026-11-21T12:09:00Z"


def job(*conditions, completions=2, **spec):
    status = {"startTime": BEGAN, "conditions": list(conditions)}
    return {
        "spec": {"completions": completions, "activeDeadlineSeconds": 3600} | spec,
        "status": status,
    }


def condition(kind, reason="", message="", status="True"):
    at = {"lastTransitionTime": ENDED}
    return {"type": kind, "status": status, "reason": reason, "message": message} | at


def pod(index, phase="Running", *, node="node-1", made=BEGAN, deleted=None, **status):
    metadata = {"name": f"gan-{index}-abcde", "annotations": {INDEX: str(index)}}
    metadata |= {"creationTimestamp": made}
    if deleted:
        metadata["deletionTimestamp"] = deleted
    spec = {"nodeName": node} if node else {}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase} | status}


def ended(code, reason="Error", container="trainer"):
    kind = "initContainerStatuses" if container == "wheels" else "containerStatuses"
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return {kind: [{"name": container, "state": state}]}


def waits(reason, message="", container="trainer"):
    kind = "initContainerStatuses" if container == "wheels" else "containerStatuses"
    state = {"waiting": {"reason": reason, "message": message}}
    return {kind: [{"name": container, "image": "lab/gan:1", "state": state}]}


def test_nothing_there_is_absent():
    assert run_state(None, [], NOW).phase == "absent"


def test_pods_without_their_job_are_a_run_that_was_stopped():
    state = run_state(None, [pod(0, deleted=BEGAN)], NOW)
    assert state.phase == "stopped"
    assert state.workers[0].phase == "stopping"


def test_all_pods_running_is_a_run_that_runs():
    state = run_state(job(), [pod(1), pod(0)], NOW)
    assert (state.phase, state.why, state.cause) == ("running", "", "")
    assert [one.index for one in state.workers] == [0, 1]
    assert [one.node for one in state.workers] == ["node-1", "node-1"]
    assert state.workers[0].seconds == 600
    assert (state.began, state.ended) == (BEGAN, None)


def test_a_worker_that_is_done_before_the_others_is_still_up():
    assert run_state(job(), [pod(0, "Succeeded"), pod(1)], NOW).phase == "running"


def test_a_job_without_pods_waits():
    assert run_state(job(), [], NOW).phase == "waiting"
    fresh = {"spec": {"completions": 2}}
    assert run_state(fresh, [], NOW) == run_state({**fresh, "status": {}}, [], NOW)


def test_a_suspended_job_waits_for_its_queue():
    state = run_state(job(condition("Suspended"), suspend=True), [], NOW)
    assert (state.phase, state.is_over) == ("waiting", False)


def test_a_pod_that_no_node_takes_says_why():
    said = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    unscheduled = {"type": "PodScheduled", "status": "False", "message": said}
    state = run_state(job(), [pod(0, "Pending", node=None, conditions=[unscheduled]), pod(1)], NOW)
    assert (state.phase, state.cause) == ("starting", "placement")
    assert state.why == f"worker 0: {said}"
    assert state.workers[0].phase == "waiting"


def test_a_pod_on_its_node_that_pulls_is_starting():
    state = run_state(job(), [pod(0, "Pending", **waits("ContainerCreating")), pod(1)], NOW)
    assert (state.phase, state.cause, state.workers[0].phase) == ("starting", "", "starting")


@pytest.mark.parametrize("container", ["wheels", "trainer"])
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named(reason, container):
    status = waits(reason, "manifest  unknown\nnot found", container)
    state = run_state(job(), [pod(0, "Pending", **status)], NOW)
    assert state.cause == "image"
    assert state.why == "worker 0: image lab/gan:1 cannot be pulled (manifest unknown not found)"


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError"])
def test_a_secret_that_is_missing_is_a_matter_of_configuration(reason):
    state = run_state(job(), [pod(0, "Pending", **waits(reason, 'secret "s3" not found'))], NOW)
    assert state.cause == "configuration"
    assert state.why == 'worker 0: its container cannot be made (secret "s3" not found)'


def test_a_worker_that_needed_more_memory_is_told_from_one_that_was_killed():
    state = run_state(job(), [pod(0), pod(1, "Failed", **ended(137, "OOMKilled"))], NOW)
    assert (state.cause, state.workers[1].phase) == ("memory", "failed")
    assert state.why == "worker 1: it needed more memory than its limit (OOMKilled)"
    killed = run_state(job(), [pod(0), pod(1, "Failed", **ended(137))], NOW)
    assert (killed.cause, killed.why) == ("", "")
    assert killed.workers[1].why == "it ended with exit code 137"


@pytest.mark.parametrize(
    ("code", "cause", "why"),
    [
        (0, "", ""),
        (1, "program", "it ended with exit code 1"),
        (2, "program", "it ended with exit code 2"),
        (75, "", "it ended with exit code 75"),
        (143, "", "it ended with exit code 143"),
        (76, "no progress", "three restarts brought no newer checkpoint (exit code 76)"),
    ],
)
def test_an_exit_code_says_whether_another_try_may_help(code, cause, why):
    (worker,) = run_state(job(), [pod(0, "Failed", **ended(code))], NOW).workers
    assert (worker.cause, worker.why) == (cause, why)


def test_an_init_container_that_fails_is_named():
    (worker,) = run_state(job(), [pod(0, "Failed", **ended(1, container="wheels"))], NOW).workers
    assert worker.why == "its init container wheels ended with exit code 1"


def test_wheels_that_may_be_had_later_are_no_fault_of_the_program():
    """k8s/fetch_wheels.py ends with 75 where the store is away: its pod is made anew."""
    (worker,) = run_state(job(), [pod(0, "Failed", **ended(75, container="wheels"))], NOW).workers
    assert (worker.cause, "exit code 75" in worker.why) == ("", True)


def test_a_pod_that_was_taken_away_says_by_whom():
    taken = {"type": "DisruptionTarget", "status": "True", "message": "preempted by the scheduler"}
    (worker,) = run_state(job(), [pod(0, "Failed", conditions=[taken])], NOW).workers
    assert worker.why == "taken away: preempted by the scheduler"
    assert worker.cause == ""


def test_a_pod_that_is_being_deleted_is_stopping():
    state = run_state(job(), [pod(0, deleted=ENDED), pod(1)], NOW)
    assert state.workers[0].phase == "stopping"
    assert state.phase == "starting"


def test_of_several_pods_of_a_rank_the_newest_speaks():
    old = pod(0, "Failed", **ended(137))
    new = pod(0, made="2026-11-21T12:05:00Z", node="node-2")
    for pods in ([old, new], [new, old]):
        (worker,) = run_state(job(completions=1), pods, NOW).workers
        assert (worker.phase, worker.node, worker.replaced) == ("running", "node-2", 1)
        assert worker.seconds == 300
        assert (worker.why, worker.cause) == ("", "")


def test_what_an_older_pod_died_of_is_kept_where_it_was_memory():
    old = pod(0, "Failed", **ended(137, "OOMKilled"))
    new = pod(0, made="2026-11-21T12:05:00Z")
    assert run_state(job(completions=1), [old, new], NOW).cause == "memory"


def test_pods_that_are_no_workers_are_not_counted():
    stranger = pod(0)
    stranger["metadata"]["annotations"] = None
    assert run_state(job(), [stranger], NOW).workers == ()


def test_a_finished_job_says_when():
    body = job(condition("SuccessCriteriaMet"), condition("Complete"))
    body["status"]["completionTime"] = "2026-11-21T12:08:30Z"
    state = run_state(body, [pod(0, "Succeeded"), pod(1, "Succeeded")], NOW)
    assert (state.phase, state.ended) == ("finished", "2026-11-21T12:08:30Z")
    del body["status"]["completionTime"]
    assert run_state(body, [], NOW).ended == ENDED


def test_a_condition_that_does_not_hold_is_none():
    assert run_state(job(condition("Complete", status="False")), [], NOW).phase == "waiting"


def test_a_deadline_is_told_with_its_length():
    body = job(condition("Failed", "DeadlineExceeded", "Job was active longer than specified"))
    state = run_state(body, [pod(0, "Failed", **ended(143))], NOW)
    assert (state.phase, state.cause) == ("failed", "deadline")
    assert state.why == "its deadline of 3600 s is over"
    assert (state.began, state.ended) == (BEGAN, ENDED)


@pytest.mark.parametrize("code", [1, 76])
def test_a_job_that_failed_says_what_its_worst_worker_died_of(code):
    said = f"Container trainer for pod cloudgan/gan-1-x failed with exit code {code} matching rule"
    body = job(condition("Failed", "PodFailurePolicy", said))
    state = run_state(body, [pod(0, "Failed", **ended(143)), pod(1, "Failed", **ended(code))], NOW)
    assert state.cause == {1: "program", 76: "no progress"}[code]
    assert state.why.startswith("worker 1: ")


def test_a_job_whose_failed_pod_is_gone_says_what_its_controller_said():
    said = "Container trainer for pod cloudgan/gan-1-x failed with exit code 1 matching FailJob"
    body = job(condition("Failed", "PodFailurePolicy", said))
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    pending = pod(0, "Pending", node=None, conditions=[unscheduled])
    for pods in ([], [pending]):
        state = run_state(body, pods, NOW)
        assert (state.why, state.cause) == (f"PodFailurePolicy: {said}", "program")


def test_a_job_that_is_about_to_fail_has_not_ended():
    """Kubernetes sets FailureTarget first, and Failed when the last pod is gone."""
    early = condition("FailureTarget", "PodFailurePolicy", "exit code 1")
    state = run_state(job(early), [pod(0, "Failed", **ended(1)), pod(1)], NOW)
    assert (state.phase, state.ended) == ("failed", None)
    late = run_state(job(early, condition("Failed", "PodFailurePolicy", "exit code 1")), [], NOW)
    assert (late.phase, late.ended) == ("failed", ENDED)


def test_the_gravest_cause_is_told_and_of_equal_ones_the_first_worker_s():
    pulls = pod(0, "Pending", **waits("ErrImagePull"))
    memory = pod(1, "Failed", **ended(137, "OOMKilled"))
    assert run_state(job(), [pulls, memory], NOW).why.startswith("worker 1: it needed more memory")
    again = pod(1, "Pending", **waits("ErrImagePull"))
    assert run_state(job(), [again, pulls], NOW).why.startswith("worker 0: ")
