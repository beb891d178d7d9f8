"""Finds what carries cloudgan's labels in a subscription, in all regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.labels import RUN, SHARED
from cloudgan.providers.azure import ids
from cloudgan.providers.azure.resources import (
    ACCOUNTS,
    GROUPS,
    IDENTITIES,
    REGISTRIES,
    SCALE_SETS,
    group_thing,
    pool_thing,
    thing_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.thing import Thing
    from cloudgan.providers.azure.api import ArmApi

_SWEPT: Final = (ACCOUNTS, IDENTITIES, REGISTRIES)


def things(api: ArmApi, subscription: str, run: str | None) -> tuple[Thing, ...]:
    """Lists everything of cloudgan's, or of one run.

    AKS itself is asked for clusters and their pools: it knows at once what it has taken. The list of
    all resources may be some seconds late, so it is asked for the rest only.
    """
    root = f"/subscriptions/{subscription}"
    clusters = list(
        api.list(ids.versioned(f"{root}/providers/Microsoft.ContainerService/managedClusters"))
    )
    pools = [pool for cluster in clusters for pool in _pools(cluster)]
    if run is not None:
        own = [pool for pool in pools if pool.run == run]
        return (*own, *_scale_sets(api, root, clusters, run))
    shared = _tagged(api, root, SHARED)
    return (
        *(pool for pool in pools if pool.run or pool.shared),
        *_scale_sets(api, root, clusters, None),
        *(thing_of(one) for one in clusters if SHARED in (one.get("tags") or {})),
        *(thing_of(one) for one in shared if ids.type_of(one["id"]) in _SWEPT),
        *_groups(api, root, clusters),
    )


def _pools(cluster: dict[str, Any]) -> Iterator[Thing]:
    """Ours of a cluster's pools: those of runs, and the system's of a cluster that we made."""
    is_ours = SHARED in (cluster.get("tags") or {})
    made = (cluster.get("systemData") or {}).get("createdAt")
    for profile in cluster["properties"].get("agentPoolProfiles") or ():
        address = f"{cluster['id']}/agentPools/{profile['name']}"
        is_system = profile.get("mode") == "System"
        if (is_system and is_ours) or (not is_system and RUN in (profile.get("tags") or {})):
            when = made if is_system else None
            yield pool_thing(profile, address, cluster["id"], cluster["location"], when)


def _tagged(api: ArmApi, root: str, tag: str, value: str | None = None) -> list[dict[str, Any]]:
    path = f"{root}/resources?api-version={ids.VERSIONS[GROUPS]}"
    exactly = f" and tagValue eq '{value}'" if value else ""
    return list(api.list(path, **{"$filter": f"tagName eq '{tag}'{exactly}"}))


def _scale_sets(
    api: ArmApi, root: str, clusters: list[dict[str, Any]], run: str | None
) -> Iterator[Thing]:
    """What is left of a run's machines although no pool has them any more."""
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
            yield thing_of(one)


def _groups(api: ArmApi, root: str, clusters: list[dict[str, Any]]) -> Iterator[Thing]:
    """Our groups, and those of nodes whose cluster is gone; AKS gives them their cluster's tags."""
    used = {str(one["properties"].get("nodeResourceGroup")).lower() for one in clusters}
    path = f"{root}/resourcegroups?api-version={ids.VERSIONS[GROUPS]}"
    for one in api.list(path, **{"$filter": f"tagName eq '{SHARED}'"}):
        if one["name"].lower() not in used:
            yield group_thing(one)
