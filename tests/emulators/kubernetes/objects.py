"""Kinds of objects, refusals, what all parts read from objects, and their store with its history, as in etcd."""

from __future__ import annotations

import datetime as dt
import re
import secrets
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
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

    def controls(one: Object) -> bool:
        references = at(one, "metadata", "ownerReferences", default=())
        return any(ref["uid"] == uid and ref.get("controller") for ref in references)

    return [one for one in items if controls(one)]


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


class Change(NamedTuple):
    revision: int
    resource: Resource
    old: Object | None
    new: Object | None


ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident


def suffix() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(5))


class Store:
    """All objects. `changed` is the lock, and each change notifies its waiters."""

    def __init__(self, more: tuple[Resource, ...]) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.resources = [*BUILT_IN, *more]
        self.revision, self.compacted = 1, 0
        self.changes: list[Change] = []
        self.closed = self.is_away = False
        self.troubles: list[BaseException] = []
        self._objects: dict[tuple[Resource, str, str], Object] = {}

    def wake(self) -> None:
        """Makes all waiters look again although no object has changed."""
        with self.changed:
            self.revision += 1
            self.changed.notify_all()

    def close(self) -> None:
        self.closed = True
        self.wake()

    def wait_while_away(self) -> None:
        """Controllers and kubelets reach the objects through the API server only."""
        while self.is_away and not self.closed:
            time.sleep(0.02)

    def find(self, resource: Resource | str, namespace: str | None, name: str) -> Object | None:
        with self.changed:
            return copied(self._objects.get(_key(resource, namespace, name)))

    def get(self, resource: Resource | str, namespace: str | None, name: str) -> Object:
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(_key(resource, namespace, name)[0], name)
        return found

    def select(self, resource: Resource | str, namespace: str | None = None) -> list[Object]:
        """Returns the objects of a kind, by namespace and name."""
        kind = KINDS[resource] if isinstance(resource, str) else resource
        with self.changed:
            keys = [key for key in self._objects if key[0] == kind and namespace in {None, key[1]}]
            return [copied(self._objects[key]) for key in sorted(keys)]

    def everything(self) -> list[tuple[Resource, Object]]:
        with self.changed:
            return [(key[0], copied(one)) for key, one in self._objects.items()]

    def insert(self, resource: Resource | str, found: Object) -> Object:
        """Stores a new object: gives it a name, uid and revision."""
        with self.changed:
            own = found["metadata"]
            key = _key(resource, own.get("namespace"), own["name"])
            if key in self._objects:
                raise already_exists(key[0], own["name"])
            found |= {"apiVersion": key[0].api_version, "kind": key[0].kind}
            own |= {"uid": str(uuid.uuid4()), "creationTimestamp": now()}
            return self._keep(key, None, found)

    def replace(self, resource: Resource | str, found: Object) -> Object:
        """Stores a changed object; deletes one that only waited for its finalizers."""
        with self.changed:
            own = found["metadata"]
            key = _key(resource, own.get("namespace"), own["name"])
            old = self._objects.get(key)
            if old is None or own["uid"] != old["metadata"]["uid"]:
                raise not_found(key[0], own["name"])
            if own["resourceVersion"] != old["metadata"]["resourceVersion"]:
                raise conflict(key[0], own["name"])
            if not own.get("finalizers"):
                own.pop("finalizers", None)
            if found == old:
                return copied(found)
            # The kubelet deletes a pod with a grace period.
            waits = key[0].plural == "pods" and own.get("deletionGracePeriodSeconds") != 0
            if "deletionTimestamp" in own and not own.get("finalizers") and not waits:
                return self.remove(resource, found)
            return self._keep(key, old, found)

    def edit(
        self, resource: Resource | str, found: Object, change: Callable[[Object], Any]
    ) -> Object | None:
        """Changes the present state of an object; None: it is gone, or another has its name."""
        with self.changed:
            own = found["metadata"]
            present = self.find(resource, own.get("namespace"), own["name"])
            if present is None or present["metadata"]["uid"] != own["uid"]:
                return None
            change(present)
            return self.replace(resource, present)

    def remove(self, resource: Resource | str, found: Object) -> Object:
        with self.changed:
            own = found["metadata"]
            key = _key(resource, own.get("namespace"), own["name"])
            self._objects.pop(key)
            self.revision += 1
            own["resourceVersion"] = str(self.revision)
            self._tell(Change(self.revision, key[0], copied(found), None))
            return copied(found)

    def record_event(self, about: Object, reason: str, message: str) -> None:
        """Records a warning about an object, once."""
        own = about["metadata"]
        namespace = own.get("namespace", "default")
        involved = {"kind": about["kind"], "name": own["name"], "uid": own["uid"]}
        said = {"involvedObject": involved, "reason": reason, "message": message, "type": "Warning"}
        with self.changed:
            if any(said.items() <= one.items() for one in self.select("events", namespace)):
                return
            event = {"name": f"{own['name']}.{secrets.token_hex(8)}", "namespace": namespace}
            self.insert("events", {"metadata": event} | said)

    def compact(self) -> None:
        """Drops the history: older watches get 410."""
        with self.changed:
            self.compacted = self.revision
            self.changed.notify_all()

    def _keep(self, key: tuple[Resource, str, str], old: Object | None, new: Object) -> Object:
        self.revision += 1
        kept = copied(new)
        kept["metadata"]["resourceVersion"] = str(self.revision)
        self._objects[key] = kept
        self._tell(Change(self.revision, key[0], old, kept))
        return copied(kept)

    def _tell(self, change: Change) -> None:
        self.changes.append(change)
        self.changed.notify_all()


def _key(resource: Resource | str, namespace: str | None, name: str) -> tuple[Resource, str, str]:
    kind = KINDS[resource] if isinstance(resource, str) else resource
    return kind, (namespace or "") if kind.namespaced else "", name
