"""The verbs of the API on the objects of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulators.kubernetes import defaults, rules
from emulators.kubernetes.ownership import applied, updated
from emulators.kubernetes.patches import json_patch, merge, strategic
from emulators.kubernetes.quantities import is_over
from emulators.kubernetes.resources import BUILT_IN, Resource, custom
from emulators.kubernetes.status_errors import Refusal, conflict, forbidden, no_such_path
from emulators.kubernetes.store import KINDS, copied, now, set_condition, suffix

if TYPE_CHECKING:
    from emulators.kubernetes.admission import Admission
    from emulators.kubernetes.schemas import Schemas
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
PODS = KINDS["pods"]
KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
CERTIFICATE_MAP = "kube-root-ca.crt"


class Options:
    """The options in the query of a request, or in the body of a DELETE."""

    def __init__(self, query: dict[str, str], manager: str = "") -> None:
        self.dry_run = query.get("dryRun") == "All"
        self.manager = query.get("fieldManager") or manager or "unknown"
        self.force = query.get("force") in {"true", "1"}
        self.field_validation = query.get("fieldValidation") or "Strict"


class Api:
    """Creates, changes and deletes objects by the rules; controllers write to the store directly."""

    def __init__(self, store: Store, schemas: Schemas, admission: Admission) -> None:
        self.store = store
        self._schemas = schemas
        self._admission = admission

    def create(
        self, resource: Resource, namespace: str | None, body: Object, options: Options
    ) -> Object:
        with self.store.changed:
            found = self._decoded(resource, namespace, None, body)
            own = found["metadata"]
            if not own.get("name") and own.get("generateName"):
                own["name"] = own["generateName"] + suffix()
            self._schemas.check(resource, found, options.field_validation)
            sent = copied(found)
            defaults.fill(resource, found)
            rules.check(resource, found)
            self._admission.admit(resource, found)
            defaults.start_status(resource, found)
            found.setdefault("apiVersion", resource.api_version)
            updated(None, sent, options.manager, now())
            found["metadata"]["managedFields"] = sent["metadata"]["managedFields"]
            if options.dry_run:
                return self._pretend(resource, found)
            made = self.store.insert(resource, found)
            return self._after_create(resource, made)

    def _after_create(self, resource: Resource, made: Object) -> Object:
        own = made["metadata"]
        if resource.plural == "jobs":
            defaults.label_job(made)
            return self.store.replace(resource, made)
        if resource.plural == "customresourcedefinitions":
            for kind, schema in custom(made):
                self._schemas.learn(kind, schema)
                self.store.resources.append(kind)
        elif resource.plural == "namespaces":
            named = {"namespace": own["name"]}
            account = {"metadata": {"name": "default"} | named}
            trust = {"metadata": {"name": CERTIFICATE_MAP} | named, "data": {"ca.crt": ""}}
            self.store.insert("serviceaccounts", account)
            self.store.insert("configmaps", trust)
        return made

    def _pretend(self, resource: Resource, found: Object) -> Object:
        own = found["metadata"]
        if self.store.find(resource, own.get("namespace"), own["name"]):
            raise Refusal(
                409, f'{resource.qualified} "{own["name"]}" already exists', reason="AlreadyExists"
            )
        own.update(uid="00000000-0000-0000-0000-000000000000", creationTimestamp=now())
        found.setdefault("kind", resource.kind)
        return found

    def _decoded(
        self, resource: Resource, namespace: str | None, name: str | None, body: Any
    ) -> Object:
        if not isinstance(body, dict):
            raise Refusal(400, "the body of the request is no object")
        found = copied(body)
        own = found.setdefault("metadata", {})
        for field, expected in (("kind", resource.kind), ("apiVersion", resource.api_version)):
            if found.setdefault(field, expected) != expected:
                text = f"the {field} in the data ({found[field]}) does not match the expected "
                raise Refusal(400, f"{text}{field} ({expected})")
        if name is not None and own.setdefault("name", name) != name:
            text = f"the name of the object ({own['name']}) does not match the name on the URL"
            raise Refusal(400, f"{text} ({name})")
        if resource.namespaced:
            if own.setdefault("namespace", namespace) != namespace:
                text = "the namespace of the provided object does not match the namespace sent on "
                raise Refusal(400, f"{text}the request")
            self.store.get("namespaces", None, namespace or "")
        defaults.fill_required(found)
        return found

    def update(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        options: Options,
        *,
        part: str = "",
    ) -> Object:
        with self.store.changed:
            old = self.store.get(resource, namespace, name)
            new = self._decoded(resource, namespace, name, body)
            return self._change(resource, old, new, options, part)

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Any,
        options: Options,
        *,
        kind: str,
        part: str = "",
    ) -> Object:
        """Patches an object; `kind` is the content type of the request."""
        with self.store.changed:
            old = self.store.get(resource, namespace, name)
            if "json-patch" in kind:
                new = json_patch(old, body)
            elif "strategic-merge-patch" in kind:
                if resource not in BUILT_IN:
                    raise Refusal(415, "strategic merge patch is not supported for this kind")
                new = strategic(old, body)
            elif "merge-patch" in kind:
                new = merge(old, body)
            else:
                raise Refusal(415, f"the body of the request was in an unknown format - {kind}")
            return self._change(resource, old, new, options, part)

    def _change(
        self, resource: Resource, old: Object, new: Object, options: Options, part: str
    ) -> Object:
        new = copied(new)  # patches share with the old object what they don't touch
        own, name = new["metadata"], old["metadata"]["name"]
        revision = own.get("resourceVersion") or old["metadata"]["resourceVersion"]
        if revision != old["metadata"]["resourceVersion"]:
            raise conflict(resource, name)
        if own.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {own['uid']}"
            raise conflict(resource, name, why)
        if part == "status":
            new = copied(old) | {"status": new.get("status") or {}}
        else:
            if resource.status and "status" in old:
                new["status"] = old["status"]
            for field in KEPT:
                new["metadata"].pop(field, None)
                if field in old["metadata"]:
                    new["metadata"][field] = old["metadata"][field]
            self._schemas.check(resource, new, options.field_validation)
            defaults.fill(resource, new)
            rules.check(resource, new, old)
            new["metadata"].setdefault("managedFields", old["metadata"].get("managedFields", []))
            updated(old, new, options.manager, now())
        new["metadata"]["resourceVersion"] = revision
        return new if options.dry_run else self.store.replace(resource, new)

    def apply(
        self, resource: Resource, namespace: str | None, name: str, body: Object, options: Options
    ) -> tuple[Object, bool]:
        """Applies server-side; returns the object and whether it is new."""
        with self.store.changed:
            wanted = self._decoded(resource, namespace, name, body)
            self._schemas.check(resource, wanted, options.field_validation)
            old = self.store.find(resource, namespace, name)
            if old is None:
                made = self.create(resource, namespace, body, options)
                for entry in made["metadata"]["managedFields"]:
                    entry["operation"] = "Apply"
                return (made if options.dry_run else self.store.replace(resource, made)), True
            wanted["metadata"].pop("resourceVersion", None)
            new = applied(old, wanted, options.manager, force=options.force, now=now())
            defaults.fill(resource, new)
            rules.check(resource, new, old)
            if resource.status and "status" in old:
                new["status"] = old["status"]
            return (new if options.dry_run else self.store.replace(resource, new)), False

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        options: Object,
        *,
        dry_run: bool,
    ) -> Object:
        """Deletes an object, or marks it for deletion while it has finalizers or a grace period."""
        with self.store.changed:
            found = self.store.get(resource, namespace, name)
            wanted = options.get("preconditions") or {}
            for field, value in wanted.items():
                if found["metadata"].get(field) != value:
                    why = f"Precondition failed: {field} in precondition: {value}, "
                    raise conflict(resource, name, f"{why}{field} in object meta: differs")
            if dry_run:
                return found
            if resource.plural == "namespaces":
                if name in {"default", "kube-system"}:
                    raise forbidden(resource, name, "this namespace may not be deleted")
                found["status"]["phase"] = "Terminating"
            return self._mark(resource, found, options)

    def _mark(self, resource: Resource, found: Object, options: Object) -> Object:
        own = found["metadata"]
        orphans = "Orphan" if resource.plural == "jobs" else "Background"  # as the real one does
        policy = options.get("propagationPolicy") or orphans
        finalizer = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(policy)
        if finalizer and finalizer not in own.setdefault("finalizers", []):
            own["finalizers"].append(finalizer)
        grace = _grace(resource, found, options)
        if grace is not None:
            own["deletionGracePeriodSeconds"] = min(
                grace, own.get("deletionGracePeriodSeconds", grace)
            )
        own.setdefault("deletionTimestamp", now())
        if grace == 0 and not found["spec"].get("nodeName") and not is_over(found):
            found["status"]["phase"] = "Failed"  # no kubelet reports it
        return self.store.replace(resource, found)

    def create_pod(self, pod: Object) -> Object:
        """Creates a pod for a controller, whose template was checked before."""
        with self.store.changed:
            defaults.fill(PODS, pod)
            self._admission.admit(PODS, pod)
            defaults.start_status(PODS, pod)
            return self.store.insert(PODS, pod)

    def remove(self, found: Object, policy: str = "Background") -> None:
        """Deletes an object for a controller."""
        resource = self.store.of_kind(found["kind"], found["apiVersion"])
        if resource:
            own = found["metadata"]
            options = {"propagationPolicy": policy}
            self.delete(resource, own.get("namespace"), own["name"], options, dry_run=False)

    def bind(self, namespace: str, name: str, node: str) -> None:
        def to_node(pod: Object) -> None:
            if pod["spec"].get("nodeName"):
                raise Refusal(409, f"pod {name} is already assigned to a node")
            pod["spec"]["nodeName"] = node
            set_condition(pod, "PodScheduled", "True")

        if self.store.edit("pods", namespace, name, to_node) is None:
            raise no_such_path()

    def evict(self, resource: Resource, namespace: str, name: str, options: Object) -> None:
        with self.store.changed:
            pod = self.store.get(resource, namespace, name)
            if not is_over(pod):
                set_condition(
                    pod,
                    "DisruptionTarget",
                    "True",
                    "EvictionByEvictionAPI",
                    "Eviction API: evicting",
                )
                self.store.replace(resource, pod)
            self.delete(resource, namespace, name, options, dry_run=False)


def _grace(resource: Resource, found: Object, options: Object) -> int | None:
    if resource.plural != "pods":
        return None
    if not found["spec"].get("nodeName") or is_over(found):
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = found["spec"]["terminationGracePeriodSeconds"]
    return int(asked if asked is not None else grace)
