"""What the API server refuses when it decodes and validates an object, and the defaults that it sets."""

from __future__ import annotations

import base64
import binascii
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
SUBDOMAIN = re.compile(rf"{LABEL.pattern}(\.{LABEL.pattern})*")
QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
MOST_LABEL, MOST_NAME, MOST_DATA_BYTES = 63, 253, 1024 * 1024
MUTABLE_OF_JOB = {
    "suspend",
    "parallelism",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "backoffLimit",
}


@cache
def _built_in(resource: Resource) -> Draft202012Validator:
    definitions = Document.from_contents(_document("_definitions.json"))
    group = f"{resource.group.split('.')[0]}-" if resource.group else ""
    schema = _document(f"{resource.kind.lower()}-{group}{resource.version}.json")
    return Draft202012Validator(schema, registry=definitions @ Registry())


@cache
def _document(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))


class Schemas:
    """Checks objects as the API server does when it decodes them."""

    def __init__(self) -> None:
        self._custom: dict[Resource, Draft202012Validator] = {}

    def learn(self, resource: Resource, structural: Object) -> None:
        """Adds the schema of a custom kind from its definition."""
        schema = _closed(structural)
        schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}, "status": {}}
        self._custom[resource] = Draft202012Validator(schema)

    def check(self, resource: Resource, found: Object, *, strict: bool) -> list[str]:
        """Refuses an invalid object; without `strict` drops unknown fields, and returns warnings of them."""
        validator = _built_in(resource) if resource in BUILT_IN else self._custom.get(resource)
        dropped: list[str] = []
        while errors := list(validator.iter_errors(found) if validator else ()):
            unknown = [path for error in errors for path in _unknown(error)]
            if not unknown or strict:
                raise _refusal(resource, found, errors, unknown)
            for *above, name in unknown:  # below a dropped field there may be more
                parent = found
                for step in above:
                    parent = parent[step]
                del parent[name]
            dropped += [f'unknown field "{_dotted(path)}"' for path in unknown]
        return dropped


def _unknown(error: Any) -> list[list[str | int]]:
    if error.validator != "additionalProperties" or error.validator_value is not False:
        return []
    known = error.schema.get("properties", {})
    return [[*error.absolute_path, name] for name in error.instance if name not in known]


def _refusal(resource: Resource, found: Object, errors: list[Any], unknown: list[Any]) -> Refusal:
    kind = resource.kind
    cannot = f'{kind} in version "{resource.version}" cannot be handled as a {kind}'
    if unknown:
        fields = ", ".join(f'unknown field "{_dotted(path)}"' for path in unknown)
        return Refusal(400, f"{cannot}: strict decoding error: {fields}")
    for error in errors:
        if error.validator in {"type", "oneOf"}:
            path = _dotted(error.absolute_path)
            text = f"json: cannot unmarshal {type(error.instance).__name__} into Go struct field {path}"
            return Refusal(400, f"{cannot}: {text}")
    causes = [
        f"{_dotted(error.absolute_path)}: Required value: {error.message}"
        if error.validator == "required"
        else f"{_dotted(error.absolute_path)}: Invalid value: {error.message[:200]}"
        for error in errors
    ]
    return invalid(resource, found["metadata"].get("name", ""), causes)


def _dotted(path: Any) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


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


def fill(resource: Resource, found: Object) -> None:
    """Sets default values in an object."""
    spec = found.get("spec") or {}
    if resource.plural == "pods":
        _fill_pod(spec)
        spec.setdefault("serviceAccountName", "default")
    elif resource.plural == "jobs":
        spec.setdefault("parallelism", 1)
        spec.setdefault("completionMode", "NonIndexed")
        if spec["completionMode"] == "NonIndexed":
            spec.setdefault("completions", spec["parallelism"])
        spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
        spec.setdefault("suspend", False)
        replaces = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", replaces)
        _fill_pod(spec["template"]["spec"])
    elif resource.plural == "services":
        spec.setdefault("clusterIP", "10.96.0.10")
    elif resource.plural == "secrets":
        found.setdefault("type", "Opaque")
        for name, text in (found.pop("stringData", None) or {}).items():
            found.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()


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
    name, causes = own.get("name") or own.get("generateName", "").rstrip("-"), []
    short = resource.plural in {"namespaces", "services"}
    pattern, most = (LABEL, MOST_LABEL) if short else (SUBDOMAIN, MOST_NAME)
    if not pattern.fullmatch(name) or len(name) > most:
        what = "label" if short else "subdomain"
        text = (
            f"a lowercase RFC 1123 {what} must consist of lower case alphanumeric characters or '-'"
        )
        causes.append(f'metadata.name: Invalid value: "{name}": {text}')
    causes += _labels("metadata.labels", own.get("labels"))
    checker = {"jobs": _job, "pods": _pod, "configmaps": _data, "secrets": _data}.get(
        resource.plural
    )
    if checker:
        causes += checker(found, old)
    if causes:
        raise invalid(resource, name, causes)


def _labels(field: str, labels: Object | None) -> list[str]:
    causes = []
    for key, value in (labels or {}).items():
        if not QUALIFIED.fullmatch(key.rpartition("/")[2]):
            causes.append(
                f'{field}: Invalid value: "{key}": name part must consist of alphanumeric'
            )
        if len(value) > MOST_LABEL:
            causes.append(f'{field}: Invalid value: "{value}": must be no more than 63 bytes')
        elif value and not QUALIFIED.fullmatch(value):
            text = "a valid label must be an empty string or consist of alphanumeric characters"
            causes.append(f'{field}: Invalid value: "{value}": {text}')
    return causes


def _job(found: Object, old: Object | None) -> list[str]:
    spec, name = found["spec"], found["metadata"].get("name", "")
    pod, policy = spec["template"]["spec"], spec.get("podFailurePolicy")
    restarts, where = pod["restartPolicy"], "spec.template.spec.restartPolicy"
    causes = _labels("spec.template.labels", at(spec, "template", "metadata", "labels"))
    causes += _pod_spec("spec.template.spec", pod)
    if restarts not in {"Never", "OnFailure"}:
        causes.append(f'{where}: Required value: valid values: "OnFailure", "Never"')
    if policy and restarts != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        causes.append(f'{where}: Invalid value: "{restarts}": {text}')
    if policy and (replaces := spec["podReplacementPolicy"]) != "Failed":
        text = f'Unsupported value: "{replaces}": supported values: "Failed"'
        causes.append(f"spec.podReplacementPolicy: {text}")
    for index, rule in enumerate((policy or {}).get("rules", ())):
        causes += _failure_rule(f"spec.podFailurePolicy.rules[{index}]", rule, spec)
    if spec["completionMode"] != "Indexed" and "backoffLimitPerIndex" in spec:
        text = f"Invalid value: {spec['backoffLimitPerIndex']}: requires indexed completion mode"
        causes.append(f"spec.backoffLimitPerIndex: {text}")
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        text = "Required value: when maxFailedIndexes is specified"
        causes.append(f"spec.backoffLimitPerIndex: {text}")
    if spec["completionMode"] == "Indexed":
        last = f"{name}-{spec.get('completions', 1) - 1}"
        if not LABEL.fullmatch(last) or len(last) > MOST_LABEL:
            text = f"will not able to create pod with invalid DNS label: {last}"
            causes.append(f'metadata.name: Invalid value: "{name}": {text}')
    if old:
        before = old["spec"]
        changed = {key for key in {*spec, *before} if spec.get(key) != before.get(key)}
        fixed = sorted(changed - MUTABLE_OF_JOB)
        causes += [f"spec.{field}: Invalid value: field is immutable" for field in fixed]
    return causes


def _failure_rule(where: str, rule: Object, spec: Object) -> list[str]:
    causes = []
    if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
        text = 'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'
        causes.append(f"{where}.action: {text}")
    codes = rule.get("onExitCodes")
    if bool(codes) == bool(rule.get("onPodConditions")):
        text = "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
        causes.append(f"{where}: {text}")
    if not codes:
        return causes
    if codes["operator"] == "In" and 0 in codes["values"]:
        index = codes["values"].index(0)
        text = f"values[{index}]: Invalid value: 0: must not be 0 for the In operator"
        causes.append(f"{where}.onExitCodes.{text}")
    names = [one["name"] for _, one in containers(spec["template"]["spec"])]
    if (name := codes.get("containerName")) not in {None, *names}:
        text = f'Invalid value: "{name}": must be one of the container or initContainer names'
        causes.append(f"{where}.onExitCodes.containerName: {text}")
    return causes


def _pod(found: Object, old: Object | None) -> list[str]:
    if old and found["spec"] != old["spec"]:
        return ["spec: Forbidden: pod updates may not change fields other than the image"]
    return _pod_spec("spec", found["spec"])


def _pod_spec(where: str, spec: Object) -> list[str]:
    causes = []
    volumes = {volume["name"] for volume in spec.get("volumes") or ()}
    for field, container in containers(spec):
        here = f"{where}.{field}"
        if not container.get("image"):
            causes.append(f"{here}.image: Required value")
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if mount["name"] not in volumes:
                causes.append(f'{here}.volumeMounts[{index}].name: Not found: "{mount["name"]}"')
        causes += _resources(f"{here}.resources", container.get("resources") or {})
    return causes


def _resources(where: str, resources: Object) -> list[str]:
    causes = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in (limits | requests).items():
        try:
            asked, limit = parse_quantity(amount), parse_quantity(limits.get(name, amount))
        except ValueError:
            text = f'Invalid value: "{amount}": quantities must match the regular expression'
            causes.append(f"{where}.limits[{name}]: {text}")
            continue
        if asked > limit or ("/" in name and (asked != limit or name not in limits)):
            text = f'Invalid value: "{amount}": must be equal to or less than {name} limit'
            causes.append(f"{where}.requests: {text}")
    return causes


def _data(found: Object, old: Object | None) -> list[str]:
    data = found.get("data") or {}
    if sum(len(value.encode()) for value in data.values()) > MOST_DATA_BYTES:
        return [f"data: Too long: may not be more than {MOST_DATA_BYTES} bytes"]
    if found["kind"] == "Secret":
        for name, value in data.items():
            try:
                base64.b64decode(value, validate=True)
            except binascii.Error:
                return [f"data[{name}]: Invalid value: illegal base64 data"]
    return []
