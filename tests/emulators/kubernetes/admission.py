"""Admission: service accounts, quota, queues and scheduling gates."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from emulators.kubernetes import quantities, queued_provisioning
from emulators.kubernetes.status_errors import forbidden
from emulators.kubernetes.store import KINDS

if TYPE_CHECKING:
    from emulators.kubernetes.resources import Resource
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
STANDARD = {"cpu", "memory", "ephemeral-storage"}


class Admission:
    """Checks each new object before it is stored."""

    def __init__(self, store: Store, *, gang: bool, kueue: bool) -> None:
        self._store = store
        self._gang = gang
        self._kueue = kueue

    def admit(self, resource: Resource, found: Object) -> None:
        """Changes or refuses a new object."""
        own = found["metadata"]
        if resource.namespaced and resource.plural != "events":
            self._namespace_is_open(resource, own)
        if resource is KINDS["jobs"]:
            if not self._gang:
                found["spec"].pop("scheduling", None)  # the gate is off: the field is dropped
            if self._kueue and QUEUE in (own.get("labels") or {}):
                found["spec"]["suspend"] = True
        if resource is KINDS["pods"]:
            queued_provisioning.admit(found)
            self._service_account(resource, found)
            self.check_quota(resource, found)

    def _namespace_is_open(self, resource: Resource, own: Object) -> None:
        namespace = own["namespace"]
        if "deletionTimestamp" in self._store.get("namespaces", None, namespace)["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being "
            raise forbidden(resource, own.get("name", ""), why + "terminated")

    def _service_account(self, resource: Resource, found: Object) -> None:
        own, name = found["metadata"], found["spec"]["serviceAccountName"]
        if self._store.find("serviceaccounts", own["namespace"], name) is None:
            why = (
                f"error looking up service account {own['namespace']}/{name}: "
                f'serviceaccount "{name}" not found'
            )
            raise forbidden(resource, own.get("name", ""), why)

    def check_quota(self, resource: Resource, pod: Object) -> None:
        """Refuses a pod that exceeds a quota of its namespace, and counts any other."""
        own = pod["metadata"]
        asked = charged(pod)
        used_now = used(self._store.select("pods", own["namespace"]))
        for quota in self._store.select("resourcequotas", own["namespace"]):
            hard = quota["spec"].get("hard") or {}
            over = sorted(
                name
                for name in hard
                if asked[name] and asked[name] + used_now[name] > quantities.parse(hard[name])
            )
            if over:
                limited = ",".join(f"{name}={hard[name]}" for name in over)
                why = (
                    f"exceeded quota: {quota['metadata']['name']}, "
                    f"requested: {_listed(asked, over)}, used: {_listed(used_now, over)}, "
                    f"limited: {limited}"
                )
                raise forbidden(resource, own.get("name", ""), why)


def _listed(amounts: Counter[str], names: list[str]) -> str:
    return ",".join(f"{name}={quantities.shown(Fraction(amounts[name]))}" for name in names)


def used(pods: list[Object]) -> Counter[str]:
    """Returns what the pods of a namespace take of its quota."""
    total: Counter[str] = Counter()
    for pod in pods:
        if not quantities.is_over(pod):
            total.update(charged(pod))
    return total


def charged(pod: Object) -> Counter[str]:
    """Returns what one pod takes of a quota, by all the names a quota may use for it."""
    total: Counter[str] = Counter({"pods": Fraction(1), "count/pods": Fraction(1)})
    for name, amount in quantities.of_pod(pod).items():
        total[f"requests.{name}"] = total[name] = amount
    for name, amount in quantities.of_pod(pod, "limits").items():
        if name in STANDARD:
            total[f"limits.{name}"] = amount
    return total
