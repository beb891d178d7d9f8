"""Capacity reservation groups of Azure, and the check of one before a launch.

AKS needs a cluster with a user-assigned identity that may use the group: system-assigned identities do not
work. A group without a reservation is ignored with a warning, and the pool then has no reserved capacity
(https://learn.microsoft.com/azure/aks/use-capacity-reservation-groups). Sizes, zones and use:
https://learn.microsoft.com/rest/api/compute/capacity-reservation-groups/get (both read 2026-11-22).
"""

from __future__ import annotations

import re
from typing import Any, Final

from cloudgan.core.errors import ConfigError, PlanError, shorten
from cloudgan.launch.clouds.azure import ids, kinds
from cloudgan.launch.clouds.azure.api import ArmApi
from cloudgan.launch.clouds.planner import pool_of
from cloudgan.schema.plan import Plan, Target

_VERSION: Final = "api-version=2024-07-01"
_NAME: Final = re.compile(r"([-\w.()]{0,89}[-\w()])/([-\w.]{0,79}\w)", re.ASCII)


def check_name(text: str) -> None:
    """Raises ConfigError if --reservation names no group of reservations."""
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"--reservation={shorten(text)} is not valid: give GROUP/NAME, the resource group and the name"
            " of a capacity reservation group"
        )


def group_id(target: Target, reservation: str) -> str:
    """Returns the id of a capacity reservation group."""
    group, _, name = reservation.partition("/")
    root = f"/subscriptions/{target.account}/resourceGroups/{group}"
    return f"{root}/providers/Microsoft.Compute/capacityReservationGroups/{name}"


def reserved_zone(api: ArmApi, plan: Plan, target: Target) -> str | None:
    """Returns the zone of the reserved machines; None: they have none."""
    name, region = str(pool_of(plan).reservation), target.region or ""
    _check_cluster(api, target)
    address = group_id(target, name)
    group = api.read(f"{address}?{_VERSION}&$expand=instanceView")
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
    listed = list(api.list(f"{address}/capacityReservations?{_VERSION}"))
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
