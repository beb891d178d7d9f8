"""The bodies of clusters and node pools, as Kubernetes Engine takes them.

Fields: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1 (revision 20261027, as the
discovery document that the tests hold them against).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import PlanError
from cloudgan.core.labels import SHARED
from cloudgan.providers.gcp.addresses import NODES_ACCOUNT, account_email
from cloudgan.providers.gcp.machines import TPU, machine

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan, Rental
    from cloudgan.providers.gcp.machines import Machine

SYSTEM_NODE = "e2-medium"
SPOT_GRACE_SECONDS, SYSTEM_GRACE_SECONDS = 120, 15
"""From the notice to the end of a spot node, and what of it is the system's own pods'."""

_DISK_GIB = 100
_SYSTEM_DISK_GIB = 32
_SPARE_SECONDS = 1800
"""For machines to start, drivers to be installed and images to be pulled."""
_LONGEST_SECONDS = 120 * 24 * 3600
_LONGEST_FLEX_SECONDS = 7 * 24 * 3600
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def cluster_body(name: str, project: str) -> dict[str, Any]:
    """Returns a cluster that costs little by itself: one small node, no paid extras."""
    return {
        "name": name,
        "description": "made by cloudgan, which removes it when no run uses it any more",
        "resourceLabels": {SHARED: "cluster"},
        "releaseChannel": {"channel": "REGULAR"},
        "ipAllocationPolicy": {"useIpAliases": True},
        # Enforces the runs' network policies; without it they are only written down.
        "networkConfig": {"datapathProvider": "ADVANCED_DATAPATH"},
        "workloadIdentityConfig": {"workloadPool": f"{project}.svc.id.goog"},
        "costManagementConfig": {"enabled": True},
        "loggingConfig": {"componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
        "monitoringConfig": {
            "componentConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]},
            "managedPrometheusConfig": {"enabled": False},
        },
        "nodePools": [
            {
                "name": "system",
                "initialNodeCount": 1,
                # The second one only where what Kubernetes itself runs does not fit on one.
                "autoscaling": {"enabled": True, "minNodeCount": 1, "maxNodeCount": 2},
                "config": _node(SYSTEM_NODE, project, {SHARED: "cluster"})
                | {"diskType": "pd-standard", "diskSizeGb": _SYSTEM_DISK_GIB},
            }
        ],
    }


def pool_body(plan: Plan, rental: Rental) -> dict[str, Any]:
    """Returns the run's own nodes.

    Two switches end them without us. The autoscaler may go to zero: it takes nodes that no pod
    needs, such as when the job is over, or was never made. `maxRunDuration` ends each machine,
    whatever runs on it. Should the pool fill up again after that, no pod is there to keep the new
    nodes, as the job's deadline is over before, and the autoscaler takes them as well. That is why
    none of the two is left out.

    Raises:
        PlanError: Flex-start nodes do not live as long as the run may take.
    """
    kind, nodes = machine(rental.node_type), plan.workers.nodes
    config = _node(kind.machine_type, plan.place.account or "", plan.labels().as_dict()) | {
        "diskType": kind.disk_type,
        "diskSizeGb": _DISK_GIB,
        "labels": plan.labels().as_dict(),
        "taints": [{"key": "cloudgan-run", "value": plan.run, "effect": "NO_SCHEDULE"}],
        "maxRunDuration": f"{_life_seconds(plan, rental)}s",
    }
    if kind.resource != TPU:
        config["accelerators"] = [_accelerator(kind)]
    if rental.market == "spot":
        config["spot"] = True
        config["kubeletConfig"] = {
            "shutdownGracePeriodSeconds": SPOT_GRACE_SECONDS,
            "shutdownGracePeriodCriticalPodsSeconds": SYSTEM_GRACE_SECONDS,
        }
    body: dict[str, Any] = {
        "name": rental.pool,
        "initialNodeCount": nodes,
        "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": nodes},
        "locations": [plan.place.zone],
        "config": config,
    }
    return _flexible(body) if rental.flex_start else body


def _flexible(body: dict[str, Any]) -> dict[str, Any]:
    """Flex-start nodes come when pods wait for them, so there are none at first.

    No page of Google's says it in these fields; they are the flags that AI-Hypercomputer/xpk gives
    (src/xpk/core/capacity.py, read 2026-11-21) in the words of container.v1.
    """
    return body | {
        "initialNodeCount": 0,
        "autoscaling": body["autoscaling"] | {"locationPolicy": "ANY"},
        "management": {"autoRepair": False, "autoUpgrade": True},
        "config": body["config"]
        | {"flexStart": True, "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}},
    }


def _node(machine_type: str, project: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "machineType": machine_type,
        "serviceAccount": account_email(NODES_ACCOUNT, project),
        "oauthScopes": list(_SCOPES),
        "resourceLabels": labels,
        # Pods get their own identity, never the machine's.
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
    }


def _accelerator(kind: Machine) -> dict[str, Any]:
    """With the driver of the node image: newer ones know neither P100 nor V100 any more."""
    return {
        "acceleratorType": kind.kind.name,
        "acceleratorCount": str(kind.accelerators),
        "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
    }


def _life_seconds(plan: Plan, rental: Rental) -> int:
    """From a machine's start: what the run may wait for the others, and then take."""
    limits = plan.limits
    wanted = int(limits.deadline_seconds + limits.gang_timeout_seconds + _SPARE_SECONDS)
    if rental.flex_start and wanted > _LONGEST_FLEX_SECONDS:
        hours = (_LONGEST_FLEX_SECONDS - limits.gang_timeout_seconds - _SPARE_SECONDS) // 3600
        raise PlanError(
            f"flex-start nodes end after 7 days, and this run may take"
            f" {limits.deadline_seconds / 3600:.0f} h; give --max_hours={hours:.0f}, or leave"
            " --flex_start out"
        )
    return min(wanted, _LONGEST_SECONDS)
