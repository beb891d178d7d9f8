"""The permission that a Resource Manager request needs, and the role assignments that grant it.

https://learn.microsoft.com/azure/role-based-access-control/overview (read 2026-11-22): an assignment
grants the actions of a role on its scope and all below; assignments add up. Conditions on role
assignments: https://learn.microsoft.com/azure/role-based-access-control/delegate-role-assignments-examples
(read 2026-11-22); only the roles that may be assigned are evaluated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from emulators.azure.arm import kind_of

_VERBS = {"GET": "read", "PUT": "write", "DELETE": "delete", "POST": "action"}
_LISTS = {
    "/providers": "providers",
    "/resources": "resources",
    "/resourcegroups": "resourcegroups",
}
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Assignment:
    """A role on a scope.

    Attributes:
        role: Role definition.
        scope: Resource id.
        condition: Names the role definitions that may be assigned; empty: all.
    """

    role: dict[str, Any]
    scope: str
    condition: str = ""

    def reaches(self, path: str) -> bool:
        """Whether a resource is the scope or below it."""
        return f"{path.lower()}/".startswith(f"{self.scope.lower()}/")

    def grants(self, method: str, path: str, body: Any = None) -> bool:
        """Whether it grants a request."""
        action = action_of(method, path)
        if not self.reaches(path) or not _any(action, self.role["Actions"]):
            return False
        if action == "microsoft.authorization/roleassignments/write" and self.condition:
            wanted = str(((body or {}).get("properties") or {}).get("roleDefinitionId", "")).lower()
            return wanted.rpartition("/")[2] in _GUID.findall(self.condition.lower())
        return not _any(action, self.role.get("NotActions", ()))


def is_allowed(assignments: Iterable[Assignment], method: str, path: str, body: Any = None) -> bool:
    """Whether assignments grant a request."""
    if not action_of(method, path):
        return True
    return any(one.grants(method, path, body) for one in assignments)


def _any(action: str, patterns: Iterable[str]) -> bool:
    return any(
        re.fullmatch(re.escape(one.lower()).replace(r"\*", ".*"), action) for one in patterns
    )


def action_of(method: str, path: str) -> str:
    """Returns the right, in lower case; empty: none is needed."""
    low = path.lower()
    if low == "/subscriptions":
        return ""  # needs any permission
    for end, kind in _LISTS.items():
        if low.count("/") == 3 and low.endswith(end):
            return f"microsoft.resources/subscriptions/{kind}/read"
    if low.count("/") == 5 and low.endswith("/resources"):
        return "microsoft.resources/subscriptions/resourcegroups/resources/read"
    kind = kind_of(path)
    if kind == "resourcegroups":
        kind = "microsoft.resources/subscriptions/resourcegroups"
    return f"{kind}/{_VERBS[method]}"
