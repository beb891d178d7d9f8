"""How many machines a subscription may have, and where they are sold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import PlanError
from cloudgan.core.thing import Finding
from cloudgan.providers.azure.sizes import SIZES, SYSTEM_FAMILY, SYSTEM_VCPUS, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloudgan.core.plan import Plan
    from cloudgan.providers.azure.api import ArmApi

SPOT_QUOTA: Final = "lowPriorityCores"
"""One for all families: Spot machines don't count in those of their own
(https://learn.microsoft.com/azure/quotas/spot-quota, read 2026-11-21)."""
REGION_QUOTA: Final = "cores"
_USAGES, _SKUS = "2024-07-01", "2021-07-01"


def quotas(api: ArmApi, subscription: str, plan: Plan, *, has_cluster: bool) -> Iterator[Finding]:
    """Yields, for each quota that a plan needs, whether enough of it is free."""
    assert plan.rental is not None  # noqa: S101  only rented plans are looked at
    size, region = size_of(plan.rental.node_type), plan.place.region or ""
    needed = size.vcpus * plan.workers.nodes
    system = 0 if has_cluster else SYSTEM_VCPUS
    if plan.rental.market == "spot":
        wanted = {SPOT_QUOTA: needed, REGION_QUOTA: system}
    else:
        wanted = {size.family: needed, REGION_QUOTA: needed + system}
    wanted[SYSTEM_FAMILY] = system
    known = _usages(api, subscription, region)
    for name, vcpus in wanted.items():
        if vcpus:
            yield _finding(name, vcpus, region, known.get(name.casefold()))


def all_quotas(api: ArmApi, subscription: str, region: str) -> Iterator[Finding]:
    """Yields what a subscription may have of each kind of machine, and on Spot."""
    known = _usages(api, subscription, region)
    for name in (*sorted({size.family for size in SIZES.values()}), SPOT_QUOTA):
        found = known.get(name.casefold())
        free = f"{_free(found)} of {found['limit']} vCPUs are free" if found else "no such quota"
        yield Finding(f"quota {name} in {region}", "ok" if found else "unknown", free)


def zone(api: ArmApi, subscription: str, region: str, node_type: str, asked: str | None) -> str:
    """Returns a zone that sells a machine; empty where the region has no zones.

    Args:
        api: Of the Resource Manager.
        subscription: Whose.
        region: Where.
        node_type: Of the machine.
        asked: The only zone that will do; None: any.

    Raises:
        PlanError: This subscription cannot have it there.
    """
    path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/skus?api-version={_SKUS}"
    skus = api.list(path, **{"$filter": f"location eq '{region}'"})
    sku = next((one for one in skus if one.get("name") == node_type), None)
    if sku is None:
        raise PlanError(f"Azure has no {node_type} in {region}; take another --region")
    zones = {zone for one in sku.get("locationInfo") or () for zone in one.get("zones") or ()}
    for limit in sku.get("restrictions") or ():
        if limit.get("type") == "Location":
            raise PlanError(
                f"subscription {subscription} may not have {node_type} in {region}"
                f" ({limit.get('reasonCode')}); take another --region, or ask Azure's support"
            )
        zones -= set((limit.get("restrictionInfo") or {}).get("zones") or ())
    if asked and asked not in zones:
        raise PlanError(
            f"--zone={asked}: {node_type} is to be had in {region} in"
            f" {'zones ' + ', '.join(sorted(zones)) if zones else 'no zone by its number'}"
        )
    return asked or min(zones, default="")


def _usages(api: ArmApi, subscription: str, region: str) -> dict[str, Mapping[str, Any]]:
    root = f"/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{region}"
    found = api.list(f"{root}/usages?api-version={_USAGES}")
    return {one["name"]["value"].casefold(): one for one in found}


def _free(usage: Mapping[str, Any]) -> int:
    return int(usage["limit"]) - int(usage["currentValue"])


def _finding(name: str, vcpus: int, region: str, usage: Mapping[str, Any] | None) -> Finding:
    subject = f"quota {name} in {region}"
    if usage is None:
        return Finding(
            subject, "unknown", f"{vcpus} vCPUs are needed, and Azure lists no such quota"
        )
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
    )
