"""The verbs of the API on the objects of the store, with admission."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from emulators.http import AnswerLost
from emulators.kubernetes import validation
from emulators.kubernetes.objects import (
    KINDS,
    Change,
    Object,
    Refusal,
    Resource,
    Store,
    conflict,
    copied,
    forbidden,
    is_over,
    matches,
    now,
    parse_quantity,
    requests_of,
    set_condition,
)

PODS = KINDS["pods"]
MOST_SECONDS = 1800.0
CLASS = "queued-provisioning.gke.io"
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME = "autoscaling.x-k8s.io/provisioning-class-name"
OF_REQUEST = "autoscaling.gke.io/provisioning-request"
"""Label of the nodes of a request; GKE's webhook adds it to the selector of the pods that name it."""
FIRST_STATUS: dict[str, Object] = {"pods": {"phase": "Pending"}, "jobs": {}}


class Api:
    """Creates, changes, deletes and watches objects by the rules; controllers may write to the store directly."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._custom: dict[Resource, Draft202012Validator] = {}
        self._cuts = 0

    def create(self, resource: Resource, namespace: str | None, body: Any) -> Object:
        with self._store.changed:
            found = {"apiVersion": resource.api_version, "kind": resource.kind} | copied(body)
            own = found["metadata"]
            if resource.namespaced:
                own.setdefault("namespace", namespace)
                self._store.get("namespaces", None, namespace or "")
            validation.decode(resource, found, self._custom.get(resource))
            validation.fill(resource, found)
            validation.check(resource, found)
            if resource.plural in FIRST_STATUS:
                found["status"] = copied(FIRST_STATUS[resource.plural])
            if resource.plural == "jobs":  # the real selector has the uid of the Job, too
                template = found["spec"]["template"].setdefault("metadata", {})
                labels = template.setdefault("labels", {})
                labels["job-name"] = labels["batch.kubernetes.io/job-name"] = own["name"]
            made = self._store.insert(resource, found)
            if resource.plural == "customresourcedefinitions":
                self._learn(made["spec"])
            elif resource.plural == "namespaces":
                for kind, name in {
                    "serviceaccounts": "default",
                    "configmaps": "kube-root-ca.crt",
                }.items():
                    self._store.insert(kind, {"metadata": {"name": name, "namespace": own["name"]}})
            return made

    def _learn(self, spec: Object) -> None:
        for version in spec["versions"]:
            names = (spec["names"]["plural"], spec["names"]["kind"])
            kind = Resource(spec["group"], version["name"], *names, spec["scope"] == "Namespaced")
            self._custom[kind] = validation.custom_schema(version["schema"]["openAPIV3Schema"])
            self._store.resources.append(kind)

    def create_pod(self, pod: Object) -> Object:
        """Creates a pod for a controller, whose template was checked before."""
        with self._store.changed:
            validation.fill(PODS, pod)
            annotations = pod["metadata"].get("annotations") or {}
            if annotations.get(CLASS_NAME) == CLASS and CONSUME in annotations:  # as GKE does
                pod["spec"].setdefault("nodeSelector", {})[OF_REQUEST] = annotations[CONSUME]
            namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
            if self._store.find("serviceaccounts", namespace, account) is None:
                why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}"'
                raise forbidden(PODS, pod["metadata"]["name"], f"{why} not found")
            self._check_quota(pod)
            return self._store.insert(PODS, pod | {"status": {"phase": "Pending"}})

    def _check_quota(self, pod: Object) -> None:
        """Refuses a pod that exceeds a quota of its namespace."""
        namespace, asked = pod["metadata"]["namespace"], _charged(pod)
        used: Counter[str] = Counter()
        for one in self._store.select("pods", namespace):
            if not is_over(one):
                used.update(_charged(one))
        for quota in self._store.select("resourcequotas", namespace):
            for name, limit in (quota["spec"].get("hard") or {}).items():
                if asked[name] and asked[name] + used[name] > parse_quantity(limit):
                    why = f"exceeded quota: {quota['metadata']['name']}, requested: {name}={asked[name]}"
                    why += f", used: {name}={used[name]}, limited: {name}={limit}"
                    raise forbidden(PODS, pod["metadata"]["name"], why)

    def patch(self, resource: Resource, namespace: str | None, name: str, patch: Any) -> Object:
        """Applies a merge patch (RFC 7396)."""
        with self._store.changed:
            old = self._store.get(resource, namespace, name)
            new = _merged(old, patch)
            status = {"status": old["status"]} if new.pop("status", None) is not None else {}
            validation.decode(resource, new, self._custom.get(resource))
            validation.fill(resource, new)
            validation.check(resource, new, old)
            return self._store.replace(resource, new | status)

    def delete(
        self, resource: Resource, namespace: str | None, name: str, options: Object
    ) -> Object:
        """Deletes an object, or marks it for deletion while it has finalizers or a grace period."""
        with self._store.changed:
            found = self._store.get(resource, namespace, name)
            own = found["metadata"]
            uid = (options.get("preconditions") or {}).get("uid", own["uid"])
            if uid != own["uid"]:
                raise conflict(resource, name)
            if options.get("propagationPolicy") == "Foreground":
                own["finalizers"] = [*{*own.get("finalizers", ()), "foregroundDeletion"}]
            if resource == PODS:
                grace = options.get("gracePeriodSeconds")
                grace = found["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
                if not found["spec"].get("nodeName") or is_over(found):
                    grace = 0
                before = own.get("deletionGracePeriodSeconds", grace)
                own["deletionGracePeriodSeconds"] = min(int(grace), before)
                if not found["spec"].get("nodeName"):
                    found["status"]["phase"] = "Failed"  # no kubelet reports it
            own.setdefault("deletionTimestamp", now())
            return self._store.replace(resource, found)

    def remove(self, found: Object, policy: str = "Background") -> None:
        """Deletes an object for a controller."""
        own = found["metadata"]
        for one in self._store.resources:
            if (one.kind, one.api_version) == (found["kind"], found["apiVersion"]):
                self.delete(one, own.get("namespace"), own["name"], {"propagationPolicy": policy})

    def evict(self, namespace: str, name: str) -> Object:
        """Does what `kubectl drain` and descheduling do: SIGTERM, with the pod's grace."""
        with self._store.changed:
            pod = self._store.get(PODS, namespace, name)
            if not is_over(pod):
                reason, text = "EvictionByEvictionAPI", "Eviction API: evicting"
                set_condition(pod, "DisruptionTarget", "True", reason, text)
                self._store.replace(PODS, pod)
            self.delete(PODS, namespace, name, {})
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    def list(self, resource: Resource, namespace: str | None, selector: str) -> Object:
        with self._store.changed:
            found = self._store.select(resource, namespace)
            items = [one for one in found if matches(selector, one)]
            revision = {"resourceVersion": str(self._store.revision)}
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return head | {"metadata": revision, "items": items}

    def cut_watches(self) -> None:
        """Ends all watches as a load balancer does: without a last chunk."""
        self._cuts += 1
        self._store.wake()

    def watch(
        self, resource: Resource, namespace: str | None, query: dict[str, str]
    ) -> Iterator[bytes]:
        """Yields the changes since a revision as lines; an error for one that was forgotten."""
        store, since = self._store, int(query.get("resourceVersion") or 0)
        end = time.monotonic() + float(query.get("timeoutSeconds") or MOST_SECONDS)
        selector, cuts = query.get("labelSelector", ""), self._cuts
        while (left := end - time.monotonic()) > 0:
            with store.changed:
                store.changed.wait_for(
                    lambda since=since: store.revision > since or store.closed, left
                )
                if store.closed or self._cuts != cuts:
                    raise AnswerLost
                if since < store.compacted:
                    yield _line("ERROR", Refusal(410, f"too old resource version: {since}").body)
                    return
                news = [one for one in store.changes if one.revision > since]
                since = store.revision
            for change in news:
                if change.resource == resource:
                    yield from _event(change, namespace, selector)


def _charged(pod: Object) -> Counter[str]:
    """Returns what one pod takes of a quota, by all the names a quota may use for it."""
    total: Counter[str] = Counter({"pods": 1, "count/pods": 1})
    for name, amount in requests_of(pod).items():
        total[f"requests.{name}"] = total[name] = amount
    return total


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copied(patch)
    merged = copied(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _event(change: Change, namespace: str | None, selector: str) -> Iterator[bytes]:
    """An object that comes to fit the selector is new to the watcher, one that ceases is gone."""
    old, new = change.old, change.new
    if namespace not in {None, (new or old or {})["metadata"].get("namespace")}:
        return
    was, fits = (one is not None and matches(selector, one) for one in (old, new))
    if fits:
        yield _line("MODIFIED" if was else "ADDED", new)
    elif was:
        yield _line("DELETED", old)


def _line(kind: str, found: Object | None) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"
