"""State of a run, and its causes of failure, from Job and pods."""

from __future__ import annotations

import datetime as dt

import pytest

from cloudgan.launch.kubernetes.job_state import INDEX, run_state

NOW = dt.datetime(2026, 11, 21, 12, 10, tzinfo=dt.UTC)
BEGAN = "2026-11-21T12:00:00Z"
ENDED = "2026-11-21T12:09:00Z"
DIGEST = "sha256:" + "0a" * 32


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


def test_a_run_without_objects_is_absent():
    assert run_state(None, [], NOW).phase == "absent"


def test_pods_without_their_job_are_a_stopped_run():
    state = run_state(None, [pod(0, deleted=BEGAN)], NOW)
    assert state.phase == "stopped"
    assert state.workers[0].phase == "stopping"


def test_a_run_is_running_when_all_pods_run():
    state = run_state(job(), [pod(1), pod(0)], NOW)
    assert (state.phase, state.reason, state.cause) == ("running", "", "")
    assert [one.index for one in state.workers] == [0, 1]
    assert [one.node for one in state.workers] == ["node-1", "node-1"]
    assert state.workers[0].seconds == 600
    assert (state.started_at, state.ended_at) == (BEGAN, None)


def test_a_worker_that_finishes_early_counts_as_running():
    assert run_state(job(), [pod(0, "Succeeded"), pod(1)], NOW).phase == "running"


def test_a_job_without_pods_waits():
    assert run_state(job(), [], NOW).phase == "waiting"
    fresh = {"spec": {"completions": 2}}
    assert run_state(fresh, [], NOW) == run_state({**fresh, "status": {}}, [], NOW)


def test_a_suspended_job_waits_for_its_queue():
    state = run_state(job(condition("Suspended"), suspend=True), [], NOW)
    assert (state.phase, state.is_over) == ("waiting", False)


def test_an_unschedulable_pod_has_the_schedulers_reason():
    said = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    unscheduled = {"type": "PodScheduled", "status": "False", "message": said}
    state = run_state(job(), [pod(0, "Pending", node=None, conditions=[unscheduled]), pod(1)], NOW)
    assert (state.phase, state.cause) == ("starting", "placement")
    assert state.reason == f"worker 0: {said}"
    assert state.workers[0].phase == "waiting"


def test_a_pod_that_pulls_its_image_is_starting():
    state = run_state(job(), [pod(0, "Pending", **waits("ContainerCreating")), pod(1)], NOW)
    assert (state.phase, state.cause, state.workers[0].phase) == ("starting", "", "starting")


@pytest.mark.parametrize("container", ["wheels", "trainer"])
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named(reason, container):
    status = waits(reason, "manifest  unknown\nnot found", container)
    state = run_state(job(), [pod(0, "Pending", **status)], NOW)
    assert state.cause == "image"
    assert state.reason == "worker 0: image lab/gan:1 cannot be pulled (manifest unknown not found)"


NO_SUCH_IMAGE = [
    "rpc error: code = NotFound desc = failed to pull and unpack image: failed to resolve: not found",
    "reading manifest 9 in docker.io/library/python: manifest unknown",
    "failed to resolve reference: unexpected status from HEAD request: 403 Forbidden",
    "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized",
    "pull access denied, repository does not exist or may require authorization",
    "Error response from daemon: no basic auth credentials",
]
NO_REGISTRY = [
    "failed to resolve reference: unexpected status from HEAD request: 503 Service Unavailable",
    "429 Too Many Requests - toomanyrequests: You have reached your unauthenticated pull rate limit",
    "failed to authorize: failed to fetch anonymous token: unexpected status: 502 Bad Gateway",
    "dial tcp: lookup registry.example on 10.0.0.10:53: no such host",
    "net/http: TLS handshake timeout",
    'Back-off pulling image "lab/not-found:1"',
]


@pytest.mark.parametrize(
    ("said", "cause"),
    [(one, "image") for one in NO_SUCH_IMAGE] + [(one, "registry") for one in NO_REGISTRY],
)
def test_only_an_image_that_is_missing_or_refused_is_the_images_fault(said, cause):
    """Words of containerd, CRI-O, Docker and registries (apache/airflow#65490, flyteorg/flyte#7362)."""
    status = waits("ImagePullBackOff", said)
    status["containerStatuses"][0]["image"] = "lab/not-found:1"
    state = run_state(job(), [pod(0, "Pending", **status)], NOW)
    assert (state.cause, said in state.reason) == (cause, True)


def test_an_image_that_ran_in_this_run_is_not_missing():
    state = {"running": {"startedAt": BEGAN}}
    status = {"name": "trainer", "imageID": "lab/gan@sha256:1", "state": state}
    runs = pod(1, containerStatuses=[status])
    found = run_state(job(), [pod(0, "Pending", **waits("ErrImagePull", "not found")), runs], NOW)
    assert (found.cause, found.workers[0].cause) == ("registry", "registry")


@pytest.mark.parametrize(
    ("image", "image_id", "found"),
    [
        ("lab/gan:1", f"docker.io/lab/gan@{DIGEST}", f"lab/gan:1@{DIGEST}"),
        ("host:5000/gan", f"host:5000/gan@{DIGEST}", f"host:5000/gan@{DIGEST}"),
        (f"lab/gan:1@{DIGEST}", f"docker.io/lab/gan@{DIGEST}", f"lab/gan:1@{DIGEST}"),
        ("lab/gan:1", f"docker-pullable://lab/gan@{DIGEST}", f"lab/gan:1@{DIGEST}"),
        ("lab/gan:1", DIGEST, None),  # loaded by hand: the hash of its configuration pulls nothing
        ("lab/gan:1", "", None),
    ],
)
def test_the_image_of_a_run_has_the_digest_that_the_kubelet_of_its_first_pod_reports(
    image, image_id, found
):
    def with_image(index, image_id, created):
        status = {"name": "trainer", "imageID": image_id, "state": {}}
        init = {"name": "wheels", "imageID": f"python@sha256:{'9' * 64}", "state": {}}
        made = pod(index, made=created, containerStatuses=[status], initContainerStatuses=[init])
        made["spec"]["containers"] = [{"name": "trainer", "image": image}]
        return made

    pods = [with_image(1, image_id and f"x@sha256:{'1' * 64}", "2026-02-02T00:00:00Z")]
    pods.append(with_image(0, image_id, "2026-01-01T00:00:00Z"))
    assert run_state(job(), pods if found else pods[1:], NOW).image == found


@pytest.mark.parametrize(
    ("reason", "cause", "why"),
    [
        ("CreateContainerConfigError", "configuration", "its container cannot be created"),
        ("CreateContainerError", "runtime", "the container runtime cannot create its container"),
    ],
)
def test_a_missing_secret_differs_from_a_container_runtime_that_fails(reason, cause, why):
    said = f"{why} (secret)" if cause == "configuration" else f"{why} (failed to reserve name)"
    message = said.partition("(")[2][:-1]
    state = run_state(job(), [pod(0, "Pending", **waits(reason, message))], NOW)
    where = " on node node-1" if cause == "runtime" else ""
    assert (state.cause, state.reason) == (cause, f"worker 0{where}: {said}")


def test_out_of_memory_differs_from_other_kills():
    state = run_state(job(), [pod(0), pod(1, "Failed", **ended(137, "OOMKilled"))], NOW)
    assert (state.cause, state.workers[1].phase) == ("memory", "failed")
    assert state.reason == "worker 1: exceeded its memory limit (OOMKilled)"
    killed = run_state(job(), [pod(0), pod(1, "Failed", **ended(137))], NOW)
    assert (killed.cause, killed.reason) == ("", "worker 1: exited with code 137")
    assert killed.workers[1].reason == "exited with code 137"


@pytest.mark.parametrize(
    ("code", "cause", "why"),
    [
        (0, "", ""),
        (1, "program", "exited with code 1"),
        (2, "program", "its devices or its settings do not fit the plan (exit code 2)"),
        (75, "", "exited with code 75"),
        (143, "", "exited with code 143"),
        (76, "no progress", "no newer checkpoint after three restarts (exit code 76)"),
    ],
)
def test_an_exit_code_decides_about_a_restart(code, cause, why):
    (worker,) = run_state(job(), [pod(0, "Failed", **ended(code))], NOW).workers
    assert (worker.cause, worker.reason) == (cause, why)


def test_an_init_container_that_fails_is_named():
    (worker,) = run_state(job(), [pod(0, "Failed", **ended(1, container="wheels"))], NOW).workers
    assert worker.reason == "init container wheels exited with code 1"


def test_an_init_container_that_exits_with_75_is_restarted():
    """k8s/fetch_wheels.py exits with 75 when the store is unreachable."""
    status = ended(75, container="wheels")
    said = "downloading\nfetch_wheels: wheels/1: HTTP 503 SlowDown, 6 times\n"
    status["initContainerStatuses"][0]["state"]["terminated"]["message"] = said
    new = pod(0, "Pending", made="2026-11-21T12:05:00Z", **waits("PodInitializing"))
    for pods in ([pod(0, "Failed", **status)], [pod(0, "Failed", **status), new]):
        state = run_state(job(), pods, NOW)
        assert (state.phase, state.cause) == ("starting", "")
        assert state.reason == (
            "worker 0: init container wheels exited with code 75: fetch_wheels: wheels/1: HTTP 503"
            " SlowDown, 6 times"
        )


def test_a_preempted_pod_has_the_reason():
    taken = {"type": "DisruptionTarget", "status": "True", "message": "preempted by the scheduler"}
    (worker,) = run_state(job(), [pod(0, "Failed", conditions=[taken])], NOW).workers
    assert worker.reason == "preempted: preempted by the scheduler"
    assert (worker.cause, worker.preemptions) == ("", 1)
    saved = pod(0, "Failed", conditions=[taken], **ended(75))
    assert run_state(job(), [saved], NOW).workers[0].reason.startswith("preempted: ")


def test_only_a_disruption_counts_as_a_preemption():
    taken = {"type": "DisruptionTarget", "status": "True", "message": "node is shutting down"}
    lost = [
        pod(0, "Failed", **ended(75)),
        pod(0, "Failed", **ended(143)),
        evicted(0),
        pod(0, "Failed", conditions=[taken], **ended(143)),
        pod(0, made=ENDED),
    ]
    (worker,) = run_state(job(), lost, NOW).workers
    assert (worker.restarts, worker.preemptions) == (4, 1)


def test_a_worker_that_left_after_a_notice_was_preempted():
    """It ends before its cloud takes the node, so that Kubernetes sees no disruption."""
    status = ended(75)
    said = (
        "stopped when asked\ncloudgan worker: exiting with code 75: azure preempts this node\nbye"
    )
    status["containerStatuses"][0]["state"]["terminated"]["message"] = said
    (worker,) = run_state(job(), [pod(0, "Failed", **status)], NOW).workers
    assert (worker.preemptions, worker.cause) == (1, "")
    assert worker.reason == (
        "preempted: cloudgan worker: exiting with code 75: azure preempts this node"
    )


def evicted(index, said="The node was low on resource: ephemeral-storage. ", node="node-1"):
    taken = {"type": "DisruptionTarget", "status": "True", "message": said}
    status = {"conditions": [taken], "reason": "Evicted", "message": said}
    return pod(index, "Failed", node=node, **status)


LOW = "The node was low on resource: {}. Threshold quantity: 1Gi, available: 9Mi. "


@pytest.mark.parametrize(
    ("lacks", "nodes", "cause"),
    [
        (["ephemeral-storage"] * 2, ["small"] * 2, ""),
        (["ephemeral-storage"] * 3, ["small"] * 3, "eviction"),
        (["ephemeral-storage", "inodes", "ephemeral-storage"], ["small"] * 3, "eviction"),
        (["ephemeral-storage", "memory", "ephemeral-storage"], ["small"] * 3, ""),
        (["ephemeral-storage"] * 3, ["small", "large", "small"], ""),
        (["memory"] * 3, ["small"] * 3, "memory"),
    ],
)
def test_three_evictions_for_one_lack_on_one_node_size_are_a_cause(lacks, nodes, cause):
    said = [LOW.format(lack) for lack in lacks]
    lost = [
        evicted(n % 2, text, node) for n, (text, node) in enumerate(zip(said, nodes, strict=True))
    ]
    new = pod(0, "Pending", made=ENDED)
    state = run_state(job(), [*lost, new], NOW, lambda: {"small": "m5.large", "large": "m5.xlarge"})
    assert state.cause == cause
    if cause:
        words = f"3 pods lost on nodes of type m5.large: evicted: {said[-1].strip()}"
        assert state.reason == words
    else:
        assert "evicted: The node was low on resource" in state.reason, "the newest is named"


def test_a_pod_that_is_being_deleted_is_stopping():
    state = run_state(job(), [pod(0, deleted=ENDED), pod(1)], NOW)
    assert state.workers[0].phase == "stopping"
    assert state.phase == "starting"


def test_the_newest_pod_of_a_rank_decides():
    old = pod(0, "Failed", **ended(137))
    new = pod(0, made="2026-11-21T12:05:00Z", node="node-2")
    for pods in ([old, new], [new, old]):
        (worker,) = run_state(job(completions=1), pods, NOW).workers
        assert (worker.phase, worker.node, worker.restarts) == ("running", "node-2", 1)
        assert worker.seconds == 300
        assert (worker.reason, worker.cause) == ("", "")


def test_an_older_pods_memory_error_is_kept():
    old = pod(0, "Failed", **ended(137, "OOMKilled"))
    new = pod(0, made="2026-11-21T12:05:00Z")
    assert run_state(job(completions=1), [old, new], NOW).cause == "memory"


def test_pods_without_an_index_are_ignored():
    other = pod(0)
    other["metadata"]["annotations"] = None
    assert run_state(job(), [other], NOW).workers == ()


def test_a_finished_job_has_its_end_time():
    body = job(condition("SuccessCriteriaMet"), condition("Complete"))
    body["status"]["completionTime"] = "2026-11-21T12:08:30Z"
    state = run_state(body, [pod(0, "Succeeded"), pod(1, "Succeeded")], NOW)
    assert (state.phase, state.ended_at) == ("finished", "2026-11-21T12:08:30Z")
    del body["status"]["completionTime"]
    assert run_state(body, [], NOW).ended_at == ENDED


def test_a_condition_that_is_false_is_ignored():
    assert run_state(job(condition("Complete", status="False")), [], NOW).phase == "waiting"


def test_a_passed_deadline_is_reported_with_its_length():
    body = job(condition("Failed", "DeadlineExceeded", "Job was active longer than specified"))
    state = run_state(body, [pod(0, "Failed", **ended(143))], NOW)
    assert (state.phase, state.cause) == ("failed", "deadline")
    assert state.reason == "its deadline of 3600 s has passed"
    assert (state.started_at, state.ended_at) == (BEGAN, ENDED)


def test_a_job_of_too_many_failures_names_what_failed():
    said = "Job has exceeded the specified maximal number of failed indexes"
    body = job(condition("Failed", "MaxFailedIndexesExceeded", said))
    refused = pod(0, "Failed", reason="Evicted", message="The node had condition: [DiskPressure]. ")
    state = run_state(body, [refused], NOW)
    why = "worker 0: evicted: The node had condition: [DiskPressure]."
    assert (state.reason, state.cause) == (f"MaxFailedIndexesExceeded: {said} ({why})", "program")


@pytest.mark.parametrize("code", [1, 76])
def test_a_failed_job_has_its_most_severe_workers_cause(code):
    said = f"Container trainer for pod cloudgan/gan-1-x failed with exit code {code} matching rule"
    body = job(condition("Failed", "PodFailurePolicy", said))
    state = run_state(body, [pod(0, "Failed", **ended(143)), pod(1, "Failed", **ended(code))], NOW)
    assert state.cause == {1: "program", 76: "no progress"}[code]
    assert state.reason.startswith("worker 1 on node node-1: " if code == 1 else "worker 1: ")


def test_a_failed_job_without_pods_has_the_controllers_message():
    said = "Container trainer for pod cloudgan/gan-1-x failed with exit code 1 matching FailJob"
    body = job(condition("Failed", "PodFailurePolicy", said))
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
    pending = pod(0, "Pending", node=None, conditions=[unscheduled])
    for pods in ([], [pending]):
        state = run_state(body, pods, NOW)
        assert (state.reason, state.cause) == (f"PodFailurePolicy: {said}", "program")


def test_a_job_with_failure_target_has_not_ended():
    """Kubernetes sets FailureTarget first, and Failed when the last pod is gone."""
    early = condition("FailureTarget", "PodFailurePolicy", "exit code 1")
    state = run_state(job(early), [pod(0, "Failed", **ended(1)), pod(1)], NOW)
    assert (state.phase, state.ended_at) == ("failed", None)
    late = run_state(job(early, condition("Failed", "PodFailurePolicy", "exit code 1")), [], NOW)
    assert (late.phase, late.ended_at) == ("failed", ENDED)


def test_the_most_severe_cause_of_the_first_worker_is_reported():
    pulls = pod(0, "Pending", **waits("ErrImagePull"))
    memory = pod(1, "Failed", **ended(137, "OOMKilled"))
    assert run_state(job(), [pulls, memory], NOW).reason.startswith(
        "worker 1: exceeded its memory limit"
    )
    again = pod(1, "Pending", **waits("ErrImagePull"))
    assert run_state(job(), [again, pulls], NOW).reason.startswith("worker 0: ")
