"""What a cluster lets us do and has, asked before anything is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from cloudgan import assets
from cloudgan.core.errors import ConfigError, CredentialsError, PlanError
from cloudgan.kubernetes.manifests import CLAIM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.plan import Plan
    from cloudgan.kubernetes.api import ClusterApi

GPU = "nvidia.com/gpu"
GANG_GROUP = "scheduling.k8s.io/v1beta1"
_KUEUE = "kueue.x-k8s.io/"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def check_rights(api: ClusterApi, namespace: str) -> None:
    """Asks for each right of deploy/kubernetes/role.yaml.

    Raises:
        CredentialsError: One is missing, or the login is not accepted.
    """
    missing = [right for right, spec in _rights(namespace) if not _is_allowed(api, spec)]
    if missing:
        raise CredentialsError(
            f"this login may not, in namespace {namespace}: {', '.join(missing)}. An administrator"
            " grants it with deploy/kubernetes/role.yaml, or take another --namespace"
        )


def check_place(api: ClusterApi, plan: Plan) -> tuple[str, ...]:
    """Finds whether the cluster has what the plan needs; returns what could not be looked at.

    Raises:
        PlanError: It has no such accelerators, or too few.
        ConfigError: There is no such queue or claim.
    """
    warnings = list(_check_nodes(api, plan))
    if plan.place.queue and not any(g.startswith(_KUEUE) for g in api.groups()):
        raise ConfigError(
            f"--queue={plan.place.queue}: this cluster has no Kueue; leave --queue out"
        )
    if plan.store.startswith(CLAIM):
        name = plan.store.removeprefix(CLAIM)
        path = f"/api/v1/namespaces/{plan.place.namespace}/persistentvolumeclaims/{name}"
        if api.get(path) is None:
            raise ConfigError(
                f"--store={plan.store}: namespace {plan.place.namespace} has no such claim"
            )
    return tuple(warnings)


def _rights(namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    role = yaml.safe_load(assets.read_text("deploy/kubernetes/role.yaml"))
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
        yield "this login may not look at nodes, so nobody checked whether the workers fit on them"
        return
    selected = [node for node in nodes if _fits(node, workers.node_selector)]
    if not selected and workers.node_selector:
        raise PlanError(
            f"no node of this cluster has the labels {_pairs(workers.node_selector)};"
            f" found: {_accelerators(nodes) or 'no accelerator at all'}"
        )
    gpus = workers.accelerators_per_node
    if not gpus:
        return
    able = [node for node in selected if _amount(node, GPU) >= gpus]
    room = sum(_amount(node, GPU) // gpus for node in able)
    if room < workers.nodes:
        raise PlanError(
            f"{workers.nodes} workers with {gpus} x {workers.accelerator or 'GPU'} each were asked,"
            f" and this cluster has room for {room}: {_accelerators(nodes) or 'it has no GPU'}."
            " Take fewer --nodes, another --accelerator or another --context"
        )


def _fits(node: dict[str, Any], selector: dict[str, str]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _amount(node: dict[str, Any], resource: str) -> int:
    text = str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))
    return int(text) if text.isdigit() else 0


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
