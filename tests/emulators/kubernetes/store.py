"""The cluster's objects and their ordered history, as in etcd."""

from __future__ import annotations

import datetime as dt
import secrets
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes.resources import BUILT_IN, Resource
from emulators.kubernetes.status_errors import already_exists, conflict, not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Key = tuple[str, str, str, str]  # group, plural, namespace ("" where there is none), name
Object = dict[str, Any]
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
KINDS = {resource.plural: resource for resource in BUILT_IN}


class Change(NamedTuple):
    revision: int
    collection: tuple[str, str]
    old: Object | None
    new: Object | None


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def suffix() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(5))


def copied(value: Any) -> Any:
    """Copies parsed JSON; `copy.deepcopy` takes six times as long."""
    kind = type(value)
    if kind is dict:
        return {name: copied(one) for name, one in value.items()}
    return [copied(one) for one in value] if kind is list else value


def key_of(resource: Resource, namespace: str | None, name: str) -> Key:
    return (*resource.collection, (namespace or "") if resource.namespaced else "", name)


class Store:
    """All objects. `changed` is the lock, and each change notifies its waiters.

    The API server validates and sets defaults; the store keeps objects as they are.
    """

    def __init__(self, resources: Iterable[Resource] = BUILT_IN) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.resources = list(resources)
        self.revision = 1
        self.compacted = 0
        self.changes: list[Change] = []
        self.closed = False
        self.is_away = False
        self.troubles: list[BaseException] = []
        self._objects: dict[Key, Object] = {}

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def wait_while_away(self) -> None:
        """Controllers and kubelets reach the objects through the API server only."""
        while self.is_away and not self.closed:
            time.sleep(0.02)

    def of_kind(self, kind: str, api_version: str) -> Resource | None:
        return next(
            (one for one in self.resources if (one.kind, one.api_version) == (kind, api_version)),
            None,
        )

    def find(self, resource: Resource | str, namespace: str | None, name: str) -> Object | None:
        resource = KINDS[resource] if isinstance(resource, str) else resource
        with self.changed:
            return copied(self._objects.get(key_of(resource, namespace, name)))

    def get(self, resource: Resource | str, namespace: str | None, name: str) -> Object:
        resource = KINDS[resource] if isinstance(resource, str) else resource
        found = self.find(resource, namespace, name)
        if found is None:
            raise not_found(resource, name)
        return found

    def select(self, resource: Resource | str, namespace: str | None = None) -> list[Object]:
        """Returns the objects of a kind, by namespace and name."""
        resource = KINDS[resource] if isinstance(resource, str) else resource
        with self.changed:
            keys = sorted(
                key
                for key in self._objects
                if key[:2] == resource.collection and namespace in {None, key[2]}
            )
            return [copied(self._objects[key]) for key in keys]

    def everything(self) -> list[tuple[Resource, Object]]:
        """Returns all objects with their kinds."""
        with self.changed:
            kinds = {one.collection: one for one in self.resources}
            return [(kinds[key[:2]], copied(one)) for key, one in self._objects.items()]

    def insert(self, resource: Resource | str, found: Object) -> Object:
        """Stores a new object: gives it a name, uid and revision."""
        resource = KINDS[resource] if isinstance(resource, str) else resource
        with self.changed:
            own = found["metadata"]
            while not own.get("name"):
                name = own["generateName"] + suffix()
                if key_of(resource, own.get("namespace"), name) not in self._objects:
                    own["name"] = name
            key = key_of(resource, own.get("namespace"), own["name"])
            if key in self._objects:
                raise already_exists(resource, own["name"])
            found.setdefault("apiVersion", resource.api_version)
            found.setdefault("kind", resource.kind)
            own.update(uid=str(uuid.uuid4()), creationTimestamp=now())
            if not resource.stored_only and "spec" in found:
                own["generation"] = 1
            return self._keep(resource, key, None, found)

    def replace(self, resource: Resource | str, found: Object) -> Object:
        """Stores a changed object; deletes one that only waited for its finalizers."""
        resource = KINDS[resource] if isinstance(resource, str) else resource
        with self.changed:
            own = found["metadata"]
            key = key_of(resource, own.get("namespace"), own["name"])
            old = self._objects.get(key)
            if old is None or own.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
                raise not_found(resource, own["name"])
            revision = old["metadata"]["resourceVersion"]
            if own.setdefault("resourceVersion", revision) != revision:
                raise conflict(resource, own["name"])
            if not own.get("finalizers"):
                own.pop("finalizers", None)
            if found == old:
                return copied(found)
            if "deletionTimestamp" in own and not own.get("finalizers") and _may_go(resource, own):
                return self.remove(resource, found)
            if found.get("spec") != old.get("spec") and "generation" in own:
                own["generation"] += 1
            return self._keep(resource, key, old, found)

    def edit(
        self,
        resource: Resource | str,
        namespace: str | None,
        name: str,
        change: Callable[[Object], None],
        uid: str | None = None,
    ) -> Object | None:
        """Changes an object in place; None: it is not there any more, or is another of that name."""
        with self.changed:
            found = self.find(resource, namespace, name)
            if found is None or uid not in {None, found["metadata"]["uid"]}:
                return None
            change(found)
            return self.replace(resource, found)

    def remove(self, resource: Resource | str, found: Object) -> Object:
        resource = KINDS[resource] if isinstance(resource, str) else resource
        with self.changed:
            own = found["metadata"]
            key = key_of(resource, own.get("namespace"), own["name"])
            old = self._objects.pop(key, None)
            if old is None:
                raise not_found(resource, own["name"])
            return self._tell(resource, old, None, copied(found))

    def compact(self) -> None:
        """Drops the history: older watches and lists get 410."""
        with self.changed:
            self.compacted = self.revision
            self.changed.notify_all()

    def _keep(self, resource: Resource, key: Key, old: Object | None, new: Object) -> Object:
        kept = copied(new)
        self._objects[key] = kept
        return copied(self._tell(resource, old, kept, kept))

    def _tell(
        self, resource: Resource, old: Object | None, new: Object | None, outcome: Object
    ) -> Object:
        self.revision += 1
        outcome["metadata"]["resourceVersion"] = str(self.revision)
        if new is None:
            old = outcome
        kept = copied(new) if new else None
        self.changes.append(Change(self.revision, resource.collection, copied(old), kept))
        self.changed.notify_all()
        return outcome


def _may_go(resource: Resource, own: Object) -> bool:
    """The kubelet deletes a pod with a grace period, the garbage collector an empty namespace."""
    if resource.plural == "namespaces":
        return False
    return resource.plural != "pods" or own.get("deletionGracePeriodSeconds") == 0


def owned_by(items: Iterable[Object], owner: Object) -> list[Object]:
    """Returns the objects whose controller is `owner`."""
    uid = owner["metadata"]["uid"]
    return [
        one
        for one in items
        if any(
            ref["uid"] == uid and ref.get("controller")
            for ref in one["metadata"].get("ownerReferences") or []
        )
    ]


def set_condition(
    found: Object, kind: str, value: str, reason: str | None = None, message: str | None = None
) -> None:
    """Sets one condition in an object's status; its transition time moves when the value does."""
    conditions = found.setdefault("status", {}).setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == kind), None)
    time_of = old["lastTransitionTime"] if old and old["status"] == value else now()
    new = {"type": kind, "status": value, "lastTransitionTime": time_of}
    if found.get("kind") == "Job":
        new["lastProbeTime"] = time_of
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new


def condition(found: Object, kind: str) -> Object | None:
    """Returns a condition of an object that is true, if it is."""
    for one in (found.get("status") or {}).get("conditions") or []:
        if one["type"] == kind and one["status"] == "True":
            return one
    return None
