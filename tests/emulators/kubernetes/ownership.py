"""Server-side apply: field ownership and conflicts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.patches import SETS, merge_key, strategic
from emulators.kubernetes.selection import at
from emulators.kubernetes.status_errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str, ...]
NO_MANAGER = {"apiVersion", "kind", "status"}
NOT_OWNED = {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"}
NOT_OWNED |= {"managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "generateName"}


def fields(found: dict[str, Any]) -> dict[Path, str]:
    """Returns the fields that a manager may own, with their values as JSON."""
    body = {name: value for name, value in found.items() if name not in NO_MANAGER}
    own = body.get("metadata") or {}
    body["metadata"] = {name: value for name, value in own.items() if name not in NOT_OWNED}
    return dict(_leaves(body, (), ""))


def _leaves(value: Any, path: Path, field: str) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*path, f"f:{name}"), name)
    elif isinstance(value, list) and field in SETS:
        for inner in value:
            yield (*path, f"v:{json.dumps(inner)}"), ""
    elif isinstance(value, list) and (key := merge_key(field, value)):
        for inner in value:
            entry = (*path, f"k:{json.dumps({key: inner[key]})}")
            yield from _leaves(inner, entry, "")
    elif value != {} or path[:1] != ("f:metadata",):
        yield path, json.dumps(value, sort_keys=True)


def managers(found: dict[str, Any]) -> dict[tuple[str, str], set[Path]]:
    """Reads the owners of an object's fields: (manager, operation) -> fields."""
    return {
        (entry["manager"], entry["operation"]): set(_paths(entry["fieldsV1"], ()))
        for entry in found["metadata"].get("managedFields") or []
    }


def _paths(tree: dict[str, Any], path: Path) -> Iterator[Path]:
    for name, below in tree.items():
        if below:
            yield from _paths(below, (*path, name))
        else:
            yield (*path, name)


def keep(found: dict[str, Any], owners: dict[tuple[str, str], set[Path]], now: str) -> None:
    """Writes the owners into an object, without those that own no field."""
    before = {
        (entry["manager"], entry["operation"]): entry
        for entry in found["metadata"].get("managedFields") or []
    }
    entries = []
    for (manager, operation), owned in owners.items():
        if not owned:
            continue
        tree: dict[str, Any] = {}
        for path in sorted(owned):
            below = tree
            for step in path:
                below = below.setdefault(step, {})
        entry = {
            "manager": manager,
            "operation": operation,
            "apiVersion": found["apiVersion"],
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": tree,
        }
        known = before.get((manager, operation))
        entries.append(known if known and known["fieldsV1"] == tree else entry)
    found["metadata"]["managedFields"] = entries


def updated(old: dict[str, Any] | None, new: dict[str, Any], manager: str, now: str) -> None:
    """Makes the manager of a plain create or update the owner of the changed fields."""
    before, after = fields(old) if old else {}, fields(new)
    changed = {path for path, value in after.items() if before.get(path) != value}
    owners = managers(old) if old else {}
    for owned in owners.values():
        owned.intersection_update(after.keys() - changed)
    if changed:
        owners.setdefault((manager, "Update"), set()).update(changed)
    keep(new, owners, now)


def applied(
    old: dict[str, Any], wanted: dict[str, Any], manager: str, *, force: bool, now: str
) -> dict[str, Any]:
    """Returns `old` with the fields that a manager applies, without those that it alone owned and no longer names."""
    has, wants = fields(old), fields(wanted)
    owners = managers(old)
    me = (manager, "Apply")
    conflicts = [
        (other, path)
        for other, owned in owners.items()
        if other != me
        for path in sorted(owned & wants.keys())
        if has.get(path) != wants[path]
    ]
    if conflicts and not force:
        raise _conflict(conflicts, old["apiVersion"])
    for other, path in conflicts:
        owners[other].discard(path)
    new: dict[str, Any] = strategic(old, wanted)
    elsewhere: set[Path] = set()
    elsewhere.update(*(owned for other, owned in owners.items() if other != me))
    kept = elsewhere | wants.keys()
    for path in {_alone(gone, kept) for gone in owners.get(me, set()) - kept}:
        _remove(new, path)
    owners[me] = set(wants)
    keep(new, owners, now)
    return new


def _conflict(conflicts: list[tuple[tuple[str, str], Path]], api_version: str) -> Refusal:
    causes = []
    for (other, operation), path in conflicts:
        using = "" if operation == "Apply" else f" using {api_version}"
        causes.append(
            {
                "reason": "FieldManagerConflict",
                "message": f'conflict with "{other}"{using}',
                "field": _shown(path),
            }
        )
    outcome = ", ".join(f"{one['message']}: {one['field']}" for one in causes)
    plural = "" if len(causes) == 1 else "s"
    text = f"Apply failed with {len(causes)} conflict{plural}: {outcome}"
    return Refusal(409, text, details={"causes": causes})


def _shown(path: Path) -> str:
    text = ""
    for step in path:
        kind, _, value = step.partition(":")
        text += f".{value}" if kind == "f" else f"[{value}]"
    return text


def _alone(path: Path, kept: set[Path]) -> Path:
    """Returns the entry of a list that a field belongs to, where nothing of the entry is kept."""
    for length, step in enumerate(path[:-1], 1):
        if step.startswith("k:") and not any(one[:length] == path[:length] for one in kept):
            return path[:length]
    return path


def _remove(found: Any, path: Path) -> None:
    *above, last = path
    parents = [found]
    for step in above:
        parents.append(_step(parents[-1], step))
    lease_owner = parents[-1]
    if isinstance(lease_owner, dict):
        lease_owner.pop(last[2:], None)
    elif isinstance(lease_owner, list):
        gone = _step(lease_owner, last) if last.startswith("k:") else json.loads(last[2:])
        lease_owner[:] = [one for one in lease_owner if one != gone]
    for step, inner, outer in zip(reversed(above), parents[:0:-1], parents[-2::-1], strict=True):
        if inner in ({}, []) and step.startswith("f:"):
            del outer[step[2:]]


def _step(found: Any, step: str) -> Any:
    if step.startswith("f:"):
        return at(found, step[2:])
    if step.startswith("k:") and isinstance(found, list):
        ((key, value),) = json.loads(step[2:]).items()
        return next((one for one in found if one.get(key) == value), None)
    return None
