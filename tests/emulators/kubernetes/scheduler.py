"""The scheduler: selects a node for a pod, or the message that none fits."""

from __future__ import annotations

from collections import Counter

from emulators.kubernetes.objects import (
    Object,
    at,
    has_labels,
    is_deleted,
    is_over,
    parse_quantity,
    requests_of,
    set_condition,
)
from emulators.kubernetes.store import Store

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def schedule(store: Store) -> None:
    """Places pods one by one, each on the fitting node with the fewest."""
    pods, nodes = store.select("pods"), store.select("nodes")
    waiting = [
        pod
        for pod in pods
        if not pod["spec"].get("nodeName") and not is_over(pod) and not is_deleted(pod)
    ]
    for pod in sorted(waiting, key=lambda one: int(one["metadata"]["resourceVersion"])):
        there = [one for one in pods if one["spec"].get("nodeName") and not is_over(one)]
        against = {node["metadata"]["name"]: refusals(pod, node, there) for node in nodes}
        if missing := _missing_claim(store, pod):
            against = {name: [missing] for name in against}
        taken = Counter(one["spec"]["nodeName"] for one in there)
        fitting = sorted((taken[name], name) for name, why in against.items() if not why)
        if fitting:
            pod["spec"]["nodeName"] = fitting[0][1]  # counts for those that are placed after it
            store.edit("pods", pod, lambda one, pod=pod: _bind(one, pod["spec"]["nodeName"]))
        else:
            _tell(store, pod, against)


def _bind(pod: Object, node: str) -> None:
    pod["spec"]["nodeName"] = node
    set_condition(pod, "PodScheduled", "True")


def _missing_claim(store: Store, pod: Object) -> str:
    for volume in pod["spec"].get("volumes") or ():
        name = at(volume, "persistentVolumeClaim", "claimName")
        if name and not store.find("persistentvolumeclaims", pod["metadata"]["namespace"], name):
            return f'persistentvolumeclaim "{name}" not found'
    return ""


def _tell(store: Store, pod: Object, against: dict[str, list[str]]) -> None:
    reasons, count = Counter(text for why in against.values() for text in why), len(against)
    parts = ", ".join(sorted(f"{number} {text}" for text, number in reasons.items()))
    text = (
        f"0/{count} nodes are available: {parts}."
        if count
        else "no nodes available to schedule pods"
    )
    known = at(pod, "status", "conditions", default=())
    if all(one.get("message") != text for one in known):
        store.record_event(pod, "FailedScheduling", text, kind="Warning")
        store.edit(
            "pods",
            pod,
            lambda one: set_condition(one, "PodScheduled", "False", "Unschedulable", text),
        )


def refusals(pod: Object, node: Object, there: list[Object]) -> list[str]:
    """Returns why a pod may not go to a node; several only where several resources lack."""
    spec, labels = pod["spec"], at(node, "metadata", "labels", default={})
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not tolerates(spec, taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return ["node(s) didn't match Pod's node affinity/selector"]
    here = [one for one in there if one["spec"]["nodeName"] == node["metadata"]["name"]]
    room = {name: parse_quantity(one) for name, one in node["status"]["allocatable"].items()}
    for one in here:
        room = {name: amount - requests_of(one)[name] for name, amount in room.items()}
    lacking = [
        f"Insufficient {name}"
        for name, amount in requests_of(pod).items()
        if amount and amount > room.get(name, 0)
    ]
    if lacking:
        return lacking
    # Anti-affinity counts both ways; by any other topology than the node it is not modelled.
    for one, others in ((pod, here), *((other, [pod]) for other in here)):
        for term in at(one, "spec", "affinity", "podAntiAffinity", REQUIRED, default=()):
            if any(has_labels(term["labelSelector"], other) for other in others):
                return ["node(s) didn't match pod anti-affinity rules"]
    return []


def tolerates(spec: Object, taint: Object) -> bool:
    """Returns whether one of a pod's tolerations accepts a taint."""
    return any(
        one.get("effect") in {None, "", taint["effect"]}
        and one.get("key") in {None, "", taint["key"]}
        and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
        for one in spec.get("tolerations") or ()
    )
