"""What Azure tells of a resource, as a thing that launching knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.labels import SHARED
from cloudgan.core.thing import Thing
from cloudgan.providers.azure import ids
from cloudgan.providers.azure.aks import SYSTEM_POOL
from cloudgan.providers.azure.refusal import cause_of, said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.thing import ThingCause, ThingState

POOLS: Final = "microsoft.containerservice/managedclusters/agentpools"
CLUSTERS: Final = "microsoft.containerservice/managedclusters"
GROUPS: Final = "resourcegroups"
ACCOUNTS: Final = "microsoft.storage/storageaccounts"
REGISTRIES: Final = "microsoft.containerregistry/registries"
IDENTITIES: Final = "microsoft.managedidentity/userassignedidentities"
SCALE_SETS: Final = "microsoft.compute/virtualmachinescalesets"
_CONTAINERS: Final = f"{ACCOUNTS}/blobservices/containers"
_CREDENTIALS: Final = f"{IDENTITIES}/federatedidentitycredentials"
_ASSIGNMENTS: Final = "microsoft.authorization/roleassignments"

# Kind, and what has to go before: pools, what is left of them, clusters, and what `setup` made.
KINDS: Final = {
    POOLS: ("AKS pool", 10),
    SCALE_SETS: ("scale set of a pool", 20),
    CLUSTERS: ("AKS cluster", 50),
    IDENTITIES: ("managed identity", 61),
    _CREDENTIALS: ("credential of an identity", 60),
    _ASSIGNMENTS: ("role assignment", 60),
    _CONTAINERS: ("blob container", 62),
    ACCOUNTS: ("storage account", 63),
    REGISTRIES: ("container registry", 60),
    GROUPS: ("resource group", 70),
}
_SYSTEM_POOL_RANK, _LOST_RANK = 51, 55
LEFTOVER: Final = "leftover"
"""What was a part of something that is gone."""
_PARTS: Final = {_CREDENTIALS: "identity", _ASSIGNMENTS: "identity", _CONTAINERS: "bucket"}
"""What cannot carry a tag, and stands in what cloudgan made."""
_FREE: Final = (GROUPS, IDENTITIES, _CONTAINERS, _CREDENTIALS, _ASSIGNMENTS)
_FEES: Final = {
    REGISTRIES: "Container Registry Basic",
    # Of its free tier; by these its nodes reach the rest of the world, and nobody noted their price.
    CLUSTERS: "load balancer and address of AKS",
}
_READY: Final = ("succeeded", "")
_LEAVING: Final = ("deleting", "deprovisioning")
_FAILED: Final = ("failed", "canceled")


def thing_of(found: Mapping[str, Any], region: str = "") -> Thing:
    """Returns a resource as a thing.

    Args:
        found: As its GET answers.
        region: Of what does not say where it is.
    """
    address = str(found["id"])
    kind = ids.type_of(address)
    name, rank = KINDS[kind]
    if kind == POOLS:
        cluster = address[: address.lower().rindex("/agentpools/")]
        return pool_thing(found["properties"], address, cluster, region)
    properties = found.get("properties") or {}
    state, why, cause = state_of(properties)
    labels = {SHARED: _PARTS[kind]} if kind in _PARTS else dict(found.get("tags") or {})
    if kind == CLUSTERS and (properties.get("powerState") or {}).get("code") == "Stopped":
        state, why = "failed", "it is stopped; start it with: az aks start"
    return Thing(
        kind=name,
        name=address,
        state=state,
        labels=labels,
        region=str(found.get("location") or region),
        why=why,
        cause=cause,
        rank=rank,
        made=(found.get("systemData") or {}).get("createdAt"),
        fee=_FEES.get(kind),
        is_free=kind in _FREE,
    )


def group_thing(found: Mapping[str, Any]) -> Thing:
    """Returns a group as a thing: ours, or that of the nodes of a cluster which is gone."""
    thing = thing_of(found)
    if "managedBy" not in found:
        return thing
    return replace(
        thing,
        kind="group of a lost cluster",
        labels={SHARED: LEFTOVER},
        rank=_LOST_RANK,
        fee="whatever is left in it",
        is_free=False,
    )


def pool_thing(
    properties: Mapping[str, Any], address: str, cluster: str, region: str, made: str | None = None
) -> Thing:
    """Returns a pool as a thing; that of a cluster's system goes with the cluster."""
    state, why, cause = state_of(properties)
    is_system = properties.get("mode") == "System"
    kind, rank = KINDS[POOLS]
    size = properties.get("vmSize")
    spot = properties.get("scaleSetPriority") == "Spot"
    return Thing(
        kind="AKS system pool" if is_system else kind,
        name=address,
        state=state,
        labels={SHARED: SYSTEM_POOL} if is_system else dict(properties.get("tags") or {}),
        region=region,
        why=why,
        cause=cause,
        rank=_SYSTEM_POOL_RANK if is_system else rank,
        made=made,
        node_type=size,
        nodes=int(properties.get("count") or 0),
        market="spot" if spot else "on_demand",
        parent=cluster,
    )


def state_of(properties: Mapping[str, Any]) -> tuple[ThingState, str, ThingCause]:
    """Returns how far a resource is, why it is not further, and the kind of that reason."""
    told = str(properties.get("provisioningState") or "")
    if told.lower() in _READY:
        return "ready", "", ""
    if told.lower() in _LEAVING:
        return "leaving", "", ""
    if told.lower() not in _FAILED:
        return "making", "", ""
    why = said((properties.get("status") or {}).get("provisioningError"))
    return "failed", why, cause_of(why)
