"""Kinds of objects, refusals, and what all parts read from objects."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

Object = dict[str, Any]


class Resource(NamedTuple):
    """One kind under one version of its group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As the messages name it: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


BUILT_IN = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource("", "v1", "nodes", "Node", namespaced=False),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "podtemplates", "PodTemplate"),
    Resource("", "v1", "services", "Service"),
    Resource("", "v1", "configmaps", "ConfigMap"),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    Resource("", "v1", "events", "Event"),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource("", "v1", "resourcequotas", "ResourceQuota"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    Resource(
        *("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
        namespaced=False,
    ),
)
KINDS = {one.plural: one for one in BUILT_IN}
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    405: "MethodNotAllowed",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Refusal(Exception):
    """A request that is answered with a Status of failure."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.reason = reason or REASONS[code]

    @property
    def body(self) -> Object:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return status | {"message": self.message, "reason": self.reason, "code": self.code}


def not_found(resource: Resource, name: str) -> Refusal:
    return Refusal(404, f'{resource.qualified} "{name}" not found')


def already_exists(resource: Resource, name: str) -> Refusal:
    return Refusal(409, f'{resource.qualified} "{name}" already exists', "AlreadyExists")


def conflict(resource: Resource, name: str) -> Refusal:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return Refusal(409, f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}')


def forbidden(resource: Resource, name: str, why: str) -> Refusal:
    named = f'{resource.qualified} "{name}"' if name else resource.qualified
    return Refusal(403, f"{named} is forbidden: {why}")


def invalid(resource: Resource, name: str, causes: list[str]) -> Refusal:
    """Refuses by the rules of a kind; a cause is a field and what is wrong with it."""
    shown = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return Refusal(422, f'{kind} "{name}" is invalid: {shown}')


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def copied(value: Any) -> Any:
    """Copies parsed JSON; `copy.deepcopy` takes six times as long."""
    if type(value) is dict:
        return {name: copied(one) for name, one in value.items()}
    return [copied(one) for one in value] if type(value) is list else value


def at(found: Any, *path: str, default: Any = None) -> Any:
    """Returns what is at a path of keys, or `default` where it ends early."""
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return default if found is None else found


def owned_by(items: list[Object], owner: Object) -> list[Object]:
    """Returns the objects whose controller is `owner`."""
    uid = owner["metadata"]["uid"]
    return [
        one
        for one in items
        if any(
            ref["uid"] == uid and ref.get("controller")
            for ref in at(one, "metadata", "ownerReferences", default=())
        )
    ]


def set_condition(
    found: Object, kind: str, value: str, reason: str = "", message: str = ""
) -> None:
    """Sets one condition in an object's status; its transition time moves when the value does."""
    conditions = found.setdefault("status", {}).setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == kind), None)
    since = old["lastTransitionTime"] if old and old["status"] == value else now()
    new = {"type": kind, "status": value, "lastTransitionTime": since}
    new |= {"reason": reason} if reason else {}
    new |= {"message": message} if message else {}
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new


def condition(found: Object, kind: str) -> Object | None:
    """Returns a condition of an object that is true, if it is."""
    for one in at(found, "status", "conditions", default=()):
        if one["type"] == kind and one["status"] == "True":
            return one
    return None


def is_over(pod: Object) -> bool:
    """Returns whether a pod's containers have all ended, so that it takes no resources any more."""
    return at(pod, "status", "phase") in {"Succeeded", "Failed"}


def is_deleted(found: Object) -> bool:
    return "deletionTimestamp" in found["metadata"]


def matches(selector: str, found: Object) -> bool:
    """Returns whether an object has the labels of a selector: `A=B` or `A`, by commas."""
    labels = at(found, "metadata", "labels", default={})
    for part in filter(None, selector.split(",")):
        name, equals, value = part.partition("=")
        if not re.fullmatch(r"[\w./-]+", name) or value.startswith("="):
            raise Refusal(400, f"the double knows no selector like {part!r}")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True


def has_labels(selector: Object, found: Object) -> bool:
    """Returns whether an object has the labels of a LabelSelector."""
    wanted = selector.get("matchLabels") or {}
    return wanted.items() <= at(found, "metadata", "labels", default={}).items()


QUANTITY = re.compile(r"^([+-]?[0-9.]+)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
SUFFIXES = {"": Fraction(1), "m": Fraction(1, 1000)}
SUFFIXES |= {name: Fraction(1000**power) for power, name in enumerate("kMGT", 1)}
SUFFIXES |= {f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGT", 1)}


def parse_quantity(text: str | float) -> Fraction:
    """Reads a quantity such as `500m` or `2Gi`; ValueError where it is none."""
    found = QUANTITY.match(str(text))
    if not found:
        raise ValueError(f"{text!r} is no quantity")
    return Fraction(found[1]) * SUFFIXES[found[2] or ""]


def requests_of(pod: Object) -> Counter[str]:
    """Returns what a pod takes of a node: its container's part, or that of a larger init container."""
    total: Counter[str] = Counter()
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        resources = container.get("resources") or {}
        asked = (resources.get("limits") or {}) | (resources.get("requests") or {})
        for name, amount in asked.items():
            total[name] = max(total[name], parse_quantity(amount))  # type: ignore[call-overload]
    return total
