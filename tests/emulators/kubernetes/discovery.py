"""API discovery: versions, groups, kinds, and the parts of /openapi/v3 that kubectl needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.resources import SUBRESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulators.kubernetes.resources import Resource

GROUP = re.compile(r"^/apis/(?P<group>[^/]+)/?$")
VERSION = re.compile(r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))/?$")
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
OPENAPI = "/openapi/v3"


def answer(resources: Iterable[Resource], path: str, version: str) -> Any:
    """Returns what the server answers at a path; None: it is no such path."""
    resources = list(resources)
    major, _, minor = version.partition(".")
    fixed = {
        "/healthz": "ok",
        "/livez": "ok",
        "/readyz": "ok",
        "/version": {"major": major, "minor": minor, "gitVersion": f"v{version}.0"}
        | {"platform": "linux/amd64"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": group_list(resources),
    }
    if (outcome := fixed.get(path.rstrip("/"))) is not None:
        return outcome
    if found := GROUP.match(path):
        for group in fixed["/apis"]["groups"]:
            if group["name"] == found["group"]:
                return {"kind": "APIGroup", "apiVersion": "v1", **group}
    if found := VERSION.match(path):
        of = found["core"] or found["version"]
        return resource_list(resources, found["group"] or "", of)
    return openapi(resources, path) if path.startswith(OPENAPI) else None


def group_list(resources: Iterable[Resource]) -> dict[str, Any]:
    """What `GET /apis` answers."""
    versions: dict[str, list[str]] = {}
    for one in resources:
        known = versions.setdefault(one.group, [])
        if one.version not in known:
            known.append(one.version)
    versions.setdefault("authorization.k8s.io", ["v1"])
    groups = []
    for group, named in versions.items():
        if group:
            outcome = [{"groupVersion": f"{group}/{one}", "version": one} for one in named]
            groups.append({"name": group, "versions": outcome, "preferredVersion": outcome[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def resource_list(resources: Iterable[Resource], group: str, version: str) -> dict[str, Any] | None:
    """What `GET /api/v1` or `GET /apis/GROUP/VERSION` answers, if there is such a version."""
    outcome: list[dict[str, Any]] = []
    for one in resources:
        if (one.group, one.version) != (group, version):
            continue
        entry = {
            "name": one.plural,
            "singularName": one.kind.lower(),
            "namespaced": one.namespaced,
            "kind": one.kind,
            "verbs": VERBS,
            "shortNames": list(one.short),
        }
        outcome.append(entry)
        if one.status:
            outcome.append(_part(one, "status", one.kind, ["get", "patch", "update"]))
        outcome.extend(
            _part(one, part, one.kind, ["get" if part == "log" else "create"])
            for part in SUBRESOURCES.get(one.plural, ())
        )
    if (group, version) == ("authorization.k8s.io", "v1"):
        outcome.extend(
            {
                "name": f"{kind.lower()}s",
                "singularName": kind.lower(),
                "namespaced": False,
                "kind": kind,
                "verbs": ["create"],
            }
            for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview")
        )
    if not outcome:
        return None
    of = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": of, "resources": outcome}


def _part(resource: Resource, part: str, kind: str, verbs: list[str]) -> dict[str, Any]:
    return {
        "name": f"{resource.plural}/{part}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": verbs,
    }


def openapi(resources: Iterable[Resource], path: str) -> dict[str, Any] | None:
    """Returns the index, or what lets kubectl leave the checking of fields to the server."""
    if path == OPENAPI:
        folders = {_folder(one) for one in resources}
        links = {name: {"serverRelativeURL": f"{OPENAPI}/{name}?hash=0"} for name in folders}
        return {"paths": links}
    folder = path.removeprefix(f"{OPENAPI}/")
    paths = {}
    for one in resources:
        if _folder(one) == folder and path != folder:
            where = "/namespaces/{namespace}" if one.namespaced else ""
            kind = {"group": one.group, "version": one.version, "kind": one.kind}
            parameters = [
                {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}},
                {"name": "dryRun", "in": "query", "schema": {"type": "string"}},
            ]
            patch = {
                "parameters": parameters,
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            }
            paths[f"/{folder}{where}/{one.plural}/{{name}}"] = {"patch": patch}
    if not paths:
        return None
    info = {"title": "Kubernetes", "version": "test cluster"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _folder(resource: Resource) -> str:
    return f"{'apis' if resource.group else 'api'}/{resource.api_version}"
