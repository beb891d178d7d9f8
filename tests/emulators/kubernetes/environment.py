"""The environment of a container, from its manifest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from emulators.kubernetes import quantities
from emulators.kubernetes.selection import at
from emulators.kubernetes.volumes import NotReady, data_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulators.kubernetes.store import Store

Object = dict[str, Any]
VARIABLE = re.compile(r"\$(\$|\((\w[\w.-]*)\))")
KEYED = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")
ADDRESS = "127.0.0.1"
CANNOT = "CreateContainerConfigError"


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` where the name is known; `$$` is a dollar."""

    def value(found: re.Match[str]) -> str:
        if found[1] == "$":
            return "$"
        return known.get(found[2], found[0])

    return VARIABLE.sub(value, text)


def variables(store: Store, pod: Object, container: Object) -> dict[str, str]:
    """Returns the variables of a container's `envFrom` and `env`."""
    namespace, found = pod["metadata"]["namespace"], {}
    for source in container.get("envFrom") or []:
        for field, plural in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if field in source:
                data = _data(store, plural, namespace, source[field])
                prefix = source.get("prefix", "")
                found |= {prefix + key: value.decode() for key, value in data.items()}
    for entry in container.get("env") or []:
        source = entry.get("valueFrom")
        if source is None:
            found[entry["name"]] = expand(entry.get("value") or "", found)
        elif (value := _value(store, pod, container, source)) is not None:
            found[entry["name"]] = value
    return found


def _data(store: Store, plural: str, namespace: str, source: Object) -> dict[str, bytes]:
    data = data_of(store, plural, namespace, source["name"])
    if data is None and not source.get("optional"):
        raise NotReady(CANNOT, f'{plural.removesuffix("s")} "{source["name"]}" not found')
    return data or {}


def _value(store: Store, pod: Object, container: Object, source: Object) -> str | None:
    namespace = pod["metadata"]["namespace"]
    for field, plural in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if reference := source.get(field):
            data = _data(store, plural, namespace, reference)
            if reference["key"] in data:
                return data[reference["key"]].decode()
            if reference.get("optional"):
                return None
            kind = "ConfigMap" if plural == "configmaps" else "Secret"
            where = f"{kind} {namespace}/{reference['name']}"
            raise NotReady(CANNOT, f"couldn't find key {reference['key']} in {where}")
    if reference := source.get("resourceFieldRef"):
        kind, _, name = reference["resource"].partition(".")
        amount = quantities.requests(container, kind).get(name, 0)
        return quantities.shown(amount / quantities.parse(reference.get("divisor") or "1"))
    return _field(pod, source["fieldRef"]["fieldPath"])


def _field(pod: Object, path: str) -> str:
    if found := KEYED.match(path):
        return str(at(pod, "metadata", found[1], found[2], default=""))
    if path in {"status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs"}:
        return ADDRESS
    return str(at(pod, *path.split("."), default=""))
