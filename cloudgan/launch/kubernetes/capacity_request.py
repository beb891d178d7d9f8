"""A request for all nodes of a run at once: ProvisioningRequest of class queued-provisioning.gke.io.

GKE starts all nodes in one zone together, or none, and only pods that name the request run on them. They may
exist before it is provisioned ("create Pods in parallel with the Provisioning Request"), so the Job is
created first, with its deadline, and owns the request and the template of its pods: both are deleted with
it, which cancels the request. Without a pod, nodes go after ten minutes.
https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest (as of 2026-04-08); types and
conditions: kubernetes/autoscaler, cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go
(both read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cloudgan.schema.plan import Plan

_CLASS: Final = "queued-provisioning.gke.io"
_CONSUME: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
_CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
_START_SECONDS: Final = 1800
"""Time for node start, driver installation and image pulls."""
_LOST: Final = ("Failed", "CapacityRevoked", "BookingExpired")
"""Conditions after which no nodes come."""
REQUESTS: Final = "/apis/autoscaling.x-k8s.io/v1/namespaces/{}/provisioningrequests"


def pod_annotations(plan: Plan) -> dict[str, str]:
    """Returns the annotations of the pods that run on requested nodes; empty: no request."""
    if plan.node_pool is None or not plan.node_pool.queued:
        return {}
    return {_CONSUME: plan.run, _CLASS_NAME: _CLASS}


def requested_by(job: Mapping[str, Any]) -> str | None:
    """Returns the name of the request that the pods of a Job consume."""
    template = job["spec"]["template"].get("metadata") or {}
    name: str | None = (template.get("annotations") or {}).get(_CONSUME)
    return name


def manifests(plan: Plan, job: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Returns the template of the pods and the request for their nodes; empty: none is needed."""
    if not pod_annotations(plan):
        return ()
    limits, template = plan.limits, job["spec"]["template"]
    seconds = round(limits.deadline_seconds + limits.gang_timeout_seconds) + _START_SECONDS
    # GKE applies the same changes to the template as to pods, and so knows what they need.
    warden = {"cloud.google.com/apply-warden-policies": "true"}
    return (
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": _metadata(plan, warden),
            "template": {
                "metadata": {"labels": dict(template["metadata"]["labels"])},
                "spec": template["spec"],
            },
        },
        {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": _metadata(plan, {}),
            "spec": {
                "provisioningClassName": _CLASS,
                "parameters": {"maxRunDurationSeconds": str(seconds)},
                "podSets": [{"count": plan.workers.nodes, "podTemplateRef": {"name": plan.run}}],
            },
        },
    )


def _metadata(plan: Plan, labels: Mapping[str, str]) -> dict[str, Any]:
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": plan.run,
        "uid": "<of the Job>",
        "blockOwnerDeletion": True,
    }
    return {
        "labels": {"app.kubernetes.io/name": "cloudgan", **labels},
        "ownerReferences": [owner],
    }


def progress(request: Mapping[str, Any]) -> tuple[str, bool]:
    """Returns what GKE says about a request, and whether its nodes cannot come any more."""
    conditions = {
        str(one["type"]): one for one in (request.get("status") or {}).get("conditions") or ()
    }
    for name in _LOST:
        if (conditions.get(name) or {}).get("status") == "True":
            return f"the request for nodes has the condition {_said(name, conditions[name])}", True
    waiting = conditions.get("Provisioned") or {}
    if waiting.get("status") == "False":
        return f"nodes are requested: {_said('', waiting)}", False
    return ("" if waiting else "nodes are requested, and none is available yet"), False


def _said(name: str, condition: Mapping[str, Any]) -> str:
    parts = (name, str(condition.get("reason", "")), str(condition.get("message", "")))
    return " ".join(": ".join(part for part in parts if part).split())
