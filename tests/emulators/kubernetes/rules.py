"""Validation rules beyond the schemas."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.defaults import containers
from emulators.kubernetes.quantities import parse
from emulators.kubernetes.selection import at
from emulators.kubernetes.status_errors import invalid

if TYPE_CHECKING:
    from emulators.kubernetes.resources import Resource

Object = dict[str, Any]
Causes = list[tuple[str, str]]
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)")
MOST_LABEL, MOST_NAME, MOST_DATA_BYTES = 63, 253, 1024 * 1024
OF_LABELS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
OF_SUBDOMAINS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
OF_VALUES = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
IMMUTABLE = "field is immutable"


def check(resource: Resource, found: Object, old: Object | None = None) -> None:
    """Refuses an object that breaks a rule of its kind; `old`: it was there before."""
    causes = _metadata(resource, found)
    checker = {
        "jobs": _job,
        "pods": _pod,
        "configmaps": _data,
        "secrets": _secret,
        "services": _service,
    }.get(resource.plural)
    if checker and not resource.stored_only:
        causes += checker(found, old)
    if causes:
        raise invalid(resource, found["metadata"].get("name", ""), causes)


def _metadata(resource: Resource, found: Object) -> Causes:
    own = found["metadata"]
    name, causes = own.get("name", ""), []
    if not name:
        return [("metadata.name", "Required value: name or generateName is required")]
    if resource.plural in {"namespaces", "services"}:
        if not LABEL.fullmatch(name) or len(name) > MOST_LABEL:
            causes.append(("metadata.name", f'Invalid value: "{name}": {OF_LABELS}'))
    elif not SUBDOMAIN.fullmatch(name) or len(name) > MOST_NAME:
        causes.append(("metadata.name", f'Invalid value: "{name}": {OF_SUBDOMAINS}'))
    causes += _labels("metadata.labels", own.get("labels"))
    for key in own.get("annotations") or {}:
        if not QUALIFIED.fullmatch(key.rpartition("/")[2]):
            causes.append(("metadata.annotations", f'Invalid value: "{key}": name part'))
    return causes


def _labels(field: str, labels: Object | None) -> Causes:
    causes = []
    for key, value in (labels or {}).items():
        if not QUALIFIED.fullmatch(key.rpartition("/")[2]):
            causes.append(
                (field, f'Invalid value: "{key}": name part must consist of alphanumeric')
            )
        if len(value) > MOST_LABEL:
            causes.append((field, f'Invalid value: "{value}": must be no more than 63 characters'))
        elif value and not QUALIFIED.fullmatch(value):
            causes.append((field, f'Invalid value: "{value}": {OF_VALUES}'))
    return causes


def _job(found: Object, old: Object | None) -> Causes:
    spec, name = found["spec"], found["metadata"].get("name", "")
    pod, causes = spec["template"]["spec"], []
    where = "spec.template.spec.restartPolicy"
    if pod["restartPolicy"] not in {"Never", "OnFailure"}:
        causes.append((where, 'Required value: valid values: "OnFailure", "Never"'))
    if "podFailurePolicy" in spec and pod["restartPolicy"] != "Never":
        only = f'Invalid value: "{pod["restartPolicy"]}": only "Never" is supported when '
        causes.append((where, only + "podFailurePolicy is specified"))
    if "podFailurePolicy" in spec and spec["podReplacementPolicy"] != "Failed":
        value = spec["podReplacementPolicy"]
        text = f'Unsupported value: "{value}": supported values: "Failed"'
        causes.append(("spec.podReplacementPolicy", text))
    if spec["completionMode"] == "Indexed":
        if spec.get("completions") is None:
            text = "Required value: when completion mode is Indexed"
            causes.append(("spec.completions", text))
        elif not LABEL.fullmatch(last := f"{name}-{spec['completions'] - 1}") or (
            len(last) > MOST_LABEL
        ):
            text = f'Invalid value: "{name}": will not able to create pod with invalid DNS label: '
            causes.append(("metadata.name", text + last))
    elif "successPolicy" in spec:
        text = "Invalid value: requires indexed completion mode when used"
        causes.append(("spec.successPolicy", text))
    causes += _pod_spec("spec.template.spec", pod)
    causes += _labels("spec.template.labels", at(spec, "template", "metadata", "labels"))
    for index, rule in enumerate(at(spec, "podFailurePolicy", "rules", default=[])):
        causes += _failure_rule(f"spec.podFailurePolicy.rules[{index}]", rule, pod)
    causes += _per_index(spec)
    if old:
        fixed = ["selector", "completionMode", "podFailurePolicy", "successPolicy"]
        fixed += ["backoffLimitPerIndex"]
        fixed += [] if old["spec"].get("suspend") else ["template"]
        if spec["completionMode"] == "NonIndexed" or spec["completions"] != spec["parallelism"]:
            fixed.append("completions")
        causes += [
            (f"spec.{field}", f"Invalid value: {json.dumps(spec.get(field))[:80]}: {IMMUTABLE}")
            for field in fixed
            if spec.get(field) != old["spec"].get(field)
        ]
    return causes


def _per_index(spec: Object) -> Causes:
    limit, where = spec.get("backoffLimitPerIndex"), "spec.backoffLimitPerIndex"
    if limit is not None:
        text = f"Invalid value: {limit}: requires indexed completion mode"
        return [] if spec["completionMode"] == "Indexed" else [(where, text)]
    causes = []
    if "maxFailedIndexes" in spec:
        causes.append((where, "Required value: when maxFailedIndexes is specified"))
    for index, rule in enumerate(at(spec, "podFailurePolicy", "rules", default=[])):
        if rule["action"] == "FailIndex":
            text = 'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'
            causes.append((f"spec.podFailurePolicy.rules[{index}].action", text))
    return causes


def _failure_rule(where: str, rule: Object, pod: Object) -> Causes:
    causes = []
    codes = rule.get("onExitCodes")
    if (codes is None) == (not rule.get("onPodConditions")):
        text = "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
        causes.append((where, text))
    if codes:
        if codes["operator"] == "In" and 0 in codes["values"]:
            text = "Invalid value: 0: must not be 0 for the In operator"
            causes.append((f"{where}.onExitCodes.values[{codes['values'].index(0)}]", text))
        if codes["values"] != sorted(set(codes["values"])):
            causes.append((f"{where}.onExitCodes.values", "Invalid value: must be ordered"))
        name = codes.get("containerName")
        if name and all(one["name"] != name for _, one in containers(pod)):
            text = f'Invalid value: "{name}": must be one of the container or initContainer names'
            causes.append((f"{where}.onExitCodes.containerName", text))
    return causes


def _pod(found: Object, old: Object | None) -> Causes:
    if old is None:
        return _pod_spec("spec", found["spec"])
    free = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"}
    before, after = (
        {
            name: [one | {"image": ""} for one in value] if name.endswith("ontainers") else value
            for name, value in one["spec"].items()
            if name not in free
        }
        for one in (old, found)
    )
    if before != after:
        text = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
        return [("spec", text)]
    return []


def _pod_spec(where: str, spec: Object) -> Causes:
    causes: Causes = []
    volumes = {volume["name"] for volume in spec.get("volumes") or []}
    names = [one["name"] for _, one in containers(spec)]
    for field, container in containers(spec):
        if names.count(container["name"]) > 1 or not LABEL.fullmatch(container["name"]):
            kind = "Duplicate" if names.count(container["name"]) > 1 else "Invalid"
            causes.append((f"{where}.{field}.name", f'{kind} value: "{container["name"]}"'))
        if not container.get("image"):
            causes.append((f"{where}.{field}.image", "Required value"))
        for index, mount in enumerate(container.get("volumeMounts") or []):
            if mount["name"] not in volumes:
                at_mount = f"{where}.{field}.volumeMounts[{index}].name"
                causes.append((at_mount, f'Not found: "{mount["name"]}"'))
        causes += _resources(f"{where}.{field}.resources", container.get("resources") or {})
    for index, volume in enumerate(spec.get("volumes") or []):
        if len(set(volume) - {"name"}) != 1:
            text = "Required value: must specify a volume type"
            causes.append((f"{where}.volumes[{index}]", text))
    return causes


def _resources(where: str, resources: Object) -> Causes:
    causes: Causes = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in {**limits, **requests}.items():
        try:
            parse(amount)
        except ValueError:
            text = "quantities must match the regular expression"
            causes.append((f"{where}.limits[{name}]", f'Invalid value: "{amount}": {text}'))
    if causes:
        return causes
    for name, amount in requests.items():
        extended = "/" in name
        if name in limits and parse(amount) > parse(limits[name]):
            text = f'Invalid value: "{amount}": must be less than or equal to {name} limit of '
            causes.append((f"{where}.requests", text + str(limits[name])))
        elif extended and (name not in limits or parse(amount) != parse(limits[name])):
            text = f'Invalid value: "{amount}": must be equal to {name} limit of '
            causes.append((f"{where}.requests", text + str(limits.get(name, 0))))
    return causes


def _data(found: Object, old: Object | None) -> Causes:
    values = [*(found.get("data") or {}).values(), *(found.get("binaryData") or {}).values()]
    if sum(len(value.encode()) for value in values) > MOST_DATA_BYTES:
        text = f"Too long: may not be more than {MOST_DATA_BYTES} bytes"
        return [("data", text)]
    if old and old.get("immutable") and found.get("data") != old.get("data"):
        return [("data", "Forbidden: field is immutable when `immutable` is set")]
    return []


def _secret(found: Object, old: Object | None) -> Causes:
    for name, value in (found.get("data") or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            return [(f"data[{name}]", "Invalid value: illegal base64 data")]
    if old and old.get("type") != found.get("type"):
        return [("type", f"Invalid value: {IMMUTABLE}")]
    return _data(found, old)


def _service(found: Object, old: Object | None) -> Causes:
    spec = found["spec"]
    if old and old["spec"]["clusterIP"] != spec.get("clusterIP"):
        return [("spec.clusterIPs[0]", f"Invalid value: {IMMUTABLE}")]
    if not spec.get("ports") and spec.get("clusterIP") != "None":
        return [("spec.ports", "Required value")]
    return []
