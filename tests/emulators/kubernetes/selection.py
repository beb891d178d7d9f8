"""Label and field selectors, and paths into objects."""

from __future__ import annotations

import re
from typing import Any

from emulators.kubernetes.status_errors import Refusal

SET_BASED = re.compile(r"^([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)$")
EQUALITY = re.compile(r"^([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)$")
EXISTENCE = re.compile(r"^(!?)\s*([^\s!=,()]+)$")


def matches_labels(selector: str, labels: dict[str, str]) -> bool:
    parts = [part.strip() for part in re.split(r",(?![^(]*\))", selector)]
    return all(_holds(part, labels) for part in parts if part)


def _holds(part: str, labels: dict[str, str]) -> bool:
    if found := SET_BASED.match(part):
        values = {value.strip() for value in found[3].split(",")}
        return (labels.get(found[1]) in values) == (found[2] == "in")
    if found := EQUALITY.match(part):
        return (labels.get(found[1]) == found[3]) == (found[2] != "!=")
    if found := EXISTENCE.match(part):
        return (found[2] in labels) == (not found[1])
    raise Refusal(400, f"unable to parse requirement: found {part!r}")


def matches_fields(selector: str, found: dict[str, Any]) -> bool:
    for part in filter(None, selector.split(",")):
        parsed = EQUALITY.match(part.strip())
        if not parsed:
            raise Refusal(400, f"invalid field selector: {part!r}")
        value = at(found, *parsed[1].split("."))
        if ((str(value) if value is not None else "") == parsed[3]) == (parsed[2] == "!="):
            return False
    return True


def matches(labels: str, fields: str, found: dict[str, Any]) -> bool:
    own = found["metadata"].get("labels") or {}
    return matches_labels(labels, own) and matches_fields(fields, found)


def matches_label_selector(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Returns whether a `LabelSelector` or a node selector term, as objects hold it, matches."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return all(_expression(one, labels) for one in selector.get("matchExpressions") or [])


def _expression(one: dict[str, Any], labels: dict[str, str]) -> bool:
    value, values = labels.get(one["key"]), one.get("values") or []
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[one["operator"]]


def at(found: Any, *path: str | int, default: Any = None) -> Any:
    """Returns what is at a path of keys, or `default` where it ends early."""
    for step in path:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            return default
    return found
