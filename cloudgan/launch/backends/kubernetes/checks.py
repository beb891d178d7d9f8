"""Checks in a cluster: rights, accelerators, queue and claim, nodes that start, and whether ports are closed.

TensorFlow's gRPC server has no authentication and executes what it receives
(https://github.com/tensorflow/tensorflow/blob/master/SECURITY.md, read 2026-11-22). A NetworkPolicy
admits the pods of the run only, and a cluster without a policy engine stores it without effect
(https://kubernetes.io/docs/concepts/services-networking/network-policies/, read 2026-11-22): a Job of three pods
tests which one it does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Final

from cloudgan.core import assets, clouds
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.documents import parse_yaml
from cloudgan.core.errors import (
    ConfigError,
    CredentialsError,
    OpenPortsError,
    PlanError,
    StockOutError,
    counted,
)
from cloudgan.core.labels import RUN
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.extensions import CILIUM, KUEUE, QUEUE_LABEL, conditions_of
from cloudgan.launch.kubernetes.job_state import index_of
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import GPU, Plan, Step, Target

GANG_GROUP = "scheduling.k8s.io/v1beta1"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def has_cilium(api: ClusterApi) -> bool:
    """Whether the cluster knows Cilium's own policies."""
    return any(one.startswith(CILIUM) for one in api.groups())


REVIEW: Final = "REVIEW"
"""Method of the step that checks the rights of the login in a cluster."""
_RESOURCE: Final = re.compile(
    r"/apis?/(?:(?P<group>[^/]+)/)?v\d(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>\w+)"
)
_SHARED: Final = ("daemonsets", "namespaces", "serviceaccounts")
"""Objects that all runs share: a login that may not create them can use existing ones."""
_READ_BY_NAME: Final = ("ciliumnetworkpolicies", "podtemplates", "provisioningrequests")
"""Objects that are compared with the run's Job, and deleted with it."""
_READ: Final = (("list", "pods", ""), ("get", "pods", "log"), ("list", "events", ""))


def review_step(target: Target) -> Step:
    """Returns the step that checks the rights in a cluster before nodes are created in it.

    Any login may ask for its own rights (ClusterRole system:basic-user,
    https://kubernetes.io/docs/reference/access-authn-authz/rbac/#discovery-roles). On GKE, the launcher's
    role also has container.selfSubjectAccessReviews.create, as others demand of roles for GKE
    (https://goteleport.com/docs/enroll-resources/auto-discovery/kubernetes/google-cloud/, read 2026-11-22).
    """
    return Step(
        ensure=f"this login may run jobs in cluster {target.cluster}", method=REVIEW, path=_REVIEWS
    )


def check_rights(api: ClusterApi, plan: Plan, poll_seconds: float = 5.0) -> None:
    """Checks the rights that a run needs in the cluster of a cloud; a new one may deny them at first."""
    target = plan.target
    how = clouds.find(target.provider).cluster_access
    grant = f"Its creator, or an administrator, grants access: {how} (docs/clouds.md)"
    missing = list(_rights_of_run(plan))
    try:
        while missing := [one for one in missing if not _is_granted(api, *one)]:
            if monotonic_seconds() >= api.new_until:
                break
            time.sleep(poll_seconds)
    except CredentialsError as error:
        raise CredentialsError(f"cluster {target.cluster}: {error}. {grant}") from error
    named = []
    for spec, _ in missing:
        resource = "/".join(filter(None, (spec["resource"], spec.get("subresource"))))
        place = f" in namespace {spec['namespace']}" if spec["namespace"] else ""
        named.append(f"{spec['verb']} {resource}{place}")
    if named:
        raise CredentialsError(
            f"this login may not {', '.join(named)} in cluster {target.cluster}. {grant}"
        )


def _rights_of_run(plan: Plan) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields each right with the address of a shared object whose existence suffices."""
    for step in plan.steps:
        found = _RESOURCE.match(step.path) if step.at == "cluster" else None
        if step.method != "POST" or found is None:
            continue
        spec = {"group": "", "namespace": ""} | {k: v for k, v in found.groupdict().items() if v}
        is_shared = spec["resource"] in _SHARED
        yield spec | {"verb": "create"}, str(step.find) if is_shared else ""
        if spec["resource"] in _READ_BY_NAME:
            yield spec | {"verb": "get"}, ""
        elif not is_shared and spec["resource"] != "secrets":  # deleted with the Job
            yield spec | {"verb": "delete"}, ""
    for verb, resource, part in _READ:
        place = {"group": "", "namespace": plan.target.namespace, "resource": resource}
        yield place | {"verb": verb} | ({"subresource": part} if part else {}), ""
    yield {"group": "", "namespace": "", "verb": "list", "resource": "nodes"}, ""


def _is_granted(api: ClusterApi, spec: dict[str, Any], shared: str) -> bool:
    if _is_allowed(api, spec):
        return True
    try:
        return bool(shared) and api.get(shared) is not None
    except CredentialsError:
        return False


def check_cluster(api: ClusterApi, plan: Plan, namespace: str) -> tuple[str, ...]:
    """Checks that the login has the rights of deploy/kubernetes/role.yaml, and the cluster what the plan needs.

    Returns a warning per impossible check.

    Raises:
        CredentialsError: A right is missing.
        PlanError: The cluster has too few of the accelerators.
    """
    queue = plan.target.queue
    kueue = kueue_path(api, namespace) if queue else None
    missing = [
        name
        for name, spec in _role(namespace)
        if (spec["group"] != KUEUE or kueue) and not _is_allowed(api, spec)
    ]
    if missing:
        raise CredentialsError(
            f"missing permissions in namespace {namespace}: {', '.join(missing)}. Ask an"
            " administrator to apply deploy/kubernetes/role.yaml, or use another --namespace"
        )
    warnings = tuple(_check_nodes(api, plan))
    if queue and kueue is None:
        raise ConfigError(f"--queue={queue}: this cluster has no Kueue; omit --queue")
    if queue:
        listed = api.list(f"{kueue}/localqueues")["items"]
        known = sorted(one["metadata"]["name"] for one in listed)
        if queue not in known:
            raise ConfigError(
                f"--queue={queue}: namespace {namespace} has no such queue of Kueue; it has"
                f" {', '.join(known) or 'none'}"
            )
    if plan.store.startswith(CLAIM):
        claim = plan.store.removeprefix(CLAIM)
        if api.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}") is None:
            raise ConfigError(
                f"--store={plan.store}: namespace {namespace} has no such PersistentVolumeClaim"
            )
    return warnings


def kueue_path(api: ClusterApi, namespace: str) -> str | None:
    """Returns the path of Kueue's objects in a namespace; None: the cluster has no Kueue."""
    group = api.get(f"/apis/{KUEUE}")
    if group is None:
        return None
    return f"/apis/{group['preferredVersion']['groupVersion']}/namespaces/{namespace}"


def _role(namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each right of deploy/kubernetes/role.yaml with its name."""
    name = "deploy/kubernetes/role.yaml"
    for rule in parse_yaml(assets.read_text(name), name)["rules"]:
        for resource in rule["resources"]:
            plural, _, part = resource.partition("/")
            place = {"group": rule["apiGroups"][0], "namespace": namespace, "resource": plural}
            for verb in rule["verbs"]:
                yield (
                    f"{verb} {resource}",
                    place | {"verb": verb} | ({"subresource": part} if part else {}),
                )


def _is_allowed(api: ClusterApi, attributes: dict[str, Any]) -> bool:
    if f"{attributes['group']}/" == CILIUM and not has_cilium(api):
        return True  # nothing is created
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool((api.create(_REVIEWS, review).get("status") or {}).get("allowed"))


def _check_nodes(api: ClusterApi, plan: Plan) -> Iterator[str]:
    workers = plan.workers
    try:
        nodes = api.list(_NODES)["items"]
    except CredentialsError:
        yield "no permission to list nodes: whether the workers fit on them was not checked"
        return
    wanted = workers.node_selector.items()
    selected = [one for one in nodes if wanted <= (one["metadata"].get("labels") or {}).items()]
    if not selected and wanted:
        raise PlanError(
            f"no node of this cluster has the labels {', '.join(map('='.join, wanted))};"
            f" found: {_accelerators(nodes) or 'no accelerator'}"
        )
    gpus = workers.accelerators_per_node
    if not gpus:
        return
    able = [node for node in selected if _amount(node, GPU) >= gpus]
    room = sum(_amount(node, GPU) // gpus for node in able)
    if room < workers.nodes:
        raise PlanError(
            f"{workers.nodes} workers with {gpus} x {workers.accelerator or 'GPU'} each requested;"
            f" this cluster has room for {room}: {_accelerators(nodes) or 'it has no GPU'}."
            " Use fewer --nodes, another --accelerator or another --context"
        )


def _amount(node: dict[str, Any], resource: str) -> int:
    text = str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))
    return int(text) if text.isdecimal() else 0


def _accelerators(nodes: list[dict[str, Any]]) -> str:
    found = [
        f"{node['metadata']['name']} has {_amount(node, GPU)} x"
        f" {(node['metadata'].get('labels') or {}).get('nvidia.com/gpu.product', 'GPU')}"
        for node in nodes
        if _amount(node, GPU)
    ]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")  # noqa: PLR2004


WAIT: Final = "WAIT"
"""Method of the step that waits for the nodes."""
_NODES: Final = "/api/v1/nodes"


def wait_step(plan: Plan) -> Step:
    """Returns the step that waits until all nodes are ready; the job's deadline starts after it."""
    workers = plan.workers
    gpus = workers.accelerators_per_node
    return Step(
        ensure=f"{counted(workers.nodes, 'node')} ready{f' with {gpus} {workers.resource}' if gpus else ''}",
        method=WAIT,
        path=f"{_NODES}?labelSelector={RUN}={plan.node_run}",
        at="cluster",
    )


def list_nodes(api: ClusterApi, run: str) -> tuple[Node, ...]:
    """Returns the nodes with the run's label, started when they joined the cluster."""
    found = api.list(_NODES, f"{RUN}={run}")["items"]
    return tuple(
        Node(name=one["metadata"]["name"], started_at=one["metadata"].get("creationTimestamp"))
        for one in found
    )


def wait_for_nodes(api: ClusterApi, plan: Plan, poll_seconds: float) -> None:
    """Waits until one node per worker is ready and shows its accelerators.

    Raises:
        StockOutError: The nodes are not ready within the gang timeout.
    """
    began, reported, workers = monotonic_seconds(), "", plan.workers
    while True:
        found = api.list(_NODES, f"{RUN}={plan.node_run}")["items"]
        known = [(one, conditions_of(one).get("Ready") or {}) for one in found]
        ready = [one for one, condition in known if condition.get("status") == "True"]
        gpus = workers.accelerators_per_node
        able = [one for one in ready if not gpus or _amount(one, workers.resource) >= gpus]
        if len(able) >= workers.nodes:
            return
        why = f"{len(ready)} of {counted(workers.nodes, 'node')} ready"
        if len(ready) >= workers.nodes:
            why = (
                f"{len(able)} of {workers.nodes} ready nodes show {workers.resource}: the driver or its"
                " device plugin is not ready"
            )
        if why != reported:
            reported = why
            api.say(why)
        if monotonic_seconds() - began > plan.limits.gang_timeout_seconds:
            raise StockOutError(
                f"{why} after {plan.limits.gang_timeout_seconds:.0f} s",
                hint="reduce --nodes, change --region or increase --gang-timeout. Delete the rest:"
                f" cloudgan down {plan.run}",
            )
        time.sleep(poll_seconds)


_OUTSIDE: Final = 2
"""Index of the pod that no NetworkPolicy admits; its exit code is the result."""
_ENFORCED, _OPEN = 0, 3
_POLL_SECONDS: Final = 0.5
_ALLOW: Final = (
    "If you trust every pod of the cluster, pass --allow-open-ports; see docs/security.md"
)


def wait_for_port_probe(api: ClusterApi, pods: str, step: Step, plan: Plan) -> None:
    """Returns when the pods of the probe found that the policy is enforced.

    Raises:
        OpenPortsError: The policy is not enforced, or there is no result within the gang timeout, which
            begins when Kueue has admitted the probe, or nothing starts without a queue.
    """
    job, said = step.path.rpartition("/")[2], ""
    deadline = monotonic_seconds() + plan.limits.gang_timeout_seconds
    while True:
        found = api.list(pods, f"batch.kubernetes.io/job-name={job}")["items"]
        if not found and (queue := _queue_of_suspended(api, step.path)):
            deadline = monotonic_seconds() + plan.limits.gang_timeout_seconds
            if queue != said:
                api.say(f"Job {job} waits in queue {queue} until Kueue admits it")
                said = queue
        codes = {index_of(pod): _exit_code(pod) for pod in found}
        if codes.get(_OUTSIDE) == _ENFORCED:
            return
        if codes.get(_OUTSIDE) == _OPEN:
            raise OpenPortsError(
                "this cluster does not enforce NetworkPolicy: a pod outside the run could connect to"
                " the ports of the workers, and TensorFlow executes what it receives there. Nothing"
                " was started. Use a cluster with a network policy engine, or --nodes=1."
                f" {_ALLOW}"
            )
        failed = any(code for code in codes.values())
        if failed or monotonic_seconds() > deadline:
            raise OpenPortsError(
                f"whether this cluster enforces NetworkPolicy is unknown: Job {job}"
                f" {'failed' if failed else 'did not finish'} ({_states(found)}). Nothing was"
                f" started; rerun the command. {_ALLOW}"
            )
        time.sleep(_POLL_SECONDS)


def _queue_of_suspended(api: ClusterApi, path: str) -> str | None:
    """Returns the queue of Kueue in which a Job waits; None: it is not suspended.

    Kueue suspends every Job of a namespace where its administrator says so (manageJobsWithoutQueueName), and never
    starts one without a queue
    (https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/manage_jobs_without_queue_name/, read 2026-11-30).
    """
    job = api.get(path)
    if job is None or not job["spec"].get("suspend"):
        return None
    queue: str | None = (job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    if queue is None:
        raise OpenPortsError(
            f"Job {job['metadata']['name']}, which tests whether this cluster enforces NetworkPolicy, was suspended:"
            f" Kueue starts no Job of namespace {job['metadata']['namespace']} without a queue. Nothing was started;"
            " pass --queue=NAME"
        )
    return queue


def _exit_code(pod: dict[str, Any]) -> int | None:
    """Returns the exit code of a pod's container; None if it has not ended."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if ended:
            return int(ended.get("exitCode", 1))
    return None


def _states(pods: list[dict[str, Any]]) -> str:
    """Returns the phase of each pod, with the reason for which its container waits."""
    shown = []
    for pod in pods:
        status = pod.get("status") or {}
        waits = [
            str(((one.get("state") or {}).get("waiting") or {}).get("reason", ""))
            for one in status.get("containerStatuses") or ()
        ]
        conditions = [str(one.get("message", "")) for one in status.get("conditions") or ()]
        why = next(filter(None, (*waits, *conditions)), "")
        shown.append(f"pod {index_of(pod)} {status.get('phase', 'Unknown')}{why and f': {why}'}")
    return "; ".join(shown) or "no pods"
