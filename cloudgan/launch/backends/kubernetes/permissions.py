"""Checks before a launch: permissions, accelerators, queue and claim of a cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Final

from cloudgan.core import assets, clouds
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.documents import parse_yaml
from cloudgan.core.errors import ConfigError, CredentialsError, PlanError
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.kubernetes.kueue import GROUP as KUEUE
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.launch.kubernetes.pod_network import CILIUM
from cloudgan.schema.plan import GPU, Plan, Step, Target

GANG_GROUP = "scheduling.k8s.io/v1beta1"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def check_permissions(api: ClusterApi, namespace: str, *, queue: str | None = None) -> None:
    """Checks each permission in deploy/kubernetes/role.yaml that a run needs here."""
    asks_kueue = queue is not None and kueue_path(api, namespace) is not None
    missing = [
        name
        for name, spec in _required(namespace)
        if (spec["group"] != KUEUE or asks_kueue) and not _is_allowed(api, spec)
    ]
    if missing:
        raise CredentialsError(
            f"missing permissions in namespace {namespace}: {', '.join(missing)}. Ask an"
            " administrator to apply deploy/kubernetes/role.yaml, or use another --namespace"
        )


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
    if missing:
        raise CredentialsError(
            f"this login may not {', '.join(_named(spec) for spec, _ in missing)} in cluster"
            f" {target.cluster}. {grant}"
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


def _named(spec: dict[str, Any]) -> str:
    resource = "/".join(filter(None, (spec["resource"], spec.get("subresource"))))
    place = f" in namespace {spec['namespace']}" if spec["namespace"] else ""
    return f"{spec['verb']} {resource}{place}"


def check_cluster(api: ClusterApi, plan: Plan) -> tuple[str, ...]:
    """Checks that the cluster has what the plan needs; returns a warning per impossible check.

    Raises:
        PlanError: The cluster has too few of the accelerators.
    """
    warnings = list(_check_nodes(api, plan))
    if plan.target.queue:
        _check_queue(api, plan.target.namespace, plan.target.queue)
    if plan.store.startswith(CLAIM):
        name = plan.store.removeprefix(CLAIM)
        path = f"/api/v1/namespaces/{plan.target.namespace}/persistentvolumeclaims/{name}"
        if api.get(path) is None:
            raise ConfigError(
                f"--store={plan.store}: namespace {plan.target.namespace} has no such PersistentVolumeClaim"
            )
    return tuple(warnings)


def _check_queue(api: ClusterApi, namespace: str | None, queue: str) -> None:
    path = kueue_path(api, namespace)
    if path is None:
        raise ConfigError(f"--queue={queue}: this cluster has no Kueue; omit --queue")
    known = sorted(one["metadata"]["name"] for one in api.list(f"{path}/localqueues")["items"])
    if queue not in known:
        raise ConfigError(
            f"--queue={queue}: namespace {namespace} has no such queue of Kueue; it has"
            f" {', '.join(known) or 'none'}"
        )


def kueue_path(api: ClusterApi, namespace: str | None) -> str | None:
    """Returns the path of Kueue's objects in a namespace; None: the cluster has no Kueue."""
    group = api.get(f"/apis/{KUEUE}")
    if group is None:
        return None
    return f"/apis/{group['preferredVersion']['groupVersion']}/namespaces/{namespace}"


_ROLE = "deploy/kubernetes/role.yaml"


def _required(namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    role = parse_yaml(assets.read_text(_ROLE), _ROLE)
    for rule in role["rules"]:
        for resource in rule["resources"]:
            name, _, part = resource.partition("/")
            for verb in rule["verbs"]:
                spec = {
                    "namespace": namespace,
                    "verb": verb,
                    "group": rule["apiGroups"][0],
                    "resource": name,
                } | ({"subresource": part} if part else {})
                yield f"{verb} {resource}", spec


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
        nodes = api.list("/api/v1/nodes")["items"]
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
