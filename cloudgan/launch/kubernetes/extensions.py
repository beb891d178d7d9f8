"""What some clusters add to Kubernetes: Kueue's queues, GKE's capacity requests, and the clouds' logins for pods.

Kueue makes a Workload of a Job with the label of a queue, and suspends and resumes the Job
(https://kueue.sigs.k8s.io/docs/tasks/run/jobs/, read 2026-11-30). The conditions and their messages are those of
Kueue 0.17 as tests/realcluster runs it.

With a ProvisioningRequest of class queued-provisioning.gke.io GKE starts all nodes in one zone together, or none,
and only pods that name the request run on them. They may exist before it is provisioned ("create Pods in parallel
with the Provisioning Request"), so the Job is created first, with its deadline, and owns the request and the
template of its pods: both are deleted with it, which cancels the request. Without a pod, nodes go after ten
minutes. https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest (as of 2026-04-08); types
and conditions: kubernetes/autoscaler, cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go
(both read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cloudgan.core import clouds
from cloudgan.core.labels import RUN
from cloudgan.schema.plan import Plan
from cloudgan.schema.run_state import RunState

Object = Mapping[str, Any]

KUEUE: Final = "kueue.x-k8s.io"
JOB_LABEL: Final = f"{KUEUE}/job-uid"
"""Of a Workload."""
QUEUE_LABEL: Final = f"{KUEUE}/queue-name"
_TIME_LABEL: Final = f"{KUEUE}/max-exec-time-seconds"
"""Ends a Job after so many seconds in all; its own deadline starts again each time that Kueue resumes it."""


def queue_labels(plan: Plan) -> dict[str, str]:
    """Returns the labels with which Kueue takes a Job; none without --queue."""
    queue, seconds = plan.target.queue, plan.limits.deadline_seconds
    return {QUEUE_LABEL: queue, _TIME_LABEL: str(seconds)} if queue else {}


def in_queue(found: RunState, job: Object, workload: Object | None) -> RunState:
    """Returns the state of a run whose Job is suspended; no `workload`: Kueue made none yet, or it is unknown."""
    queue = (job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    if queue is None:
        why = "the Job of this run was suspended with another program; Kueue starts none without --queue"
        return replace(found, reason=why)
    why = f"waits in queue {queue} until Kueue admits it"
    conditions = conditions_of(workload)
    if workload and workload["spec"].get("active") is False:
        evicted = conditions.get("Evicted") or {}
        if str(evicted.get("reason", "")).endswith("MaximumExecutionTimeExceeded"):
            why = f"its deadline of {job['spec'].get('activeDeadlineSeconds')} s has passed"
            ended = evicted.get("lastTransitionTime")
            return replace(found, phase="failed", reason=why, cause="deadline", ended_at=ended)
        why = f"was deactivated in queue {queue}; an administrator of Kueue activates it"
    for step in ("QuotaReserved", "Admitted"):
        condition = conditions.get(step) or {}
        if condition.get("status") == "False" and condition.get("message"):
            return replace(found, reason=f"{why} ({' '.join(condition['message'].split())})")
    return replace(found, reason=why)


def conditions_of(found: Object | None) -> dict[str, Object]:
    """Returns the conditions of an object by type."""
    listed = ((found or {}).get("status") or {}).get("conditions") or ()
    return {str(one["type"]): one for one in listed}


REQUESTS: Final = "/apis/autoscaling.x-k8s.io/v1/namespaces/{}/provisioningrequests"
_CLASS: Final = "queued-provisioning.gke.io"
_CONSUME: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
_CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
_START_SECONDS: Final = 1800
"""Time for node start, driver installation and image pulls."""
_LOST: Final = ("Failed", "CapacityRevoked", "BookingExpired")
"""Conditions after which no nodes come."""


def request_annotations(plan: Plan) -> dict[str, str]:
    """Returns the annotations of the pods that run on requested nodes; empty: no request."""
    if plan.node_pool is None or not plan.node_pool.queued:
        return {}
    return {_CONSUME: plan.run, _CLASS_NAME: _CLASS}


def requested_by(job: Object) -> str | None:
    """Returns the name of the request that the pods of a Job consume."""
    template = job["spec"]["template"].get("metadata") or {}
    name: str | None = (template.get("annotations") or {}).get(_CONSUME)
    return name


def capacity_request(plan: Plan, job: Object) -> tuple[dict[str, Any], ...]:
    """Returns the template of the pods and the request for their nodes; empty: none is needed."""
    if not request_annotations(plan):
        return ()
    limits, template = plan.limits, job["spec"]["template"]
    seconds = round(limits.deadline_seconds + limits.gang_timeout_seconds) + _START_SECONDS
    # GKE applies the same changes to the template as to pods, and so knows what they need.
    warden = {"cloud.google.com/apply-warden-policies": "true"}
    return (
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": _of_job(plan, warden, blockOwnerDeletion=True),
            "template": {
                "metadata": {"labels": dict(template["metadata"]["labels"])},
                "spec": template["spec"],
            },
        },
        {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": _of_job(plan, {}, blockOwnerDeletion=True),
            "spec": {
                "provisioningClassName": _CLASS,
                "parameters": {"maxRunDurationSeconds": str(seconds)},
                "podSets": [{"count": plan.workers.nodes, "podTemplateRef": {"name": plan.run}}],
            },
        },
    )


def _of_job(plan: Plan, labels: Mapping[str, str], **more: bool) -> dict[str, Any]:
    """Returns the metadata of an object that is deleted with the run's Job, whose UID is not known yet."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": plan.run, "uid": "<of the Job>"}
    own = {"app.kubernetes.io/name": "cloudgan", **labels}
    return {"labels": own, "ownerReferences": [owner | more]}


def progress(request: Object) -> tuple[str, bool]:
    """Returns what GKE says about a request, and whether its nodes cannot come any more."""
    conditions = conditions_of(request)
    for name in _LOST:
        if (conditions.get(name) or {}).get("status") == "True":
            return f"the request for nodes has the condition {_said(name, conditions[name])}", True
    waiting = conditions.get("Provisioned") or {}
    if waiting.get("status") == "False":
        return f"nodes are requested: {_said('', waiting)}", False
    return ("" if waiting else "nodes are requested, and none is available yet"), False


def _said(name: str, condition: Object) -> str:
    parts = (name, str(condition.get("reason", "")), str(condition.get("message", "")))
    return " ".join(": ".join(part for part in parts if part).split())


CILIUM: Final = "cilium.io/"
"""API group, with a slash; a cluster without Cilium does not know it."""
_AGENT: Final = ("169.254.170.23", 80)  # of EKS Pod Identity, on the network of the node


def asks_agent(plan: Plan) -> bool:
    """Whether pods of a cluster that cloudgan did not create get their credentials from EKS Pod Identity."""
    own = (*plan.workers.kubernetes_secrets, "AWS_SECRET_ACCESS_KEY" in plan.workers.secrets)
    has_own = plan.target.cluster == clouds.CLUSTER or any(own)
    return not has_own and _AGENT in _pod_endpoints(plan)


def cilium_policy(plan: Plan) -> dict[str, Any]:
    """Returns what lets pods reach the Pod Identity agent where Cilium enforces the NetworkPolicy.

    Cilium matches no address of a node by an IP block, but by the entity `host`
    (https://docs.cilium.io/en/latest/security/policy/layer3/, https://github.com/cilium/cilium/issues/34387
    and https://github.com/Smana/runlore/pull/57, which tried this policy; 2026-11-25).
    """
    address = {"port": str(_AGENT[1]), "protocol": "TCP"}
    return {
        "apiVersion": f"{CILIUM}v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": _of_job(plan, {}),
        "spec": {
            "endpointSelector": {"matchLabels": {RUN: plan.run}},
            "egress": [{"toEntities": ["host"], "toPorts": [{"ports": [address]}]}],
        },
    }


def metadata_rules(plan: Plan) -> list[dict[str, Any]]:
    """Returns the egress rules for the cloud's metadata services; none outside a cloud.

    On a preexisting cluster the store's cloud decides, because it issues the pods' credentials.
    """
    return [
        {
            "to": [{"ipBlock": {"cidr": f"{address}/32"}}],
            "ports": [{"protocol": "TCP", "port": port}],
        }
        for address, port in _pod_endpoints(plan)
    ]


def _pod_endpoints(plan: Plan) -> tuple[tuple[str, int], ...]:
    cloud = plan.target.provider if plan.target.is_provisioned else clouds.of_bucket(plan.store)
    return clouds.find(cloud).pod_endpoints if cloud else ()
