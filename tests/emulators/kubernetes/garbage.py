"""Garbage collector, namespace deletion, and quota usage."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from emulators.kubernetes import quantities
from emulators.kubernetes.admission import QUEUE, used
from emulators.kubernetes.controller import Controller
from emulators.kubernetes.selection import at

if TYPE_CHECKING:
    from emulators.kubernetes.api import Api
    from emulators.kubernetes.resources import Resource
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector(Controller):
    """Deletes objects without their owner, and owners when their dependents are deleted."""

    def __init__(self, store: Store, api: Api) -> None:
        super().__init__(store)
        self._api = api

    def sync(self) -> None:
        everything = self.store.everything()
        living = {found["metadata"]["uid"] for _, found in everything}
        for resource, found in everything:
            own = found["metadata"]
            owners = {one["uid"] for one in own.get("ownerReferences") or []}
            if owners and not owners & living and "deletionTimestamp" not in own:
                self._api.remove(found)
            elif "deletionTimestamp" in own:
                dependents = [
                    (kind, one)
                    for kind, one in everything
                    if own["uid"]
                    in {ref["uid"] for ref in one["metadata"].get("ownerReferences", [])}
                ]
                self._let_go(resource, found, dependents)
        self._namespaces(everything)

    def _let_go(
        self, resource: Resource, owner: Object, dependents: list[tuple[Resource, Object]]
    ) -> None:
        finalizers = owner["metadata"].get("finalizers", [])
        if FOREGROUND in finalizers:
            for _, one in dependents:
                if "deletionTimestamp" not in one["metadata"]:
                    self._api.remove(one, "Foreground" if one["kind"] == "Job" else "Background")
            if not dependents:
                self._drop(resource, owner, FOREGROUND)
        elif ORPHAN in finalizers:
            for kind, one in dependents:
                refs = one["metadata"]["ownerReferences"]
                uid = owner["metadata"]["uid"]
                one["metadata"]["ownerReferences"] = [ref for ref in refs if ref["uid"] != uid]
                self.store.replace(kind, one)
            self._drop(resource, owner, ORPHAN)

    def _drop(self, resource: Resource, found: Object, finalizer: str) -> None:
        def let_go(one: Object) -> None:
            kept = [name for name in one["metadata"]["finalizers"] if name != finalizer]
            one["metadata"]["finalizers"] = kept

        own = found["metadata"]
        self.store.edit(resource, own.get("namespace"), own["name"], let_go, own["uid"])

    def _namespaces(self, everything: list[tuple[Resource, Object]]) -> None:
        for namespace in self.store.select("namespaces"):
            if "deletionTimestamp" not in namespace["metadata"]:
                continue
            name = namespace["metadata"]["name"]
            inside = [one for _, one in everything if one["metadata"].get("namespace") == name]
            for one in inside:
                if "deletionTimestamp" not in one["metadata"]:
                    self._api.remove(one)
            if not inside:
                self.store.remove("namespaces", namespace)


class QuotaController(Controller):
    """Writes the used amounts into each quota."""

    def sync(self) -> None:
        for quota in self.store.select("resourcequotas"):
            hard = quota["spec"].get("hard") or {}
            total = used(self.store.select("pods", quota["metadata"]["namespace"]))
            outcome = {name: quantities.shown(Fraction(total[name])) for name in hard}
            if quota["status"] != {"hard": hard, "used": outcome}:
                quota["status"] = {"hard": hard, "used": outcome}
                self.store.replace("resourcequotas", quota)


class QueueController(Controller):
    """Kueue, in one rule: a Job whose queue exists may start, another waits."""

    def sync(self) -> None:
        for job in self.store.select("jobs"):
            own = job["metadata"]
            queue = at(own, "labels", QUEUE)
            if not queue or not job["spec"]["suspend"] or "deletionTimestamp" in own:
                continue
            queues = next(one for one in self.store.resources if one.plural == "localqueues")
            if self.store.find(queues, own["namespace"], queue):
                job["spec"]["suspend"] = False
                self.store.replace("jobs", job)
