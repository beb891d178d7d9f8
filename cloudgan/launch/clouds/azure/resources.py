"""Parses Azure resources and lists those with cloudgan's labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import LaunchError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.azure import ids
from cloudgan.launch.clouds.azure.error_mapping import cause_of, error_text
from cloudgan.launch.clouds.azure.requests import SYSTEM_POOL
from cloudgan.schema.resource import Listing, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.launch.clouds.azure.api import ArmApi
    from cloudgan.schema.resource import ResourceCause, ResourceState


POOLS: Final = "microsoft.containerservice/managedclusters/agentpools"
CLUSTERS: Final = "microsoft.containerservice/managedclusters"
GROUPS: Final = "resourcegroups"
ACCOUNTS: Final = "microsoft.storage/storageaccounts"
IDENTITIES: Final = "microsoft.managedidentity/userassignedidentities"
SCALE_SETS: Final = "microsoft.compute/virtualmachinescalesets"
_CONTAINERS: Final = f"{ACCOUNTS}/blobservices/containers"
_CREDENTIALS: Final = f"{IDENTITIES}/federatedidentitycredentials"
_ASSIGNMENTS: Final = "microsoft.authorization/roleassignments"

# Kind and deletion order: pools, their scale sets, clusters, resources of `setup`.
KINDS: Final = {
    POOLS: ("AKS pool", 10),
    SCALE_SETS: ("scale set of a pool", 20),
    CLUSTERS: ("AKS cluster", 50),
    IDENTITIES: ("managed identity", 61),
    _CREDENTIALS: ("credential of an identity", 60),
    _ASSIGNMENTS: ("role assignment", 60),
    _CONTAINERS: ("blob container", 62),
    ACCOUNTS: ("storage account", 63),
    GROUPS: ("resource group", 70),
}
_SYSTEM_POOL_ORDER, _LOST_ORDER = 51, 55
LEFTOVER: Final = "leftover"
"""Part of a deleted resource."""
_PARTS: Final = {_CREDENTIALS: "identity", _ASSIGNMENTS: "identity", _CONTAINERS: "bucket"}
"""Untaggable resources inside cloudgan's resources."""
_FREE: Final = (GROUPS, IDENTITIES, _CONTAINERS, _CREDENTIALS, _ASSIGNMENTS)
_FEES: Final = {
    # Free tier; the price of its load balancer and address is unknown.
    CLUSTERS: "load balancer and address of AKS",
}
_READY: Final = ("succeeded", "")
_DELETING: Final = ("deleting", "deprovisioning")
_FAILED: Final = ("failed", "canceled")


def parse_resource(found: Mapping[str, Any], region: str = "") -> Resource:
    """Parses a resource.

    Args:
        found: Response of GET.
        region: For resources without a location.
    """
    address = str(found["id"])
    kind = ids.type_of(address)
    name, rank = KINDS[kind]
    if kind == POOLS:
        cluster = address[: address.lower().rindex("/agentpools/")]
        return parse_pool(found["properties"], address, cluster, region)
    properties = found.get("properties") or {}
    state, why, cause = parse_state(properties)
    labels = {SHARED: _PARTS[kind]} if kind in _PARTS else dict(found.get("tags") or {})
    if kind == CLUSTERS and (properties.get("powerState") or {}).get("code") == "Stopped":
        state, why = "failed", "it is stopped; run: az aks start"
    return Resource(
        kind=name,
        name=address,
        state=state,
        labels=labels,
        region=str(found.get("location") or region),
        reason=why,
        cause=cause,
        deletion_order=rank,
        created_at=(found.get("systemData") or {}).get("createdAt"),
        fee=_FEES.get(kind),
        is_free=kind in _FREE,
    )


def parse_group(found: Mapping[str, Any]) -> Resource:
    """Parses a resource group: cloudgan's, or the node group of a deleted cluster."""
    resource = parse_resource(found)
    if "managedBy" not in found:
        return resource
    return replace(
        resource,
        kind="group of a lost cluster",
        labels={SHARED: LEFTOVER},
        deletion_order=_LOST_ORDER,
        fee="remaining content",
        is_free=False,
    )


def parse_pool(
    properties: Mapping[str, Any], address: str, cluster: str, region: str, made: str | None = None
) -> Resource:
    """Parses a node pool; the system pool is deleted with its cluster."""
    state, why, cause = parse_state(properties)
    is_system = properties.get("mode") == "System"
    kind, rank = KINDS[POOLS]
    size = properties.get("vmSize")
    spot = properties.get("scaleSetPriority") == "Spot"
    return Resource(
        kind="AKS system pool" if is_system else kind,
        name=address,
        state=state,
        labels={SHARED: SYSTEM_POOL} if is_system else dict(properties.get("tags") or {}),
        region=region,
        reason=why,
        cause=cause,
        deletion_order=_SYSTEM_POOL_ORDER if is_system else rank,
        created_at=made,
        node_type=size,
        nodes=int(properties.get("count") or 0),
        market="spot" if spot else "on_demand",
        parent=cluster,
    )


def parse_state(properties: Mapping[str, Any]) -> tuple[ResourceState, str, ResourceCause]:
    """Returns state, reason and cause of a resource."""
    state = str(properties.get("provisioningState") or "")
    if state.lower() in _READY:
        return "ready", "", ""
    if state.lower() in _DELETING:
        return "deleting", "", ""
    if state.lower() not in _FAILED:
        return "creating", "", ""
    why = error_text((properties.get("status") or {}).get("provisioningError"))
    return "failed", why, cause_of(why)


_SWEPT: Final = (ACCOUNTS, IDENTITIES)


def list_resources(api: ArmApi, subscription: str, run: str | None) -> Listing:
    """Lists cloudgan's resources, or those of one run.

    Clusters and pools are listed by AKS, which is consistent at once. The list of all resources may
    lag by seconds and gives only the rest.
    """
    root = f"/subscriptions/{subscription}"
    path = ids.versioned(f"{root}/providers/Microsoft.ContainerService/managedClusters")
    try:
        clusters = list(api.list(path))
    except LaunchError as error:  # what is in a cluster, and what it left, cannot be distinguished
        return Listing(silent=(f"AKS ({error})",))
    found = [pool for cluster in clusters for pool in _pools(cluster)]
    if run is not None:
        found = [pool for pool in found if pool.run == run]
    found += (
        parse_resource(one) for one in clusters if run is None and SHARED in (one.get("tags") or {})
    )
    silent: list[str] = []
    others = {"scale sets": _scale_sets(api, root, clusters, run)}
    if run is None:
        others |= {
            "shared resources": _shared(api, root),
            "resource groups": _groups(api, root, clusters),
        }
    for name, listed in others.items():
        try:
            found += listed
        except LaunchError as error:
            silent.append(f"{name} ({error})")
    return Listing((one for one in found if one.run or one.shared), silent)


def _shared(api: ArmApi, root: str) -> Iterator[Resource]:
    for one in _tagged(api, root, SHARED):
        if ids.type_of(one["id"]) in _SWEPT:
            yield parse_resource(one)


def _pools(cluster: dict[str, Any]) -> Iterator[Resource]:
    """Node pools of runs, and the system pool of a cluster created by cloudgan."""
    is_ours = SHARED in (cluster.get("tags") or {})
    made = (cluster.get("systemData") or {}).get("createdAt")
    for profile in cluster["properties"].get("agentPoolProfiles") or ():
        address = f"{cluster['id']}/agentPools/{profile['name']}"
        is_system = profile.get("mode") == "System"
        if (is_system and is_ours) or (not is_system and RUN in (profile.get("tags") or {})):
            when = made if is_system else None
            yield parse_pool(profile, address, cluster["id"], cluster["location"], when)


def _tagged(api: ArmApi, root: str, tag: str, value: str | None = None) -> list[dict[str, Any]]:
    path = f"{root}/resources?api-version={ids.VERSIONS[GROUPS]}"
    exactly = f" and tagValue eq '{value}'" if value else ""
    return list(api.list(path, **{"$filter": f"tagName eq '{tag}'{exactly}"}))


def _scale_sets(
    api: ArmApi, root: str, clusters: list[dict[str, Any]], run: str | None
) -> Iterator[Resource]:
    """Scale sets of runs without a node pool."""
    held = {
        (str(cluster["properties"].get("nodeResourceGroup")).lower(), profile["name"])
        for cluster in clusters
        for profile in cluster["properties"].get("agentPoolProfiles") or ()
    }
    for one in _tagged(api, root, RUN, run):
        if ids.type_of(one["id"]) != SCALE_SETS:
            continue
        group = one["id"].split("/")[4].lower()
        if (group, one["tags"].get("aks-managed-poolName")) not in held:
            yield parse_resource(one)


def _groups(api: ArmApi, root: str, clusters: list[dict[str, Any]]) -> Iterator[Resource]:
    """Groups of cloudgan, and node groups of deleted clusters; AKS copies the cluster's tags."""
    used = {str(one["properties"].get("nodeResourceGroup")).lower() for one in clusters}
    path = f"{root}/resourcegroups?api-version={ids.VERSIONS[GROUPS]}"
    for one in api.list(path, **{"$filter": f"tagName eq '{SHARED}'"}):
        if one["name"].lower() not in used:
            yield parse_group(one)
