"""Valid requests and responses of each resource type."""

from __future__ import annotations

import enum
import types
import typing
from functools import cache
from typing import Any

import azure.mgmt.containerservice.models as aks
import jsonschema
from azure.mgmt.containerservice._utils.model_base import Model
from azure.mgmt.containerservice.models import _models

MODELS = {
    "microsoft.containerservice/managedclusters": aks.ManagedCluster,
    "microsoft.containerservice/managedclusters/agentpools": aks.AgentPool,
}
_TEXT, _TAGS = {"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}


def _closed(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


_YES_OR_NO = {"type": "boolean"}
SCHEMAS = {
    "resourcegroups": _closed(("location",), location=_TEXT, tags=_TAGS),
    "microsoft.storage/storageaccounts": _closed(
        ("location", "kind", "sku"),
        location=_TEXT,
        tags=_TAGS,
        kind={"enum": ["StorageV2", "BlockBlobStorage"]},
        sku=_closed(("name",), name={"enum": ["Standard_LRS", "Standard_ZRS", "Standard_GRS"]}),
        properties=_closed(
            (),
            allowBlobPublicAccess=_YES_OR_NO,
            allowCrossTenantReplication=_YES_OR_NO,
            allowSharedKeyAccess=_YES_OR_NO,
            defaultToOAuthAuthentication=_YES_OR_NO,
            minimumTlsVersion={"enum": ["TLS1_2", "TLS1_3"]},
            supportsHttpsTrafficOnly=_YES_OR_NO,
        ),
    ),
    "microsoft.storage/storageaccounts/blobservices/containers": _closed(
        (), properties=_closed((), publicAccess={"enum": ["None", "Blob", "Container"]})
    ),
    "microsoft.managedidentity/userassignedidentities": _closed(
        ("location",), location=_TEXT, tags=_TAGS
    ),
    "microsoft.managedidentity/userassignedidentities/federatedidentitycredentials": _closed(
        ("properties",),
        properties=_closed(
            ("issuer", "subject", "audiences"),
            issuer={"type": "string", "pattern": "^https://"},
            subject=_TEXT,
            audiences={"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 1},
        ),
    ),
    "microsoft.authorization/roleassignments": _closed(
        ("properties",),
        properties=_closed(
            ("roleDefinitionId", "principalId"),
            roleDefinitionId={"type": "string", "pattern": "/roleDefinitions/[-0-9a-f]{36}$"},
            principalId={"type": "string", "pattern": "^[-0-9a-f]{36}$"},
            principalType={"enum": ["ServicePrincipal", "User", "Group"]},
        ),
    ),
}


def complaint(kind: str, body: Any, *, is_answer: bool = False) -> str:
    """Returns the violations of a body; empty: it is valid."""
    if kind in MODELS:
        return next(_wrong(MODELS[kind], body, "", is_answer=is_answer), "")
    if is_answer:
        return ""
    error = jsonschema.Draft202012Validator(SCHEMAS[kind]).iter_errors(body)
    first = next(error, None)
    return f"{'.'.join(map(str, first.path))}: {first.message}" if first else ""


@cache
def _fields(model: type) -> dict[str, tuple[Any, bool]]:
    """By its name in JSON: type, and whether it may be sent."""
    names = vars(_models) | {"_models": aks}
    recommendations = typing.get_type_hints(model, globalns=names)
    known = model({})._attr_to_rest_field
    return {
        field._rest_name: (recommendations[name], "create" in (field._visibility or ["create"]))
        for name, field in known.items()
    }


def _wrong(kind: Any, value: Any, where: str, *, is_answer: bool) -> typing.Iterator[str]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        options = [one for one in arguments if one is not type(None)]
        words = [one for one in options if isinstance(one, type) and issubclass(one, enum.Enum)]
        if words:
            if value not in [each.value for each in words[0]]:
                yield f"{where}: {value!r} is no {words[0].__name__}"
        else:
            yield from _wrong(options[0], value, where, is_answer=is_answer)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
            return
        for number, one in enumerate(value):
            yield from _wrong(arguments[0], one, f"{where}[{number}]", is_answer=is_answer)
    elif origin is dict:
        for key, one in value.items():
            yield from _wrong(arguments[1], one, f"{where}.{key}", is_answer=is_answer)
    elif isinstance(kind, type) and issubclass(kind, Model):
        yield from _wrong_object(kind, value, where, is_answer=is_answer)
    elif not _fits(kind, value):
        yield f"{where}: {value!r} is no {getattr(kind, '__name__', kind)}"


def _wrong_object(model: type, value: Any, where: str, *, is_answer: bool) -> typing.Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is no {model.__name__}"
        return
    known = _fields(model)
    for key, one in value.items():
        if key not in known:
            yield f"{where}.{key}: a {model.__name__} has no such field"
        elif not known[key][1] and not is_answer and where:
            yield f"{where}.{key}: only AKS writes this"
        else:
            yield from _wrong(known[key][0], one, f"{where}.{key}", is_answer=is_answer)


def _fits(kind: Any, value: Any) -> bool:
    plain = {str: str, bool: bool, int: int, float: (int, float)}
    if kind not in plain:
        return True  # such as a moment
    return isinstance(value, plain[kind]) and (kind is bool or not isinstance(value, bool))
