"""The Azure planner: targets, node pools, the requests of a plan and of `setup`. Pure, needs no SDK."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from cloudgan.core import machines
from cloudgan.core.clouds import CLUSTER, NAMESPACE, SERVICE_ACCOUNT
from cloudgan.core.errors import ConfigError, PlanError, UnknownNameError
from cloudgan.core.labels import EXPIRES, RUN, SHARED
from cloudgan.core.machines import Machine
from cloudgan.launch.backends.kubernetes.checks import review_step
from cloudgan.launch.clouds.azure import ids, kinds
from cloudgan.launch.clouds.azure.ids import Ref
from cloudgan.launch.clouds.planner import (
    NodePoolRequest,
    desired_state_step,
    pool_of,
    reservation_parts,
)
from cloudgan.launch.clouds.rows import Kind
from cloudgan.launch.kubernetes.manifests import GPU_NODE, device_plugin_step, hold_step
from cloudgan.schema.plan import (
    NodePool,
    Plan,
    Step,
    Target,
    Toleration,
    Workers,
)
from cloudgan.schema.price_row import PoolFee

SPOT_TAINT = "kubernetes.azure.com/scalesetpriority"
"""Taint that AKS sets on each node of a Spot pool, with the value spot."""
GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"
SYSTEM_NODE = "system_node"
"""Detail of the target: the size of the cluster's own node."""
DISK_GIB = 128
"""Size of a node's disk, and AKS' default for the system node's size."""
# https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage, read 2026-11-21
BLOB_CONTRIBUTOR: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
"""Storage Blob Data Contributor: owners and contributors need it too to read blobs."""
_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_RESERVATION = re.compile(r"([-\w.()]{0,89}[-\w()])/([-\w.]{0,79}\w)", re.ASCII)
_LONGEST_POOL = 12
_ZONES = ("1", "2", "3")
_DISK = "Premium SSD P10"
_FEES = (
    PoolFee(kind="disk", product=_DISK, quantity=DISK_GIB),
    PoolFee(kind="disk", product=_DISK, quantity=DISK_GIB, per_node=False),
    PoolFee(kind="load_balancer", per_node=False),
    PoolFee(kind="public_ip", per_node=False),
)
"""Upper bounds: AKS prefers an ephemeral disk, which is part of the machine's price, where it fits
(https://azure.github.io/PSRule.Rules.Azure/en/rules/Azure.AKS.EphemeralOSDisk, read 2026-11-22).
Nodes have no public addresses; they share that of the load balancer, which AKS creates for egress."""
_SPOT_GRACE_SECONDS = 25
"""A Spot machine gets 30 s notice, its pods slightly less
(https://learn.microsoft.com/azure/virtual-machines/spot-vms, read 2026-11-21)."""


def target(account: str | None, region: str, zone: str | None, cluster: str | None) -> Target:
    """Returns a target; `account` is a subscription id, `cluster` a name or GROUP/NAME."""
    if account and account != ids.SUBSCRIPTION and not _GUID.fullmatch(account):
        raise ConfigError(
            f"--subscription={account} is not an id; give the 36 characters shown by `az account list`"
            " or the Azure portal, such as 00000000-0000-0000-0000-000000000000"
        )
    if zone and zone not in _ZONES:
        raise ConfigError(f"--zone={zone} is not valid; zones of Azure: {', '.join(_ZONES)}")
    return Target.of_flags(
        provider="azure",
        namespace=NAMESPACE,
        service_account=SERVICE_ACCOUNT,
        account=account or ids.SUBSCRIPTION,
        region=region,
        zone=zone or ids.ZONE,
        cluster=cluster or CLUSTER,
        details={SYSTEM_NODE: ids.SYSTEM_SIZE},
    )


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the node pool."""
    size_of(wanted.node_type)
    if wanted.flex_start:
        raise PlanError(
            "--flex-start is only valid with --provider=gcp; on Azure use --market=spot"
        )
    if wanted.reservation:
        expected = "GROUP/NAME, the resource group and the name of a capacity reservation group"
        reservation_parts(_RESERVATION, wanted.reservation, expected)
    return wanted.pool(
        _LONGEST_POOL,
        hyphens=False,
        identity={"azure.workload.identity/client-id": ids.CLIENT},
        fees=_FEES,
    )


def workers(workers: Workers, node_pool: NodePool) -> Workers:
    """Returns the worker settings for these nodes."""
    is_spot = node_pool.market == "spot"
    spot = (Toleration(key=SPOT_TAINT, value="spot"),) if is_spot else ()
    return workers.model_copy(
        update={
            "tolerations": (*workers.tolerations, *spot),
            "pod_labels": workers.pod_labels | {"azure.workload.identity/use": "true"},
            "grace_seconds": _SPOT_GRACE_SECONDS if is_spot else workers.grace_seconds,
        }
    )


def store_url(target: Target) -> str:
    """Returns the URL of the subscription's container in the target's region."""
    return f"https://{ids.store_account(target)}.blob.core.windows.net/{ids.CONTAINER}"


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps before the Kubernetes objects; the desired state precedes billed resources."""
    own = store_steps(plan.target)
    is_own_store = plan.store == store_url(plan.target)
    return (
        *(own if is_own_store else own[:1]),
        desired_state_step(plan),
        *cluster_steps(plan),
    )


def keep_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the Job that holds the nodes; after its deadline the autoscaler removes them."""
    return (hold_step(plan),)


def system_sizes() -> Mapping[str, Machine]:
    """Returns the sizes for the AKS system node in the order of preference, of 2 vCPUs and 7 to 8 GiB.

    Many subscriptions are not offered all of them: https://github.com/dotnet/core/issues/8181 (2023-02) and
    https://github.com/hashicorp-education/learn-terraform-provision-aks-cluster/issues/15 (2023-04) show AKS'
    refusals.
    """
    return machines.sold("azure", "system")


def size_of(node_type: str) -> Machine:
    """Returns the properties of a size."""
    machines.refuse_retired("azure", node_type)
    found = machines.table().get(("azure", node_type))
    if found and found.refused:
        raise PlanError(
            f"{node_type} ({found.accelerator}) {found.refused}; use --accelerator={found.replacement}"
        )
    known = machines.sold("azure")
    if node_type not in known:
        raise UnknownNameError("Azure size", node_type, known)
    return known[node_type]


def cluster_steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the steps of cluster, pod identity, node pool and GPU device plugin."""
    pool, target, cluster = pool_of(plan), plan.target, ids.cluster(plan.target)
    return (
        put(
            f"AKS cluster {target.cluster} in {target.region}, with one {_system_size(target)} that always bills",
            kinds.CLUSTER,
            cluster,
            cluster_body(target),
        ),
        review_step(target),
        put(
            f"federated credential of {target.cluster} for {ids.IDENTITY}",
            kinds.CREDENTIAL,
            ids.credential(target) | {"issuer": ids.cluster_id(target)},
            {
                "properties": {
                    "issuer": {"$ref": "cluster.oidcIssuer"},
                    "subject": f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}",
                    "audiences": ["api://AzureADTokenExchange"],
                }
            },
        ),
        put(
            f"AKS pool {pool.name} of {plan.workers.nodes} x {pool.node_type},"
            f" {pool.market.replace('_', ' ')}",
            kinds.POOL,
            cluster | {"pool": pool.name},
            pool_body(plan),
        ),
        device_plugin_step(),
    )


def put(ensure: str, kind: Kind, ref: Ref, body: dict[str, Any]) -> Step:
    """Returns the step that ensures a resource of Azure Resource Manager."""
    path = f"{kind.name_of(ref)}?api-version={kind.request}"
    return kind.step(ensure, ref, path, body, "PUT")


def cluster_body(target: Target) -> dict[str, Any]:
    """Returns the smallest cluster with workload identity: free tier and one node."""
    region = target.region or ""
    system = {
        "name": kinds.SYSTEM,
        "mode": "System",
        "type": "VirtualMachineScaleSets",
        "osType": "Linux",
        "count": 1,
        "vmSize": _system_size(target),
    }
    return {
        "location": region,
        "tags": {SHARED: "cluster"},
        "identity": {"type": "SystemAssigned"},
        "sku": {"name": "Base", "tier": "Free"},
        "properties": {
            "dnsPrefix": ids.group_name(region),
            "nodeResourceGroup": f"{ids.group_name(region)}-nodes",  # is deleted with the cluster
            "agentPoolProfiles": [system],
            "oidcIssuerProfile": {"enabled": True},
            "securityProfile": {"workloadIdentity": {"enabled": True}},
            "networkProfile": {
                "networkPlugin": "azure",
                "networkPluginMode": "overlay",
                "networkDataplane": "cilium",
                "networkPolicy": "cilium",
            },
            # AKS has no maximum life of a node: without the launcher, only the autoscaler ends nodes. By
            # default a pod of kube-system keeps a node alive (learn.microsoft.com/javascript/api/
            # @azure-rest/arm-containerservice/managedclusterpropertiesautoscalerprofile, 2026-11-22).
            "autoScalerProfile": {"skip-nodes-with-system-pods": "false"},
            # An upgrade of the node image would restart nodes during a run.
            "autoUpgradeProfile": {"upgradeChannel": "none", "nodeOSUpgradeChannel": "None"},
        },
    }


def _system_size(target: Target) -> str:
    return target.details.get(SYSTEM_NODE, ids.SYSTEM_SIZE)


def pool_body(plan: Plan) -> dict[str, Any]:
    """Returns the run's node pool: N nodes, scaled to zero without pods."""
    pool = pool_of(plan)
    properties: dict[str, Any] = {
        "mode": "User",
        "type": "VirtualMachineScaleSets",
        "osType": "Linux",
        "vmSize": pool.node_type,
        # The default grows with the size of the machine, up to 2 TiB.
        "osDiskSizeGB": DISK_GIB,
        "count": plan.workers.nodes,
        # The cluster autoscaler deletes idle nodes.
        "enableAutoScaling": True,
        "minCount": 0,
        "maxCount": plan.workers.nodes,
        "gpuProfile": {"driver": "Install"},
        "nodeLabels": {RUN: plan.run, EXPIRES: plan.expires, **GPU_NODE},
        "nodeTaints": [GPU_TAINT],
        "tags": plan.labels().as_dict(),
    }
    if plan.target.zone:  # a region may have none
        properties["availabilityZones"] = [plan.target.zone]
    if pool.reservation:
        group = ids.reservation_id(plan.target, pool.reservation)
        properties["capacityReservationGroupID"] = group
    if pool.market == "spot":
        properties |= {
            "scaleSetPriority": "Spot",
            "scaleSetEvictionPolicy": "Delete",
            "spotMaxPrice": -1,  # up to the on-demand price: evicted for capacity only
        }
    return {"properties": properties}


def store_steps(target: Target) -> tuple[Step, ...]:
    """Returns the steps of resource group, storage account and container."""
    account, container = ids.store_account(target), ids.container(target)
    group = {"location": target.region, "tags": {SHARED: "group"}}
    return (
        put(
            f"resource group {ids.group_name(target.region or '')}",
            kinds.GROUP,
            ids.group(target),
            group,
        ),
        put(f"private storage account {account}", kinds.ACCOUNT, container, _account_body(target)),
        put(
            f"container {ids.CONTAINER} in {account}",
            kinds.CONTAINER,
            container,
            {"properties": {"publicAccess": "None"}},
        ),
    )


def setup_steps(target: Target) -> tuple[Step, ...]:
    """Returns the one-time steps of an administrator; `target` has the subscription."""
    identity = {"location": target.region, "tags": {SHARED: "identity"}}
    assignment = ids.container(target) | ids.identity(target) | {"assignment": ids.ASSIGNMENT}
    return (
        *store_steps(target),
        put(f"identity {ids.IDENTITY}", kinds.IDENTITY, ids.identity(target), identity),
        put(
            f"store access of {ids.IDENTITY}",
            kinds.ASSIGNMENT,
            assignment,
            _assignment_body(target, "identity.principalId", "ServicePrincipal"),
        ),
        put(
            "store access of the current user",
            kinds.ASSIGNMENT,
            assignment | {"login": "the current user"},
            _assignment_body(target, "user.objectId", {"$ref": "user.principalType"}),
        ),
    )


def _account_body(target: Target) -> dict[str, Any]:
    return {
        "location": target.region,
        "kind": "StorageV2",
        "sku": {"name": "Standard_LRS"},
        "tags": {SHARED: "bucket"},
        "properties": {
            "allowBlobPublicAccess": False,
            "allowCrossTenantReplication": False,
            "allowSharedKeyAccess": False,
            "defaultToOAuthAuthentication": True,
            "minimumTlsVersion": "TLS1_2",
            "supportsHttpsTrafficOnly": True,
        },
    }


def _assignment_body(target: Target, principal: str, kind: str | dict[str, str]) -> dict[str, Any]:
    roles = f"/subscriptions/{target.account}/providers/Microsoft.Authorization/roleDefinitions"
    return {
        "properties": {
            "roleDefinitionId": f"{roles}/{BLOB_CONTRIBUTOR}",
            "principalId": {"$ref": principal},
            "principalType": kind,  # else a new principal may not be found yet
        }
    }
