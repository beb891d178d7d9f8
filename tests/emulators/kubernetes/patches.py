"""The three kinds of patches: merge (RFC 7396), strategic merge and JSON patch (RFC 6902)."""

from __future__ import annotations

from typing import Any

from emulators.kubernetes.status_errors import Refusal
from emulators.kubernetes.store import copied

MERGE_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "port"),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "taints": ("key",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "topologySpreadConstraints": ("topologyKey",),
}
SETS = {"finalizers"}


def merge_key(field: str, *lists: list[Any]) -> str | None:
    """Returns the field that identifies the entries of a list of objects; None: the list is atomic."""
    entries = [entry for one in lists for entry in one]
    for key in MERGE_KEYS.get(field, ()):
        if entries and all(isinstance(entry, dict) and key in entry for entry in entries):
            return key
    return None


def merge(old: Any, patch: Any) -> Any:
    """Returns `old` with a merge patch applied."""
    if not isinstance(patch, dict):
        return copied(patch)
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def strategic(old: Any, patch: Any, field: str = "") -> Any:
    """Returns `old` with a strategic merge patch applied: known lists merge by key."""
    if isinstance(patch, dict):
        if patch.get("$patch") == "replace":
            return {name: value for name, value in patch.items() if name != "$patch"}
        merged = dict(old) if isinstance(old, dict) else {}
        for name, value in patch.items():
            if name.startswith(("$setElementOrder/", "$retainKeys")):
                continue
            if name.startswith("$deleteFromPrimitiveList/"):
                real = name.partition("/")[2]
                merged[real] = [one for one in merged.get(real, []) if one not in value]
            elif value is None:
                merged.pop(name, None)
            else:
                merged[name] = strategic(merged.get(name), value, name)
        return merged
    if isinstance(patch, list) and isinstance(old, list):
        if field in SETS:
            return [*old, *(one for one in patch if one not in old)]
        real = [one for one in patch if not (isinstance(one, dict) and set(one) == {"$patch"})]
        if len(real) == len(patch) and (key := merge_key(field, old, patch)):
            return _merged_by(key, old, patch)
        return copied(real)
    return copied(patch)


def _merged_by(key: str, old: list[Any], patch: list[Any]) -> list[Any]:
    merged = {entry[key]: entry for entry in old}
    for entry in patch:
        if entry.get("$patch") == "delete":
            merged.pop(entry[key], None)
        else:
            merged[entry[key]] = strategic(merged.get(entry[key]), entry)
    return list(merged.values())


def json_patch(old: Any, operations: list[dict[str, Any]]) -> Any:
    """Returns `old` with JSON patch operations applied, all or none."""
    new = {"": copied(old)}
    for operation in operations:
        try:
            _operate(new, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            text = "the server rejected our request due to an error in our request"
            raise Refusal(422, f"{text}: {operation.get('path')}") from error
    return new[""]


def _operate(root: Any, operation: dict[str, Any]) -> None:
    name = operation["op"]
    if name in {"move", "copy"}:
        parent, last = _pointer(root, operation["from"])
        value = copied(parent[last])
        if name == "move":
            del parent[last]
        name = "add"
    else:
        value = copied(operation.get("value"))
    parent, last = _pointer(root, operation["path"], adds=name == "add")
    if name == "test":
        if parent[last] != value:
            raise ValueError("the test failed")
    elif name == "remove":
        del parent[last]
    elif name == "add" and isinstance(parent, list):
        parent.insert(last, value)
    elif name == "add" or (name == "replace" and parent[last] is not Ellipsis):
        parent[last] = value


def _pointer(root: Any, path: str, *, adds: bool = False) -> tuple[Any, Any]:
    *above, last = [one.replace("~1", "/").replace("~0", "~") for one in path.split("/")]
    parent = root
    for step in above:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    if isinstance(parent, list):
        return parent, len(parent) if last == "-" and adds else int(last)
    return parent, last
