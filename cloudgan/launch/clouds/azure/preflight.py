"""Preflight checks of Azure: permissions of deploy/azure, services, quotas and zones.

Roles are assigned on three scopes, so that a launcher changes nothing outside cloudgan's resource
group, and writes the credential of one identity only (docs/clouds.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cloudgan.core import machines
from cloudgan.core.errors import PlanError
from cloudgan.launch.clouds.azure import ids, kinds
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.azure.errors import ROLES, actions
from cloudgan.launch.clouds.azure.planner import SYSTEM_NODE, size_of, system_sizes
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.launch.clouds.resource import Finding
from cloudgan.schema.plan import Plan, Target

ROLE, READER_ROLE, CREDENTIAL_ROLE, _ = ROLES
PROVIDERS: Final = (
    "Microsoft.Compute",
    "Microsoft.ContainerService",
    "Microsoft.ManagedIdentity",
    "Microsoft.Network",
    "Microsoft.Storage",
)
_PERMISSIONS, _PROVIDERS = "2022-04-01", "2021-04-01"


def rights(api: ArmApi, target: Target) -> Iterator[Finding]:
    """Yields the missing permissions of a launcher, without a region those of the subscription; or ok."""
    found = list(_missing_rights(api, READER_ROLE, f"/subscriptions/{target.account}"))
    if target.region and api.get(kinds.GROUP, ids.group_id(target)) is None:
        yield Finding(
            f"resource group {ids.group_name(target.region)}",
            "missing",
            not_set_up(target.region),
        )
    elif target.region:
        found += _missing_rights(api, ROLE, ids.group_id(target))
        found += _missing_rights(api, CREDENTIAL_ROLE, ids.identity_id(target))
    yield from found or [Finding("permissions", "ok", "all of the roles in deploy/azure")]


def not_set_up(region: str) -> str:
    """Returns the sentence about a region without what `setup` creates."""
    return (
        f"region {region} is not set up; an administrator runs once: cloudgan setup --provider=azure"
        f" --region={region}"
    )


def _missing_rights(api: ArmApi, role: str, scope: str) -> Iterator[Finding]:
    path = f"{scope}/providers/Microsoft.Authorization/permissions?api-version={_PERMISSIONS}"
    granted = list(api.list(path))
    for action in actions(role):
        if not is_allowed(action, granted):
            yield Finding(
                f"permission {action}",
                "missing",
                f"an owner grants it with {role} on {scope} (docs/clouds.md)",
            )


def services(api: ArmApi, subscription: str) -> Iterator[Finding]:
    """Yields the unregistered resource providers that a run needs, or one ok finding."""
    found = {
        str(one["namespace"]).lower(): one.get("registrationState")
        for one in api.list(f"/subscriptions/{subscription}/providers?api-version={_PROVIDERS}")
    }
    off = [name for name in PROVIDERS if found.get(name.lower()) != "Registered"]
    for name in off:
        yield Finding(
            f"service {name}",
            "missing",
            f"not registered in this subscription; run: az provider register --namespace {name}",
        )
    if not off:
        yield Finding("services", "ok", ", ".join(PROVIDERS))


def is_allowed(action: str, granted: Sequence[dict[str, Any]]) -> bool:
    """Whether the granted permissions include an action."""
    return any(
        _any_is(action, one.get("actions")) and not _any_is(action, one.get("notActions"))
        for one in granted
    )


def _any_is(action: str, patterns: Sequence[str] | None) -> bool:
    return any(
        re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), action, re.IGNORECASE)
        for pattern in patterns or ()
    )


SPOT_QUOTA: Final = "lowPriorityCores"
"""One quota for all families: Spot machines do not count in the family quota
(https://learn.microsoft.com/azure/quotas/spot-quota, read 2026-11-21)."""
REGION_QUOTA: Final = "cores"
_USAGES, _SKUS, _RESERVATIONS = "2024-07-01", "2021-07-01", "2024-07-01"


def quotas(api: ArmApi, subscription: str, plan: Plan, *, has_cluster: bool) -> Iterator[Finding]:
    """Yields a finding for each quota that a plan needs."""
    pool, region = pool_of(plan), plan.target.region or ""
    size = size_of(pool.node_type)
    if pool.reservation:
        name = f"reservation {pool.reservation}"
        yield Finding(name, "ok", "it has enough free machines, which count in the quotas already")
        return
    if size.vcpu is None:
        yield Finding(f"quota {size.quota} in {region}", "unknown", "the size's vCPUs are unknown")
        return
    needed = size.vcpu * plan.workers.nodes
    sizes = system_sizes()
    node = sizes.get(plan.target.details.get(SYSTEM_NODE, ""), next(iter(sizes.values())))
    system = 0 if has_cluster else node.vcpu or 0
    if pool.market == "spot":
        wanted = {SPOT_QUOTA: needed, REGION_QUOTA: system}
    else:
        wanted = {size.quota: needed, REGION_QUOTA: needed + system}
    if node.node_type == plan.target.details.get(SYSTEM_NODE):
        wanted[node.quota] = system
    known = _usages(api, subscription, region)
    for name, vcpus in wanted.items():
        if vcpus:
            yield _finding(name, vcpus, region, known.get(name.casefold()))


def all_quotas(api: ArmApi, subscription: str, region: str) -> Iterator[Finding]:
    """Yields the free quota of each family and of Spot."""
    known = _usages(api, subscription, region)
    for name in (*sorted({size.quota for size in machines.sold("azure").values()}), SPOT_QUOTA):
        found = known.get(name.casefold())
        free = f"{_free(found)} of {found['limit']} vCPUs are free" if found else "no such quota"
        yield Finding(f"quota {name} in {region}", "ok" if found else "unknown", free)


def zones(
    api: ArmApi, subscription: str, region: str, node_type: str, request: str | None
) -> tuple[str, ...]:
    """Returns the zones that offer a node type; empty if the region has no zones."""
    skus = _skus(api, subscription, region)
    sku = next((one for one in skus if one.get("name") == node_type), None)
    if sku is None:
        raise PlanError(f"Azure has no {node_type} in {region}; give another --region")
    found = {zone for one in sku.get("locationInfo") or () for zone in one.get("zones") or ()}
    for limit in sku.get("restrictions") or ():
        if limit.get("type") == "Location":
            raise PlanError(
                f"{node_type} is not available to subscription {subscription} in {region}"
                f" ({limit.get('reasonCode')}); give another --region, or contact Azure support"
            )
        found -= set((limit.get("restrictionInfo") or {}).get("zones") or ())
    if request and request not in found:
        raise PlanError(
            f"--zone={request}: {node_type} is available in {region} in"
            f" {'zones ' + ', '.join(sorted(found)) if found else 'no numbered zone'}"
        )
    return (request,) if request else tuple(sorted(found))


def system_size(api: ArmApi, subscription: str, region: str) -> str:
    """Returns the first size for the AKS system node that a subscription is offered in a region."""
    offered = {
        one.get("name")
        for one in _skus(api, subscription, region)
        if not any(limit.get("type") == "Location" for limit in one.get("restrictions") or ())
    }
    for size in system_sizes():
        if size in offered:
            return size
    raise PlanError(
        f"the system node of AKS needs one of {', '.join(system_sizes())}, and subscription {subscription}"
        f" is offered none of them in {region}; give another --region, or --cluster=GROUP/NAME of an"
        " existing cluster"
    )


def _skus(api: ArmApi, subscription: str, region: str) -> Iterator[Mapping[str, Any]]:
    path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/skus?api-version={_SKUS}"
    yield from api.list(path, **{"$filter": f"location eq '{region}'"})


def _usages(api: ArmApi, subscription: str, region: str) -> dict[str, Mapping[str, Any]]:
    root = f"/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{region}"
    found = api.list(f"{root}/usages?api-version={_USAGES}")
    return {one["name"]["value"].casefold(): one for one in found}


def _free(usage: Mapping[str, Any]) -> int:
    return int(usage["limit"]) - int(usage["currentValue"])


def _finding(name: str, vcpus: int, region: str, usage: Mapping[str, Any] | None) -> Finding:
    subject = f"quota {name} in {region}"
    if usage is None:
        return Finding(subject, "unknown", f"{vcpus} vCPUs are needed; Azure lists no such quota")
    free = _free(usage)
    if free >= vcpus:
        return Finding(subject, "ok", f"{vcpus} vCPUs are needed and {free} are free")
    called = usage["name"].get("localizedValue") or name
    return Finding(
        subject,
        "missing",
        f"{vcpus} vCPUs are needed and {free} of {usage['limit']} are free; ask for"
        f" {int(usage['limit']) + vcpus - free} of {called!r} in {region} at"
        " https://portal.azure.com, Quotas, Compute",
        is_quota=True,
    )


def reserved_zone(api: ArmApi, plan: Plan, target: Target) -> str | None:
    """Returns the zone of the reserved machines; None: they have none.

    AKS needs a cluster with a user-assigned identity that may use the group: system-assigned identities do not
    work. A group without a reservation is ignored with a warning, and the pool then has no reserved capacity
    (https://learn.microsoft.com/azure/aks/use-capacity-reservation-groups). Sizes, zones and use:
    https://learn.microsoft.com/rest/api/compute/capacity-reservation-groups/get (both read 2026-11-22).
    """
    name, region = str(pool_of(plan).reservation), target.region or ""
    _check_cluster(api, target)
    address = ids.reservation_id(target, name)
    group = api.read(f"{address}?api-version={_RESERVATIONS}&$expand=instanceView")
    if group is None:
        raise PlanError(f"subscription {target.account} has no capacity reservation group {name}")
    where = str(group.get("location", "")).replace(" ", "").lower()
    if where != region:
        raise PlanError(f"reservation {name} is in {where}: give --region={where}")
    view = (group.get("properties") or {}).get("instanceView") or {}
    used = {
        one["name"]: len((one.get("utilizationInfo") or {}).get("virtualMachinesAllocated") or ())
        for one in view.get("capacityReservations") or ()
    }
    listed = list(api.list(f"{address}/capacityReservations?api-version={_RESERVATIONS}"))
    wanted = None if target.zone == ids.ZONE else target.zone
    problems = [_problem(one, plan, used.get(one["name"], 0), wanted) for one in listed]
    for one, problem in zip(listed, problems, strict=True):
        if not problem:
            return next(iter(one.get("zones") or ()), None)
    raise PlanError(
        f"reservation {name} {'; '.join(problems) or 'has no capacity reservation in it'}"
    )


def _problem(found: dict[str, Any], plan: Plan, used: int, zone: str | None) -> str:
    """Returns why a capacity reservation cannot serve a plan; empty: it can."""
    sku, nodes, node_type = found.get("sku") or {}, plan.workers.nodes, pool_of(plan).node_type
    if str(sku.get("name", "")).lower() != node_type.lower():
        return f"is of {sku.get('name')}, and the run needs {node_type}"
    if zone and zone not in (found.get("zones") or ()):
        return f"is in zone {', '.join(found.get('zones') or ['none'])}, not in --zone={zone}"
    free = int(sku.get("capacity") or 0) - used
    return "" if free >= nodes else f"has {free} free machines, and the run needs {nodes}"


def _check_cluster(api: ArmApi, target: Target) -> None:
    cluster = api.get(kinds.CLUSTER, ids.cluster_id(target)) or {}
    if "UserAssigned" in str((cluster.get("identity") or {}).get("type", "")):
        return
    raise PlanError(
        "AKS uses reserved capacity only in a cluster with a user-assigned identity that has the role"
        f" Contributor on the resource group of the reservation, and cluster {target.cluster} has none: give"
        " --cluster=GROUP/NAME of such a cluster (docs/clouds.md)"
    )
