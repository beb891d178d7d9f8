"""The cluster, the run's own pool in it, and who its pods are: bodies as AKS takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.core.labels import EXPIRES, RUN, SHARED
from cloudgan.core.plan import Step
from cloudgan.kubernetes.device_plugin import GPU_NODE, device_plugin_step
from cloudgan.providers.azure import ids
from cloudgan.providers.azure.sizes import SYSTEM_SIZE

if TYPE_CHECKING:
    from cloudgan.core.plan import Place, Plan

SPOT_TAINT = "kubernetes.azure.com/scalesetpriority"
"""AKS puts it on each node of a Spot pool by itself, with the value spot."""
GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"
SYSTEM_POOL = "system"
NAMESPACE = SERVICE_ACCOUNT = "cloudgan"


def cluster_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps of the cluster, its pods' identity, the pool, and what shows its GPUs."""
    assert plan.rental is not None  # noqa: S101  only rented plans come here
    place, pool = plan.place, ids.pool_id(plan.place, plan.rental.pool)
    credential = ids.credential_id(place)
    return (
        put(
            f"AKS cluster {place.cluster} in {place.region}, of which one {SYSTEM_SIZE} always bills",
            ids.cluster_id(place),
            cluster_body(place),
        ),
        put(f"pods of {place.cluster} are {ids.IDENTITY}", credential, credential_body()),
        put(
            f"AKS pool {plan.rental.pool} of {plan.workers.nodes} x {plan.rental.node_type},"
            f" {plan.rental.market.replace('_', ' ')}",
            pool,
            pool_body(plan),
        ),
        device_plugin_step(),
    )


def put(ensure: str, address: str, body: dict[str, Any]) -> Step:
    """Returns the step that ensures what is at an address of the Azure Resource Manager."""
    path = ids.versioned(address)
    return Step(ensure=ensure, method="PUT", path=path, find=path, body=body, at="cloud")


def cluster_body(place: Place) -> dict[str, Any]:
    """Returns the smallest cluster whose pods can have an identity: free of charge but one node."""
    region = place.region or ""
    system = {
        "name": SYSTEM_POOL,
        "mode": "System",
        "type": "VirtualMachineScaleSets",
        "osType": "Linux",
        "count": 1,
        "vmSize": SYSTEM_SIZE,
    }
    return {
        "location": region,
        "tags": {SHARED: "cluster"},
        "identity": {"type": "SystemAssigned"},
        "sku": {"name": "Base", "tier": "Free"},
        "properties": {
            "dnsPrefix": ids.group_name(region),
            "nodeResourceGroup": ids.nodes_group_name(region),
            "agentPoolProfiles": [system],
            "oidcIssuerProfile": {"enabled": True},
            "securityProfile": {"workloadIdentity": {"enabled": True}},
            "networkProfile": {
                "networkPlugin": "azure",
                "networkPluginMode": "overlay",
                "networkDataplane": "cilium",
                "networkPolicy": "cilium",
            },
            # A new image of the nodes' system would restart them in the middle of a run.
            "autoUpgradeProfile": {"upgradeChannel": "none", "nodeOSUpgradeChannel": "None"},
        },
    }


def pool_body(plan: Plan) -> dict[str, Any]:
    """Returns the run's pool: N nodes at once, and none any more when no pod needs them."""
    assert plan.rental is not None  # noqa: S101  see above
    properties: dict[str, Any] = {
        "mode": "User",
        "type": "VirtualMachineScaleSets",
        "osType": "Linux",
        "vmSize": plan.rental.node_type,
        "count": plan.workers.nodes,
        # The cluster's autoscaler takes idle nodes away, whoever has forgotten them.
        "enableAutoScaling": True,
        "minCount": 0,
        "maxCount": plan.workers.nodes,
        "gpuProfile": {"driver": "Install"},
        "nodeLabels": {RUN: plan.run, EXPIRES: plan.expires, **GPU_NODE},
        "nodeTaints": [GPU_TAINT],
        "tags": plan.labels().as_dict(),
    }
    if plan.place.zone:  # a region may have none
        properties["availabilityZones"] = [plan.place.zone]
    if plan.rental.market == "spot":
        properties |= {
            "scaleSetPriority": "Spot",
            "scaleSetEvictionPolicy": "Delete",
            "spotMaxPrice": -1,  # up to the price on demand: evicted for capacity only
        }
    return {"properties": properties}


def credential_body() -> dict[str, Any]:
    """Returns what makes tokens of the pods' service account tokens of their identity."""
    return {
        "properties": {
            "issuer": ids.ISSUER,
            "subject": f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}",
            "audiences": ["api://AzureADTokenExchange"],
        }
    }
