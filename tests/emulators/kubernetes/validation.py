"""What the API server refuses when it decodes and validates an object, and the defaults that it sets."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing import Resource as Document

from emulators.kubernetes.objects import (
    BUILT_IN,
    Object,
    Refusal,
    Resource,
    at,
    invalid,
    parse_quantity,
)

SCHEMAS = files("kubernetes_validate") / "kubernetes-json-schema" / "v1.37.0-local-strict"
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
MOST_LABEL = 63
MUTABLE_OF_JOB = {"parallelism", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit"}
MUTABLE_OF_JOB |= {"suspend"}


@cache
def built_in_schema(resource: Resource) -> Draft202012Validator:
    definitions = Document.from_contents(_document("_definitions.json"))
    group = f"{resource.group.split('.')[0]}-" if resource.group else ""
    schema = _document(f"{resource.kind.lower()}-{group}{resource.version}.json")
    return Draft202012Validator(schema, registry=definitions @ Registry())


def _document(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))


def custom_schema(structural: Object) -> Draft202012Validator:
    """Returns the schema of a custom kind from its definition."""
    schema = _closed(structural)
    schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}, "status": {}}
    return Draft202012Validator(schema)


def _closed(schema: Any) -> Any:
    """Makes a structural schema one of JSON Schema that refuses unknown fields."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: _closed(value) for name, value in schema.items()}
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    return schema


def decode(resource: Resource, found: Object, custom: Draft202012Validator | None) -> None:
    """Refuses an object that does not fit the schema of its kind, as `fieldValidation=Strict` does."""
    validator = built_in_schema(resource) if resource in BUILT_IN else custom
    kind, causes = resource.kind, []
    cannot = f'{kind} in version "{resource.version}" cannot be handled as a {kind}'
    for error in validator.iter_errors(found) if validator else ():
        path = error.json_path.removeprefix("$").removeprefix(".")
        if error.validator == "additionalProperties":
            unknown = sorted(error.instance.keys() - error.schema.get("properties", {}).keys())
            fields = (f'unknown field "{".".join(filter(None, (path, one)))}"' for one in unknown)
            raise Refusal(400, f"{cannot}: strict decoding error: {', '.join(fields)}")
        what = "Required" if error.validator == "required" else "Invalid"
        causes.append(f"{path}: {what} value: {error.message[:200]}")
    if causes:
        raise invalid(resource, found["metadata"].get("name", ""), causes)


def fill(resource: Resource, found: Object) -> None:
    """Sets default values in an object."""
    spec = found.get("spec") or {}
    if resource.plural == "pods":
        _fill_pod(spec)
        spec.setdefault("serviceAccountName", "default")
    elif resource.plural == "jobs":
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
        replaces = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", replaces)
        _fill_pod(spec["template"]["spec"])


def _fill_pod(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    for _, container in containers(spec):
        resources = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = limits | (resources.get("requests") or {})
        if probe := container.get("livenessProbe"):
            defaults = {"periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
            container["livenessProbe"] = defaults | probe


def containers(spec: Object) -> list[tuple[str, Object]]:
    """Returns each container of a pod's spec with its field, init containers first."""
    return [
        (f"{field}[{index}]", container)
        for field in ("initContainers", "containers")
        for index, container in enumerate(spec.get(field) or ())
    ]


def check(resource: Resource, found: Object, old: Object | None = None) -> None:
    """Refuses an object that breaks a rule of its kind; `old`: it was there before."""
    own = found["metadata"]
    causes = _labels("metadata.labels", own.get("labels"))
    if resource.plural == "jobs":
        causes += _job(found["spec"], own["name"], old and old["spec"])
    if causes:
        raise invalid(resource, own["name"], causes)


def _labels(field: str, labels: Object | None) -> list[str]:
    causes = []
    for value in (labels or {}).values():
        if len(value) > MOST_LABEL:
            causes.append(f'{field}: Invalid value: "{value}": must be no more than 63 bytes')
        elif value and not QUALIFIED.fullmatch(value):
            text = "a valid label must be an empty string or consist of alphanumeric characters"
            causes.append(f'{field}: Invalid value: "{value}": {text}')
    return causes


def _job(spec: Object, name: str, old: Object | None) -> list[str]:
    pod, policy = spec["template"]["spec"], spec.get("podFailurePolicy") or {}
    indexed, last = spec["completionMode"] == "Indexed", f"{name}-{spec.get('completions', 1) - 1}"
    restarts, replaces = pod["restartPolicy"], spec["podReplacementPolicy"]
    per_index = spec.get("backoffLimitPerIndex")
    restart, limit = "spec.template.spec.restartPolicy", "spec.backoffLimitPerIndex"
    rules = {
        f'{restart}: Required value: valid values: "OnFailure", "Never"': restarts
        not in {"Never", "OnFailure"},
        f'{restart}: Invalid value: "{restarts}": only "Never" is supported when podFailurePolicy is specified': (
            policy and restarts != "Never"
        ),
        f'spec.podReplacementPolicy: Unsupported value: "{replaces}": supported values: "Failed"': (
            policy and replaces != "Failed"
        ),
        f"{limit}: Invalid value: {per_index}: requires indexed completion mode": (
            per_index is not None and not indexed
        ),
        f"{limit}: Required value: when maxFailedIndexes is specified": (
            "maxFailedIndexes" in spec and per_index is None
        ),
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: {last}': (
            indexed and (not LABEL.fullmatch(last) or len(last) > MOST_LABEL)
        ),
    }
    names = [one["name"] for _, one in containers(pod)]
    for index, rule in enumerate(policy.get("rules", ())):
        where, codes = f"spec.podFailurePolicy.rules[{index}]", rule.get("onExitCodes") or {}
        container = codes.get("containerName")
        rules |= {
            f'{where}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set': (
                rule["action"] == "FailIndex" and per_index is None
            ),
            f"{where}.onExitCodes.values: Invalid value: 0: must not be 0 for the In operator": (
                codes.get("operator") == "In" and 0 in codes["values"]
            ),
            f'{where}.onExitCodes.containerName: Invalid value: "{container}": must be one of the container'
            " or initContainer names": container not in {None, *names},
        }
    changed = {key for key in {*spec, *(old or ())} if old and spec.get(key) != old.get(key)}
    fixed = [
        f"spec.{one}: Invalid value: field is immutable" for one in sorted(changed - MUTABLE_OF_JOB)
    ]
    causes = _labels("spec.template.labels", at(spec, "template", "metadata", "labels"))
    causes += _pod("spec.template.spec", pod)
    return [*causes, *(text for text, is_broken in rules.items() if is_broken), *fixed]


def _pod(where: str, spec: Object) -> list[str]:
    causes = []
    volumes = {volume["name"] for volume in spec.get("volumes") or ()}
    for field, container in containers(spec):
        here = f"{where}.{field}"
        if not container.get("image"):
            causes.append(f"{here}.image: Required value")
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if mount["name"] not in volumes:
                causes.append(f'{here}.volumeMounts[{index}].name: Not found: "{mount["name"]}"')
        limits, requests = (container["resources"].get(one) or {} for one in ("limits", "requests"))
        for name, amount in requests.items():
            asked, limit = parse_quantity(amount), parse_quantity(limits.get(name, amount))
            if asked > limit or ("/" in name and (asked != limit or name not in limits)):
                text = f'Invalid value: "{amount}": must be equal to or less than {name} limit'
                causes.append(f"{here}.resources.requests: {text}")
    return causes
