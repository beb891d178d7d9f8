"""Lays one YAML tree over another, as kustomize does: no templates, no text replaced."""

from __future__ import annotations

import copy
import functools
from typing import Any

import yaml

from cloudgan import assets


def base(name: str) -> dict[str, Any]:
    """Returns a manifest of k8s/, such as ``job`` or ``overlays/claim``."""
    return copy.deepcopy(_parsed(name))


@functools.cache
def _parsed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(assets.read_text(f"k8s/{name}.yaml"))
    return found


def merged(under: Any, over: Any) -> Any:
    """Lays `over` over `under`: mappings by key, lists of named things by name, else replaced."""
    if isinstance(under, dict) and isinstance(over, dict):
        return under | {key: merged(under.get(key), value) for key, value in over.items()}
    if _is_named(under) and _is_named(over):
        names = [one["name"] for one in under]
        by_name = {one["name"]: one for one in over}
        kept = [merged(one, by_name.get(one["name"], one)) for one in under]
        return kept + [one for one in over if one["name"] not in names]
    return over


def _is_named(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and "name" in one for one in value)
    )
