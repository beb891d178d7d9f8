"""State of a run, and its causes of failure, from Job and pods."""

import datetime as dt

import pytest

from cloudgan.launch.kubernetes.job_state import INDEX, run_state
from cloudgan.schema.run_state import STOPPING

NOW = dt.datetime(2026, 11, 21, 12, 10, tzinfo=dt.UTC)
BEGAN = "2026-11-21T12:00:00Z"
ENDED = "2026-11-21T12:09:00Z"
DIGEST = "sha256:" + "0a" * 32


def job(*conditions, completions=2, **spec):
    status = {"startTime": BEGAN, "conditions": list(conditions)}
    return {
        "metadata": {},
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
    kind = "initContainerStatuses" if container == "fetch-wheels" else "containerStatuses"
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return {kind: [{"name": container, "state": state}]}


def waits(reason, message="", container="trainer"):
    kind = "initContainerStatuses" if container == "fetch-wheels" else "containerStatuses"
    state = {"waiting": {"reason": reason, "message": message}}
    return {kind: [{"name": container, "image": "lab/gan:1", "state": state}]}


NO_GPU = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
UNPLACED = {"type": "PodScheduled", "status": "False", "message": NO_GPU}
NO_NODE = pod(0, "Pending", node=None, conditions=[UNPLACED])
PULLS = "image lab/gan:1 cannot be pulled (manifest unknown not found)"
OUT_OF_MEMORY = ended(137, "OOMKilled")
LATER = "2026-11-21T12:05:00Z"
SAID = "Container trainer for pod cloudgan/gan-1-x failed with exit code 1 matching FailJob"
BROKEN = job(condition("Failed", "PodFailurePolicy", SAID))
TOO_MANY = condition("Failed", "MaxFailedIndexesExceeded", "too many")
NO_PROGRESS = "no newer checkpoint after three restarts (exit code 76)"
TOO_LATE = condition("Failed", "DeadlineExceeded", "Job was active longer than specified")
FULL = "The node had condition: [DiskPressure]."
FALSE = condition("Complete", status="False")
CONTROLLER = f"PodFailurePolicy: {SAID}"

STATES = {
    "nothing there": (None, [], "absent", "", ""),
    "pods without their job": (None, [pod(0, deleted=BEGAN)], "stopped", "", None),
    "all pods run": (job(), [pod(1), pod(0)], "running", "", ""),
    "one finishes early": (job(), [pod(0, "Succeeded"), pod(1)], "running", "", ""),
    "one is being deleted": (job(), [pod(0, deleted=ENDED), pod(1)], "starting", "", None),
    "no pods yet": (job(), [], "waiting", "", ""),
    "it is being deleted": (
        job() | {"metadata": {"deletionTimestamp": BEGAN}},
        [pod(0), pod(1)],
        *("stopping", "", STOPPING),
    ),
    "a new job has no status": (
        {"metadata": {}, "spec": {"completions": 2}},
        [],
        "waiting",
        "",
        "",
    ),
    "in a queue": (job(condition("Suspended"), suspend=True), [], "waiting", "", ""),
    "a condition that is false": (job(FALSE), [], "waiting", "", ""),
    "no node fits": (job(), [NO_NODE, pod(1)], "starting", "placement", f"worker 0: {NO_GPU}"),
    "pulls its image": (
        job(),
        [pod(0, "Pending", **waits("ContainerCreating")), pod(1)],
        *("starting", "", None),
    ),
    "out of memory": (
        job(),
        [pod(0), pod(1, "Failed", **OUT_OF_MEMORY)],
        *("starting", "memory", "worker 1: exceeded its memory limit (OOMKilled)"),
    ),
    "killed for another reason": (
        job(),
        [pod(0), pod(1, "Failed", **ended(137))],
        *("starting", "", "worker 1: exited with code 137"),
    ),
    "an older pod was out of memory": (
        job(completions=1),
        [pod(0, "Failed", **OUT_OF_MEMORY), pod(0, made=LATER)],
        *("running", "memory", None),
    ),
    "the most severe cause": (
        job(),
        [pod(0, "Pending", **waits("ErrImagePull")), pod(1, "Failed", **OUT_OF_MEMORY)],
        *("starting", "memory", "worker 1: exceeded its memory limit (OOMKilled)"),
    ),
    "of equal causes the first worker's": (
        job(),
        [
            pod(n, "Pending", **waits("ErrImagePull", "manifest  unknown\nnot found"))
            for n in (1, 0)
        ],
        *("starting", "image", f"worker 0: {PULLS}"),
    ),
    "failed without pods": (BROKEN, [], "failed", "program", CONTROLLER),
    "failed, and a pod has no node": (BROKEN, [NO_NODE], "failed", "program", CONTROLLER),
    "failed by one of its workers": (
        BROKEN,
        [pod(0, "Failed", **ended(143)), pod(1, "Failed", **ended(1))],
        *("failed", "program", "worker 1 on node node-1: exited with code 1"),
    ),
    "no progress": (
        BROKEN,
        [pod(0, "Failed", **ended(143)), pod(1, "Failed", **ended(76))],
        *("failed", "no progress", f"worker 1: {NO_PROGRESS}"),
    ),
    "the deadline": (
        job(TOO_LATE),
        [pod(0, "Failed", **ended(143))],
        *("failed", "deadline", "its deadline of 3600 s has passed"),
    ),
    "evicted too often": (
        job(TOO_MANY),
        [pod(0, "Failed", reason="Evicted", message=FULL)],
        *("failed", "program", f"MaxFailedIndexesExceeded: too many (worker 0: evicted: {FULL})"),
    ),
    "an init container": (
        job(),
        [pod(0, "Failed", **ended(1, container="fetch-wheels"))],
        *(
            "starting",
            "program",
            "worker 0 on node node-1: init container fetch-wheels exited with code 1",
        ),
    ),
}


@pytest.mark.parametrize(
    ("body", "pods", "phase", "cause", "reason"), STATES.values(), ids=STATES.keys()
)
def test_job_and_pods_are_a_state_with_its_cause(body, pods, phase, cause, reason):
    state = run_state(body, pods, NOW)
    assert (state.phase, state.cause) == (phase, cause)
    assert reason in (None, state.reason)
    assert state.is_over is (phase in {"absent", "failed", "stopped"})


def test_a_run_is_running_when_all_pods_run():
    state = run_state(job(), [pod(1), pod(0)], NOW)
    assert (state.phase, state.reason, state.cause) == ("running", "", "")
    assert [one.index for one in state.workers] == [0, 1]
    assert [one.node for one in state.workers] == ["node-1", "node-1"]
    assert state.workers[0].seconds == 600
    assert (state.started_at, state.ended_at) == (BEGAN, None)


@pytest.mark.parametrize("container", ["fetch-wheels", "trainer"])
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
        init = {"name": "fetch-wheels", "imageID": f"python@sha256:{'9' * 64}", "state": {}}
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


def test_an_init_container_that_exits_with_75_is_restarted():
    """k8s/fetch_wheels.sh exits with 75 when the store is unreachable."""
    status = ended(75, container="fetch-wheels")
    said = "503; retrying in 1 s\nfetch_wheels: the wheels could not be copied (503)\n"
    status["initContainerStatuses"][0]["state"]["terminated"]["message"] = said
    new = pod(0, "Pending", made="2026-11-21T12:05:00Z", **waits("PodInitializing"))
    for pods in ([pod(0, "Failed", **status)], [pod(0, "Failed", **status), new]):
        state = run_state(job(), pods, NOW)
        assert (state.phase, state.cause) == ("starting", "")
        assert state.reason == (
            "worker 0: init container fetch-wheels exited with code 75: fetch_wheels: the wheels could"
            " not be copied (503)"
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


def test_the_newest_pod_of_a_rank_decides():
    old = pod(0, "Failed", **ended(137))
    new = pod(0, made="2026-11-21T12:05:00Z", node="node-2")
    for pods in ([old, new], [new, old]):
        (worker,) = run_state(job(completions=1), pods, NOW).workers
        assert (worker.phase, worker.node, worker.restarts) == ("running", "node-2", 1)
        assert worker.seconds == 300
        assert (worker.reason, worker.cause) == ("", "")


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


def test_a_job_with_failure_target_has_not_ended():
    """Kubernetes sets FailureTarget first, and Failed when the last pod is gone."""
    early = condition("FailureTarget", "PodFailurePolicy", "exit code 1")
    state = run_state(job(early), [pod(0, "Failed", **ended(1)), pod(1)], NOW)
    assert (state.phase, state.ended_at) == ("failed", None)
    late = run_state(job(early, condition("Failed", "PodFailurePolicy", "exit code 1")), [], NOW)
    assert (late.phase, late.ended_at) == ("failed", ENDED)
