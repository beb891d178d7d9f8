"""Conditional role bindings: whether one grants a permission on a resource.

Attributes and functions: https://cloud.google.com/iam/docs/conditions-attribute-reference; names and
types of resources: https://cloud.google.com/iam/docs/conditions-resource-attributes; limits on grants:
https://cloud.google.com/iam/docs/setting-limits-on-granting-roles (read 2026-11-22). Lists and
creations are requests on the project, whatever they list or create. Permissions on objects in a
cluster are permissions on the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

_CREATED = ("container.clusters.create", "storage.buckets.create")


class Resource(NamedTuple):
    """What a permission is needed on."""

    type: str
    name: str

    @property
    def service(self) -> str:
        return self.type.partition("/")[0]


class Binding(NamedTuple):
    """Permissions of a role, with the expression of its condition; empty: none."""

    permissions: frozenset[str]
    expression: str = ""

    def grants(self, permission: str, resource: Resource, roles: Iterable[str] = ()) -> bool:
        """Whether it grants a permission on a resource.

        Args:
            permission: Such as ``container.clusters.delete``.
            resource: The resource.
            roles: Roles that the request grants or revokes.
        """
        fulfilled = not self.expression or holds(self.expression, resource, roles)
        return permission in self.permissions and fulfilled


class _Text(str):
    """A string of the Common Expression Language."""

    __slots__ = ()

    def startsWith(self, other: str) -> bool:  # noqa: N802
        return self.startswith(other)

    def extract(self, template: str) -> _Text:
        """Returns the part of the text at the place of ``{name}``; empty: the template is not in it."""
        before, _, after = re.sub(r"\{\w+\}", "\0", template).partition("\0")
        found = re.search(re.escape(before) + "(.*?)" + (re.escape(after) if after else "$"), self)
        return _Text(found[1] if found else "")


class _Roles(list[str]):
    def hasOnly(self, allowed: list[str]) -> bool:  # noqa: N802
        return set(self) <= set(allowed)


class _Api:
    def __init__(self, roles: Iterable[str]) -> None:
        self._roles = roles

    def getAttribute(self, name: str, default: list[str]) -> _Roles:  # noqa: N802
        assert name == "iam.googleapis.com/modifiedGrantsByRole", name
        return _Roles(self._roles or default)


class _Shown:
    def __init__(self, resource: Resource) -> None:
        self.type, self.name = _Text(resource.type), _Text(resource.name)
        self.service = _Text(resource.service)


def holds(expression: str, resource: Resource, roles: Iterable[str] = ()) -> bool:
    """Returns whether a condition holds."""
    python = expression.replace("&&", " and ").replace("||", " or ")
    python = re.sub(r"!(?!=)", " not ", python)
    names = {"resource": _Shown(resource), "api": _Api(roles), "__builtins__": {}}
    return bool(eval(f"({python})", names))  # noqa: S307  of a file of this repository


def resource_of(permission: str, host: str, path: str) -> Resource:
    """Returns the resource of a permission that a request needs.

    Args:
        permission: Such as ``container.clusters.get``.
        host: Such as ``container.googleapis.com``.
        path: Of the request, after the host.
    """
    project = Resource("cloudresourcemanager.googleapis.com/Project", "projects/lab")
    if permission in _CREATED or permission.endswith(("s.list", "s.create")):
        return project
    patterns = {
        "container.googleapis.com/Cluster": r"(projects/[^/]+/locations/[^/]+/clusters/[^/:?]+)",
        "compute.googleapis.com/Instance": r"(projects/[^/]+/zones/[^/]+/instances/[^/]+)",
        "compute.googleapis.com/Disk": r"(projects/[^/]+/zones/[^/]+/disks/[^/]+)",
        "iam.googleapis.com/ServiceAccount": r"(projects/[^/]+/serviceAccounts/[^/:]+)",
        "storage.googleapis.com/Bucket": r"/b/([^/?]+)",
    }
    for kind, pattern in patterns.items():
        found = re.search(pattern, path)
        if found and kind.startswith(host):
            return Resource(
                kind, f"projects/_/buckets/{found[1]}" if "/b/" in pattern else found[1]
            )
    return project


def roles_of(body: Any) -> set[str]:
    """Returns the roles in a policy that a request sets; those that it leaves as they are count too."""
    policy = body.get("policy", body) if isinstance(body, dict) else {}
    bindings = policy.get("bindings", ()) if isinstance(policy, dict) else ()
    return {one["role"] for one in bindings}
