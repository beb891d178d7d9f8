"""Lists of the Resource Manager: resources by tag, quotas, VM sizes, providers, permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from emulators.azure.arm import ASSIGNMENTS, CLUSTERS, POOLS, Arm, Refusal, scope_of
from emulators.azure.rights import Assignment

_TAG = re.compile(r"tagName eq '([^']+)'(?: and tagValue eq '([^']+)')?")
_PROXIES = (POOLS, "microsoft.authorization/roleassignments")
SERVICES = ("Compute", "ContainerService", "ManagedIdentity", "Network", "Storage")


@dataclass
class Lists:
    """Quotas, offers and permissions of a subscription.

    Attributes:
        limits: Of quotas, by name; else `limit`.
        restrictions: Of machines for sale.
        off: Services that are not registered.
        allowed: Permissions of the logged-in user.
        page: Items in a page of a list.
        loses_pages: Whether pages after the first are not found.
    """

    arm: Arm
    limit: int = 100
    limits: dict[str, int] = field(default_factory=dict)
    zones: tuple[str, ...] = ("1", "2", "3")
    restrictions: list[dict[str, Any]] = field(default_factory=list)
    off: tuple[str, ...] = ()
    allowed: list[dict[str, Any]] = field(
        default_factory=lambda: [{"actions": ["*"], "notActions": []}]
    )
    subscriptions: list[dict[str, Any]] = field(default_factory=list)
    page: int = 2
    loses_pages: bool = False
    grants: Callable[[], list[Assignment] | None] = lambda: None

    def list(self, path: str, query: dict[str, str]) -> list[dict[str, Any]] | None:
        """Returns the list at a path; None: there is none."""
        low = path.lower()
        root = f"/subscriptions/{self.arm.subscription}"
        if low == "/subscriptions":
            return self.subscriptions
        if not low.startswith(root):
            return None
        low = low.removeprefix(root)
        plain = {
            "/providers": self._services,
            "/providers/microsoft.compute/skus": lambda: self._skus(query),
            "/providers/microsoft.containerservice/managedclusters": self._clusters,
            "/resourcegroups": lambda: self._tagged(query, groups=True),
            "/resources": lambda: self._tagged(query, groups=False),
        }
        if low.endswith("/providers/microsoft.authorization/permissions"):
            return self._permissions(path.rpartition("/providers/")[0])
        if low.startswith("/providers/microsoft.compute/locations/") and low.endswith("/usages"):
            return self._usages()
        if low.endswith("/capacityreservations"):
            plain[low] = lambda: self._reserved(path)
        if low.endswith(f"/providers/{ASSIGNMENTS}"):
            plain[low] = lambda: self._assigned(scope_of(path), query)
        if low in plain:
            return plain[low]()
        inside = re.fullmatch(r"/resourcegroups/([^/]+)/resources", low)
        return self._inside(f"{root}/resourcegroups/{inside[1]}/") if inside else None

    def _assigned(self, scope: str, query: dict[str, str]) -> list[dict[str, Any]]:
        """The assignments of a principal on a scope, above and below it.

        https://learn.microsoft.com/rest/api/authorization/role-assignments/list-for-scope (read 2026-11-25).
        """
        found = re.fullmatch(r"principalId eq '([-0-9a-f]{36})'", query.get("$filter", ""))
        if not found:
            raise Refusal(400, "UnsupportedQuery", "only principalId")
        return [
            one.body
            for address, one in self.arm.resources.items()
            if one.kind == ASSIGNMENTS and one.body["properties"]["principalId"] == found[1]
            if f"{scope.lower()}/".startswith(f"{scope_of(address)}/")
            or scope_of(address).startswith(f"{scope.lower()}/")
        ]

    def _reserved(self, path: str) -> list[dict[str, Any]]:
        there = f"{path.lower()}/"
        return [one.body for key, one in self.arm.resources.items() if key.startswith(there)]

    def _permissions(self, scope: str) -> list[dict[str, Any]]:
        """The roles of the login on a scope, with those that it inherits."""
        roles = self.grants()
        if roles is None:
            return self.allowed
        return [
            {"actions": one.role["Actions"], "notActions": one.role["NotActions"]}
            for one in roles
            if one.reaches(scope)
        ]

    def _services(self) -> list[dict[str, Any]]:
        return [
            {
                "namespace": f"Microsoft.{name}",
                "registrationState": "NotRegistered" if name in self.off else "Registered",
            }
            for name in SERVICES
        ]

    def _skus(self, query: dict[str, str]) -> list[dict[str, Any]]:
        region = re.fullmatch(r"location eq '(\w+)'", query["$filter"])
        assert region
        from cloudgan.core import machines

        where = [{"location": region[1], "zones": list(self.zones)}]
        return [
            {
                "resourceType": "virtualMachines",
                "name": name,
                "locationInfo": where,
                "restrictions": self.restrictions,
            }
            for name in (*machines.sold("azure"), *machines.sold("azure", "system"))
            if name not in self.arm.unsold
        ]

    def _usages(self) -> list[dict[str, Any]]:
        from cloudgan.core import machines

        names = sorted(
            {one.quota for one in machines.sold("azure").values()}
            | {one.quota for one in machines.sold("azure", "system").values()}
        )
        return [
            {
                "unit": "Count",
                "currentValue": 0,
                "limit": self.limits.get(name, self.limit),
                # Azure's own capitals are not those of any list.
                "name": {"value": name.swapcase(), "localizedValue": f"Azure's words for {name}"},
            }
            for name in (*names, "cores", "lowPriorityCores")
        ]

    def _clusters(self) -> list[dict[str, Any]]:
        return [self.arm.answer(one) for one in self.arm.of_kind(CLUSTERS)]

    def _tagged(self, query: dict[str, str], *, groups: bool) -> list[dict[str, Any]]:
        found = _TAG.fullmatch(query.get("$filter", ""))
        if not found:
            raise Refusal(400, "InvalidFilterInQueryString", "only tagName and tagValue")
        name, value = found.groups()
        return [
            {key: one.body[key] for key in one.body if key != "properties"}
            for one in self.arm.resources.values()
            if (one.kind == "resourcegroups") == groups
            and one.kind not in _PROXIES
            and name in (one.body.get("tags") or {})
            and value in (None, one.body["tags"][name])
        ]

    def _inside(self, root: str) -> list[dict[str, Any]]:
        return [
            {key: one.body[key] for key in one.body if key != "properties"}
            for address, one in self.arm.resources.items()
            if address.startswith(root) and address.count("/") == 8
        ]
