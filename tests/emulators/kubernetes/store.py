"""The cluster's objects and their ordered history, as in etcd."""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from emulators.kubernetes.objects import (
    BUILT_IN,
    KINDS,
    Object,
    Resource,
    already_exists,
    conflict,
    copied,
    not_found,
    now,
)

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident


class Change(NamedTuple):
    revision: int
    resource: Resource
    old: Object | None
    new: Object | None


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
            own.setdefault("name", own.get("generateName", "") + suffix())
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

    def record_event(
        self, about: Object, reason: str, message: str, *, kind: str = "Normal"
    ) -> None:
        """Records an event about an object, once."""
        own = about["metadata"]
        namespace = own.get("namespace", "default")
        involved = {"kind": about["kind"], "name": own["name"], "uid": own["uid"]}
        said = {"involvedObject": involved, "reason": reason, "message": message, "type": kind}
        with self.changed:
            if any(said.items() <= one.items() for one in self.select("events", namespace)):
                return
            name = f"{own['name']}.{secrets.token_hex(8)}"
            times = {"firstTimestamp": now(), "lastTimestamp": now(), "count": 1}
            self.insert(
                "events", {"metadata": {"name": name, "namespace": namespace}} | said | times
            )

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
