"""Strict schemas of the built-in kinds, for one version of Kubernetes, and of custom ones."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing import Resource as Document

from emulators.kubernetes.status_errors import Refusal, invalid
from emulators.kubernetes.store import copied

if TYPE_CHECKING:
    from emulators.kubernetes.resources import Resource

PERMISSIVE = {"Ignore", "Warn"}


@cache
def _registry(version: str) -> Registry:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))
    return Document.from_contents(definitions) @ Registry()


@cache
def _built_in(resource: Resource, version: str) -> Draft202012Validator:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    group = f"{resource.group.split('.')[0]}-" if resource.group else ""
    name = f"{resource.kind.lower()}-{group}{resource.version}.json"
    schema = json.loads((folder / name).read_text(encoding="utf-8"))
    return Draft202012Validator(schema, registry=_registry(version))


class Schemas:
    """Checks objects as the API server does when it decodes them."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._custom: dict[Resource, Draft202012Validator] = {}

    def learn(self, resource: Resource, structural: dict[str, Any]) -> None:
        """Adds the schema of a custom kind from its definition."""
        schema = _closed(copied(structural))
        schema.setdefault("properties", {}).update(apiVersion={}, kind={}, metadata={})
        self._custom[resource] = Draft202012Validator(schema)

    def check(self, resource: Resource, found: dict[str, Any], field_validation: str) -> None:
        """Refuses invalid objects; drops unknown fields if the request allows that."""
        if resource.stored_only:
            return
        validator = self._custom.get(resource) or _built_in(resource, self.version)
        outcome = {name: value for name, value in found.items() if name != "status"}
        # A removed field's parent is looked at again: below it there may be more.
        while errors := list(validator.iter_errors(outcome)):
            unknown = [path for error in errors for path in _unknown(error)]
            if not unknown or field_validation not in PERMISSIVE:
                raise _refusal(resource, found, errors, unknown)
            for *above, name in unknown:
                parent = found
                for step in above:
                    parent = parent[step]
                del parent[name]
            outcome = {name: value for name, value in found.items() if name != "status"}


def _unknown(error: Any) -> list[list[str | int]]:
    if error.validator != "additionalProperties" or error.validator_value is not False:
        return []
    known = error.schema.get("properties", {})
    return [[*error.absolute_path, name] for name in error.instance if name not in known]


def _refusal(
    resource: Resource, found: dict[str, Any], errors: list[Any], unknown: list[list[str | int]]
) -> Refusal:
    name = found["metadata"].get("name") or found["metadata"].get("generateName", "")
    cannot = (
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
    )
    if unknown:
        outcome = ", ".join(f'unknown field "{_dotted(path)}"' for path in unknown)
        return Refusal(400, f"{cannot}: strict decoding error: {outcome}")
    for error in errors:
        if error.validator in {"type", "oneOf"}:
            wanted = " or ".join(one for one in _types(error) if one != "null")
            path = _dotted(error.absolute_path)
            has = _type_name(error.instance)
            text = f"json: cannot unmarshal {has} into Go struct field {path} of type {wanted}"
            return Refusal(400, f"{cannot}: {text}")
    return invalid(resource, name, [_cause(error) for error in errors])


def _cause(error: Any) -> tuple[str, str]:
    path = list(error.absolute_path)
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return _dotted([*path, missing]), "Required value"
    return _dotted(
        path
    ), f"Invalid value: {json.dumps(error.instance)[:200]}: {error.message[:200]}"


def _types(error: Any) -> list[str]:
    if error.validator == "oneOf":
        return [name for one in error.validator_value for name in one.get("type", ())]
    value = error.validator_value
    return [value] if isinstance(value, str) else value


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")


def _dotted(path: Any) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def _closed(schema: Any) -> Any:
    """Makes a structural schema one of JSON Schema that refuses unknown fields."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: _closed(value) for name, value in schema.items()}
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("type", None)
    if schema.pop("nullable", False) and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    keeps = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not keeps:
        schema.setdefault("additionalProperties", False)
    return schema
