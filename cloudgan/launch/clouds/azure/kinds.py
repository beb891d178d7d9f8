"""Rows of Azure: the resources that cloudgan creates or finds, and the list of those with its labels."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from cloudgan.core.errors import ConfigError, LaunchError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.azure.errors import cause_of, error_text
from cloudgan.launch.clouds.resource import Listing, Resource, ResourceState
from cloudgan.launch.clouds.rows import Body, Kind, ask, look_up, resolve
from cloudgan.schema.plan import Step

LEFTOVER: Final = "leftover"
"""Label of a part of a deleted resource."""
SYSTEM: Final = "system"
"""Name and label of the cluster's own pool."""
_STATES: Final[dict[str, ResourceState]] = {
    **dict.fromkeys(("None", "", "Succeeded"), "ready"),  # a list of resources has no states
    **dict.fromkeys(("Deleting", "Deprovisioning"), "deleting"),
    **dict.fromkeys(("Failed", "Canceled"), "failed"),
}


def _failed(resource: Resource, body: Body) -> Resource:
    if resource.state != "failed":
        return resource
    why = error_text(look_up(body, "properties.status.provisioningError"))
    return replace(resource, reason=why, cause=cause_of(why))


def _cluster(resource: Resource, body: Body) -> Resource:
    if look_up(body, "properties.powerState.code") == "Stopped":
        return replace(resource, state="failed", reason="it is stopped; run: az aks start")
    return _failed(resource, body)


def _pool(resource: Resource, body: Body) -> Resource:
    properties = body["properties"]
    return replace(
        _failed(resource, body),
        node_type=properties.get("vmSize"),
        nodes=int(properties.get("count") or 0),
        market="spot" if properties.get("scaleSetPriority") == "Spot" else "on_demand",
        parent=resource.name[: resource.name.lower().rindex("/agentpools/")],
    )


def _explain(api: ArmApi, resource: Resource, _: Body) -> Resource:
    """Adds the reason of an operation that this process started, where the resource itself has none."""
    if resource.state != "failed" or resource.reason:
        return resource
    why = api.why_failed(resource.name)
    return replace(resource, reason=why, cause=cause_of(why))


def _is_private(_: ArmApi, __: Step, body: Body) -> bool:
    """Refuses a storage account with public access or plain HTTP."""
    properties = body["properties"]
    if properties.get("allowBlobPublicAccess") or not properties.get("supportsHttpsTrafficOnly"):
        raise ConfigError(
            f"storage account {body['name']} allows public access or plain HTTP; correct it in the"
            " Azure portal (Configuration), or give another --store"
        )
    return True


def _is_current(api: ArmApi, step: Step, body: Body) -> bool:
    """Whether the cluster issues the credential of its pods; that of a deleted one has to be replaced."""
    issuer = _issuer(api, step)
    return issuer is not None and body["properties"].get("issuer") == issuer


def _find_assignment(api: ArmApi, step: Step) -> Resource | None:
    """Finds the assignment of a step, or one that grants the same on the scope or above it."""
    wanted = resolve(step.body, lambda name: references(api)[name](step))["properties"]
    name, scope = _assignment(step, wanted), CONTAINER.name_of(step.ref).lower()
    if own := api.get(ASSIGNMENT, name):
        return ASSIGNMENT.resource(name, own)
    role = wanted["roleDefinitionId"].rpartition("/")[2].lower()
    listed = f"{name.rpartition('/')[0]}?api-version={ASSIGNMENT.request}"
    for one in api.list(listed, **{"$filter": f"principalId eq '{wanted['principalId']}'"}):
        has = {key: str(value).lower() for key, value in one["properties"].items()}
        is_role = has["roleDefinitionId"].rpartition("/")[2] == role
        if is_role and f"{scope}/".startswith(f"{has['scope']}/"):
            return ASSIGNMENT.resource(name, one)
    return None


def _assignment(step: Step, properties: Mapping[str, str]) -> str:
    """Returns the id of an assignment: of a GUID, since Azure refuses to change what it assigns to whom."""
    what = f"{CONTAINER.name_of(step.ref)}/{properties['roleDefinitionId']}/{properties['principalId']}"
    guid = str(uuid.uuid5(uuid.NAMESPACE_URL, what.lower()))
    return ASSIGNMENT.name_of(step.ref | {"assignment": guid})


def _refuse_full_group(api: ArmApi, resource: Resource) -> None:
    """Refuses to delete a resource group with contents, which would be deleted too."""
    inside = next(api.list(f"{resource.name}/resources?api-version={GROUP.request}"), None)
    if inside is not None:
        raise LaunchError(
            f"{resource.name.rpartition('/')[2]} still contains {inside['id']}; deleting the group"
            " would delete its contents"
        )


def _row(name: str, order: int, path: str, version: str, **changes: Any) -> Kind:
    given: dict[str, Any] = {
        "request": version,
        "state": "properties.provisioningState",
        "states": _STATES | {state.lower(): to for state, to in _STATES.items()},
        "labels": "tags",
        "created": "systemData.createdAt",
        "refine": _failed,
        "explain": _explain,
    }
    return Kind(name=name, order=order, path=path, **given | changes)


_GROUP: Final = "/subscriptions/{subscription}/resourceGroups/{group}"
_AKS: Final = f"{_GROUP}/providers/Microsoft.ContainerService/managedClusters/{{cluster}}"
_IDENTITY: Final = (
    f"{_GROUP}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{{identity}}"
)
_ACCOUNT: Final = f"{_GROUP}/providers/Microsoft.Storage/storageAccounts/{{account}}"
_CONTAINER: Final = f"{_ACCOUNT}/blobServices/default/containers/{{container}}"
_AKS_VERSION: Final = "2026-08-01"
"""Of the models in the tests (azure-mgmt-containerservice 41.8.0)."""
_TAGS: Final = "properties.tags"
_PARTS: Final = {"is_free": True, "may_be_foreign": True}

POOL: Final = _row(
    "AKS pool", 10, f"{_AKS}/agentPools/{{pool}}", _AKS_VERSION, labels=_TAGS, refine=_pool
)
SCALE_SET: Final = _row(
    "scale set of a pool",
    20,
    f"{_GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/{{scale_set}}",
    "2024-07-01",
)
CLUSTER: Final = _row(
    "AKS cluster",
    50,
    _AKS,
    _AKS_VERSION,
    refine=_cluster,
    may_be_foreign=True,
    # Free tier; the price of its load balancer and address is unknown.
    fee="load balancer and address of AKS",
)
SYSTEM_POOL: Final = _row(
    "AKS system pool",
    51,
    POOL.path,
    _AKS_VERSION,
    labels={SHARED: SYSTEM},
    refine=_pool,
    may_be_foreign=True,
    is_deletable=False,  # AKS requires one
)
LOST_GROUP: Final = _row(
    "group of a lost cluster",
    55,
    _GROUP,
    "2021-04-01",
    labels={SHARED: LEFTOVER},
    may_be_foreign=True,
    fee="remaining content",
)
CREDENTIAL: Final = _row(
    "credential of an identity",
    60,
    f"{_IDENTITY}/federatedIdentityCredentials/{{credential}}",
    "2023-01-31",
    labels={SHARED: "identity"},
    accepts=_is_current,
    **_PARTS,
)
ASSIGNMENT: Final[Kind] = _row(
    "role assignment",
    60,
    f"{_CONTAINER}/providers/Microsoft.Authorization/roleAssignments/{{assignment}}",
    "2022-04-01",
    labels={SHARED: "identity"},
    find=_find_assignment,
    create=lambda api, step, body: api.put(ASSIGNMENT, _assignment(step, body["properties"]), body),
    **_PARTS,
)
IDENTITY: Final = _row("managed identity", 61, _IDENTITY, "2023-01-31", **_PARTS)
CONTAINER: Final = _row(
    "blob container", 62, _CONTAINER, "2023-05-01", labels={SHARED: "bucket"}, **_PARTS
)
ACCOUNT: Final = _row(
    "storage account", 63, _ACCOUNT, "2023-05-01", accepts=_is_private, may_be_foreign=True
)
GROUP: Final = _row(
    "resource group", 70, _GROUP, "2021-04-01", before_delete=_refuse_full_group, **_PARTS
)
KINDS: Final = (
    POOL,
    SCALE_SET,
    CLUSTER,
    SYSTEM_POOL,
    LOST_GROUP,
    CREDENTIAL,
    ASSIGNMENT,
    IDENTITY,
    CONTAINER,
    ACCOUNT,
    GROUP,
)


def references(api: ArmApi) -> dict[str, Callable[[Step], Any]]:
    """Returns the values that exist after earlier steps only."""

    def issuer(step: Step) -> str:
        if found := _issuer(api, step):
            return found
        raise LaunchError(
            f"cluster {step.ref['issuer'].rpartition('/')[2]} has no OIDC issuer; run: az aks update"
            " --enable-oidc-issuer --enable-workload-identity, or omit --cluster"
        )

    return {
        "cluster.oidcIssuer": issuer,
        "identity.principalId": lambda step: str(
            look_up(api.get(IDENTITY, IDENTITY.name_of(step.ref)), "properties.principalId")
        ),
        "user.objectId": lambda _: str(api.claims()["oid"]),
        "user.principalType": lambda _: (
            "ServicePrincipal" if api.claims().get("idtyp") == "app" else "User"
        ),
    }


def _issuer(api: ArmApi, step: Step) -> str | None:
    """Returns the OIDC issuer of the cluster of a credential."""
    issuer: str | None = look_up(
        api.get(CLUSTER, step.ref["issuer"]), "properties.oidcIssuerProfile.issuerURL"
    )
    return issuer


def list_resources(api: ArmApi, subscription: str, run: str | None) -> Listing:
    """Lists cloudgan's resources, or those of one run.

    Clusters and pools are listed by AKS, which is consistent at once. The list of all resources may
    lag by seconds and gives only the rest.
    """
    root = f"/subscriptions/{subscription}"
    aks = f"{root}/providers/Microsoft.ContainerService/managedClusters"
    try:
        clusters = list(api.list(f"{aks}?api-version={CLUSTER.request}"))
    except LaunchError as error:  # what is in a cluster, and what it left, cannot be distinguished
        return Listing(silent=(f"AKS ({error})",))
    pools = [pool for cluster in clusters for pool in _pools(cluster)]
    ours = [one for one in clusters if SHARED in (one.get("tags") or {})]
    found = [*pools, *(CLUSTER.resource(one["id"], one) for one in ours)]
    if run is not None:
        found = [pool for pool in pools if pool.run == run]
    answers = [ask("scale sets", lambda: Listing(_scale_sets(api, root, clusters, run)))]
    if run is None:
        answers += [
            ask("shared resources", lambda: Listing(_shared(api, root))),
            ask("resource groups", lambda: Listing(_groups(api, root, clusters))),
        ]
    found += [one for answer in answers for one in answer]
    silent = (one for answer in answers for one in answer.silent)
    return Listing((one for one in found if one.run or one.shared), silent)


def _pools(cluster: Body) -> Iterator[Resource]:
    """Node pools of runs, and the system pool of a cluster created by cloudgan."""
    is_ours = SHARED in (cluster.get("tags") or {})
    for profile in look_up(cluster, "properties.agentPoolProfiles") or ():
        is_system = profile.get("mode") == "System"
        if is_ours if is_system else RUN in (profile.get("tags") or {}):
            body = {"properties": profile, "location": cluster["location"]}
            if is_system:
                body["systemData"] = cluster.get("systemData")
            kind = SYSTEM_POOL if is_system else POOL
            yield kind.resource(f"{cluster['id']}/agentPools/{profile['name']}", body)


def _tagged(api: ArmApi, root: str, tag: str, value: str | None = None) -> Iterable[Any]:
    exactly = f" and tagValue eq '{value}'" if value else ""
    path = f"{root}/resources?api-version={GROUP.request}"
    found: Iterable[Any] = api.list(path, **{"$filter": f"tagName eq '{tag}'{exactly}"})
    return found


def _of_kinds(listed: Iterable[Any], *kinds: Kind) -> Iterator[tuple[Kind, Any]]:
    for one in listed:
        for kind in kinds:
            with suppress(LaunchError):  # of another kind
                kind.ref_of(one["id"])
                yield kind, one


def _shared(api: ArmApi, root: str) -> Iterator[Resource]:
    for kind, one in _of_kinds(_tagged(api, root, SHARED), ACCOUNT, IDENTITY):
        yield kind.resource(one["id"], one)


def _scale_sets(
    api: ArmApi, root: str, clusters: list[dict[str, Any]], run: str | None
) -> Iterator[Resource]:
    """Scale sets of runs without a node pool."""
    held = {
        (str(look_up(cluster, "properties.nodeResourceGroup")).lower(), profile["name"])
        for cluster in clusters
        for profile in look_up(cluster, "properties.agentPoolProfiles") or ()
    }
    for kind, one in _of_kinds(_tagged(api, root, RUN, run), SCALE_SET):
        group = kind.ref_of(one["id"])["group"].lower()
        if (group, one["tags"].get("aks-managed-poolName")) not in held:
            yield kind.resource(one["id"], one)


def _groups(api: ArmApi, root: str, clusters: list[dict[str, Any]]) -> Iterator[Resource]:
    """Groups of cloudgan, and node groups of deleted clusters; AKS copies the cluster's tags."""
    used = {str(look_up(one, "properties.nodeResourceGroup")).lower() for one in clusters}
    path = f"{root}/resourcegroups?api-version={GROUP.request}"
    for one in api.list(path, **{"$filter": f"tagName eq '{SHARED}'"}):
        if one["name"].lower() not in used:
            kind = LOST_GROUP if "managedBy" in one else GROUP
            yield kind.resource(one["id"], one)
