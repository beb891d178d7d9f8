"""The scheduler: selects a node for a pod, or the message that none fits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from emulators.kubernetes import quantities
from emulators.kubernetes.controller import Controller, record_event
from emulators.kubernetes.selection import at, matches_fields, matches_label_selector
from emulators.kubernetes.store import set_condition

if TYPE_CHECKING:
    from emulators.kubernetes.api import Api
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HELPED_BY_ROOM = ("Insufficient", "Too many pods", "node(s) didn't match pod anti-affinity")


class Scheduler(Controller):
    """Places pods one by one, each on the node with most free resources."""

    def __init__(self, store: Store, api: Api) -> None:
        super().__init__(store)
        self._api = api
        self._reported: dict[str, str] = {}

    def sync(self) -> None:
        pods, nodes = self.store.select("pods"), self.store.select("nodes")
        waiting = [
            pod
            for pod in pods
            if not pod["spec"].get("nodeName")
            and not quantities.is_over(pod)
            and "deletionTimestamp" not in pod["metadata"]
            and not pod["spec"].get("schedulingGates")
        ]
        for pod in sorted(waiting, key=lambda one: int(one["metadata"]["resourceVersion"])):
            self._place(pod, pods, nodes)

    def _place(self, pod: Object, pods: list[Object], nodes: list[Object]) -> None:
        own = pod["metadata"]
        there = [one for one in pods if one["spec"].get("nodeName") and not quantities.is_over(one)]
        missing = self._missing_claim(pod)
        reasons: Counter[str] = Counter()
        fitting = []
        for node in nodes:
            against = [missing] if missing else refusals(pod, node, there)
            reasons.update(against)
            if not against:
                fitting.append(node)
        if not fitting:
            self._tell(pod, len(nodes), reasons)
            return
        taken = Counter(one["spec"]["nodeName"] for one in there)
        node = min(fitting, key=lambda one: taken[one["metadata"]["name"]])
        name = node["metadata"]["name"]
        self._api.bind(own["namespace"], own["name"], name)
        pod["spec"]["nodeName"] = name  # counts for those that are placed after it
        text = f"Successfully assigned {own['namespace']}/{own['name']} to {name}"
        record_event(self.store, pod, "Scheduled", text, by="default-scheduler")

    def _missing_claim(self, pod: Object) -> str:
        for volume in pod["spec"].get("volumes") or []:
            name = at(volume, "persistentVolumeClaim", "claimName")
            namespace = pod["metadata"]["namespace"]
            if name and not self.store.find("persistentvolumeclaims", namespace, name):
                return f'persistentvolumeclaim "{name}" not found'
        return ""

    def _tell(self, pod: Object, count: int, reasons: Counter[str]) -> None:
        parts = ", ".join(sorted(f"{number} {text}" for text, number in reasons.items()))
        if any("persistentvolumeclaim" in text for text in reasons):
            parts = ", ".join(reasons)  # a message about the pod, not about nodes
        text = f"0/{count} nodes are available: {parts}." if count else "no nodes available to "
        text += _preemption(count, reasons) if count else "schedule pods"
        own = pod["metadata"]
        if self._reported.get(own["uid"]) == text:
            return
        self._reported[own["uid"]] = text
        record_event(
            self.store, pod, "FailedScheduling", text, kind="Warning", by="default-scheduler"
        )

        def unschedulable(found: Object) -> None:
            set_condition(found, "PodScheduled", "False", "Unschedulable", text)

        self.store.edit("pods", own["namespace"], own["name"], unschedulable)


def _preemption(count: int, reasons: Counter[str]) -> str:
    room = sum(number for text, number in reasons.items() if text.startswith(HELPED_BY_ROOM))
    outcome = []
    if room:
        outcome.append(f"{min(room, count)} No preemption victims found for incoming pod")
    if room < count:
        outcome.append(f"{count - room} Preemption is not helpful for scheduling")
    return f" preemption: 0/{count} nodes are available: {', '.join(sorted(outcome))}."


def refusals(pod: Object, node: Object, there: list[Object]) -> list[str]:
    """Returns why a pod may not go to a node; several only where several resources lack."""
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if node["spec"].get("unschedulable"):
        return ["node(s) were unschedulable"]
    for taint in node["spec"].get("taints") or []:
        keeps_away = taint["effect"] in {"NoSchedule", "NoExecute"}
        if keeps_away and not tolerates(spec.get("tolerations") or [], taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    if not _selected(spec, node, labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    here = [one for one in there if one["spec"]["nodeName"] == node["metadata"]["name"]]
    lacking = _lacking(pod, node, here)
    if lacking:
        return lacking
    if _repelled(pod, labels, here):
        return ["node(s) didn't match pod anti-affinity rules"]
    return []


def tolerates(tolerations: list[Object], taint: Object) -> bool:
    """Returns whether one of the tolerations accepts a taint."""
    return any(
        one.get("effect") in {None, "", taint["effect"]}
        and (
            (one.get("operator") == "Exists" and one.get("key") in {None, "", taint["key"]})
            or (
                one.get("operator", "Equal") == "Equal"
                and (one.get("key"), one.get("value", "")) == (taint["key"], taint.get("value", ""))
            )
        )
        for one in tolerations
    )


def _selected(spec: Object, node: Object, labels: dict[str, str]) -> bool:
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = at(spec, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    if terms is None:
        return True
    return any(
        matches_label_selector(term, labels)
        and all(
            matches_fields(f"{one['key']}={value}", node)
            for one in term.get("matchFields") or []
            for value in one["values"]
        )
        for term in terms
    )


def _lacking(pod: Object, node: Object, here: list[Object]) -> list[str]:
    room = {name: quantities.parse(one) for name, one in node["status"]["allocatable"].items()}
    used: Counter[str] = Counter()
    for one in here:
        used.update(quantities.of_pod(one))
    lacking = []
    if len(here) + 1 > room.get("pods", 110):
        lacking.append("Too many pods")
    for name, amount in quantities.of_pod(pod).items():
        if amount and amount + used[name] > room.get(name, 0):
            lacking.append(f"Insufficient {name}")
    return lacking


def _repelled(pod: Object, labels: dict[str, str], here: list[Object]) -> bool:
    """Anti-affinity counts both ways; by any other topology than the node it is not modelled."""
    namespace = pod["metadata"]["namespace"]
    for one, others in ((pod, here), *((other, [pod]) for other in here)):
        for term in at(one, "spec", "affinity", "podAntiAffinity", REQUIRED, default=[]):
            if term["topologyKey"] != HOSTNAME or HOSTNAME not in labels:
                continue
            for other in others:
                own = other["metadata"]
                selector = term.get("labelSelector") or {}
                if own["namespace"] == namespace and matches_label_selector(
                    selector, own.get("labels") or {}
                ):
                    return True
    return False
