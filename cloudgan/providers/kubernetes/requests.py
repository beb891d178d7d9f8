"""The requests that make a run on a cluster, as values: no network, no login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.plan import Step
from cloudgan.kubernetes.manifests import manifests, namespace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.plan import Plan

_PLURALS = {
    "ConfigMap": "configmaps",
    "Job": "jobs",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}


def collection(body: Mapping[str, Any]) -> str:
    """Returns the path under which an object of this kind is created."""
    version, kind = body["apiVersion"], _PLURALS[body["kind"]]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = body["metadata"].get("namespace")
    return f"{root}/namespaces/{place}/{kind}" if place else f"{root}/{kind}"


def object_path(body: Mapping[str, Any]) -> str:
    """Returns the path of one object."""
    return f"{collection(body)}/{body['metadata']['name']}"


def steps(plan: Plan, *, gang: bool = False) -> tuple[Step, ...]:
    """Returns what is ensured, in this order; the intent is written first, the Job last."""
    bodies = (namespace(plan), *manifests(plan, gang=gang))
    return tuple(
        Step(
            ensure=f"{body['kind']} {body['metadata']['name']}",
            method="POST",
            path=collection(body),
            find=object_path(body),
            body=body,
        )
        for body in bodies
    )
