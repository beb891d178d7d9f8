"""Checks before a launch: permissions, accelerators, queue and claim of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core import assets
from cloudgan.core.documents import parse_yaml
from cloudgan.core.errors import ConfigError, CredentialsError, PlanError
from cloudgan.launch.kubernetes.manifests import CLAIM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.schema.plan import Plan

GPU = "nvidia.com/gpu"
GANG_GROUP = "scheduling.k8s.io/v1beta1"
_KUEUE = "kueue.x-k8s.io/"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def check_permissions(api: ClusterApi, namespace: str) -> None:
    """Checks each permission in deploy/kubernetes/role.yaml.

    Raises:
        CredentialsError: One is missing, or the credentials are rejected.
    """
    missing = [name for name, spec in _required(namespace) if not _is_allowed(api, spec)]
    if missing:
        raise CredentialsError(
            f"missing permissions in namespace {namespace}: {', '.join(missing)}. Ask an"
            " administrator to apply deploy/kubernetes/role.yaml, or use another --namespace"
        )


def check_cluster(api: ClusterApi, plan: Plan) -> tuple[str, ...]:
    """Checks that the cluster has what the plan needs; returns a warning per impossible check.

    Raises:
        PlanError: The cluster has too few of the accelerators.
        ConfigError: The queue or the claim does not exist.
    """
    warnings = list(_check_nodes(api, plan))
    if plan.target.queue and not any(g.startswith(_KUEUE) for g in api.groups()):
        raise ConfigError(f"--queue={plan.target.queue}: this cluster has no Kueue; omit --queue")
    if plan.store.startswith(CLAIM):
        name = plan.store.removeprefix(CLAIM)
        path = f"/api/v1/namespaces/{plan.target.namespace}/persistentvolumeclaims/{name}"
        if api.get(path) is None:
            raise ConfigError(
                f"--store={plan.store}: namespace {plan.target.namespace} has no such PersistentVolumeClaim"
            )
    return tuple(warnings)


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
    selected = [node for node in nodes if _fits(node, workers.node_selector)]
    if not selected and workers.node_selector:
        raise PlanError(
            f"no node of this cluster has the labels {_pairs(workers.node_selector)};"
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


def _fits(node: dict[str, Any], selector: dict[str, str]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


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


def _pairs(labels: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())
