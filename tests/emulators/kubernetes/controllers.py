"""Scheduler, garbage collector, lost nodes, DaemonSets of device plugins, and GKE's queued provisioning.

All nodes of a ProvisioningRequest come at once, and only for the pods that name it. What Google's page says is not
supported is refused: more than one pod set, a template without the label
cloud.google.com/apply-warden-policies, more than seven days, a missing template
(https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest, as of 2026-04-08, read 2026-11-23).
"""

from __future__ import annotations

import time
from collections import Counter

from emulators.kubernetes.api import CLASS, Api
from emulators.kubernetes.objects import (
    Object,
    Resource,
    Store,
    at,
    condition,
    has_labels,
    is_deleted,
    is_over,
    now,
    parse_quantity,
    requests_of,
    set_condition,
)

UNREACHABLE = "node.kubernetes.io/unreachable"
FOREGROUND = "foregroundDeletion"
DEVICE_PLUGIN, GPU = "/k8s-device-plugin", "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUEST = Resource("autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest")
FLEX, WARDEN = "cloud.google.com/gke-flex-start", "cloud.google.com/apply-warden-policies"
TAINTS = (
    {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"},
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
)
LONGEST_SECONDS = 7 * 24 * 3600


def schedule(store: Store) -> None:
    """Places pods one by one, each on the fitting node with the fewest."""
    pods, nodes = store.select("pods"), store.select("nodes")
    for pod in sorted(pods, key=lambda one: int(one["metadata"]["resourceVersion"])):
        if pod["spec"].get("nodeName") or is_over(pod) or is_deleted(pod):
            continue
        there = [one for one in pods if one["spec"].get("nodeName") and not is_over(one)]
        against = {node["metadata"]["name"]: refusals(pod, node, there) for node in nodes}
        if missing := _missing_claim(store, pod):
            against = {name: [missing] for name in against}
        taken = Counter(one["spec"]["nodeName"] for one in there)
        fitting = sorted((taken[name], name) for name, why in against.items() if not why)
        if fitting:
            pod["spec"]["nodeName"] = fitting[0][1]  # counts for those that are placed after it
            bound = store.get("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
            bound["spec"]["nodeName"] = fitting[0][1]
            set_condition(bound, "PodScheduled", "True")
            store.replace("pods", bound)
        else:
            _tell(store, pod, against)


def _missing_claim(store: Store, pod: Object) -> str:
    for volume in pod["spec"].get("volumes") or ():
        name = at(volume, "persistentVolumeClaim", "claimName")
        if name and not store.find("persistentvolumeclaims", pod["metadata"]["namespace"], name):
            return f'persistentvolumeclaim "{name}" not found'
    return ""


def _tell(store: Store, pod: Object, against: dict[str, list[str]]) -> None:
    reasons, count = Counter(text for why in against.values() for text in why), len(against)
    parts = ", ".join(sorted(f"{number} {text}" for text, number in reasons.items()))
    text = f"0/{count} nodes are available: {parts}."
    if not count:
        text = "no nodes available to schedule pods"
    known = at(pod, "status", "conditions", default=())
    if all(one.get("message") != text for one in known):
        store.record_event(pod, "FailedScheduling", text)
        unplaced = ("PodScheduled", "False", "Unschedulable", text)
        store.edit("pods", pod, lambda one: set_condition(one, *unplaced))


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
    asked = requests_of(pod).items()
    if short := [name for name, amount in asked if amount and amount > room.get(name, 0)]:
        return [f"Insufficient {name}" for name in short]
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


def collect_garbage(store: Store, api: Api) -> None:
    """Deletes objects without their owner, and owners whose dependents are gone."""
    everything = store.everything()
    living = {found["metadata"]["uid"] for _, found in everything}
    dependents: dict[str, list[Object]] = {}
    for _, found in everything:
        owners = {one["uid"] for one in found["metadata"].get("ownerReferences", ())}
        for uid in owners:
            dependents.setdefault(uid, []).append(found)
        if owners and not owners & living and not is_deleted(found):
            api.remove(found)
    for resource, found in everything:
        own = found["metadata"]
        if not is_deleted(found) or FOREGROUND not in own.get("finalizers", ()):
            continue
        for one in dependents.get(own["uid"], ()):
            if not is_deleted(one):
                api.remove(one, "Foreground" if one["kind"] == "Job" else "Background")
        if own["uid"] not in dependents:
            store.edit(
                resource, found, lambda one: one["metadata"]["finalizers"].remove(FOREGROUND)
            )


def lose_node(store: Store, api: Api, name: str, *seconds: float) -> None:
    """Takes the steps about a lost node, each so many seconds after the one before.

    The real controllers detect missing heartbeats.
    """
    for wait, step in zip(seconds, (_unknown, _evict, _remove), strict=True):
        time.sleep(wait)
        store.wait_while_away()
        with store.changed:
            if not store.closed:
                step(store, api, name)


def _unknown(store: Store, api: Api, name: str) -> None:
    del api
    node = store.find("nodes", None, name)
    if node is None:
        return
    taints = node["spec"].setdefault("taints", [])
    for effect in ("NoSchedule", "NoExecute"):
        taints.append({"key": UNREACHABLE, "effect": effect, "timeAdded": now()})
    text = "Kubelet stopped posting node status."
    set_condition(node, "Ready", "Unknown", "NodeStatusUnknown", text)
    store.replace("nodes", node)
    for pod in _pods(store, name):
        store.edit("pods", pod, lambda one: set_condition(one, "Ready", "False"))


def _evict(store: Store, api: Api, name: str) -> None:
    text = "Taint manager: deleting due to NoExecute taint"
    for pod in _pods(store, name):
        if not is_deleted(pod):
            set_condition(pod, "DisruptionTarget", "True", "DeletionByTaintManager", text)
            api.remove(store.replace("pods", pod))


def _remove(store: Store, api: Api, name: str) -> None:
    """The cloud reports that the machine is deleted: deletes its node and its pods."""
    if node := store.find("nodes", None, name):
        store.remove("nodes", node)
    for pod in _pods(store, name, over=True):
        if is_over(pod):
            api.remove(pod)
            continue
        text = "PodGC: node no longer exists"
        set_condition(pod, "DisruptionTarget", "True", "DeletionByPodGC", text)
        pod["status"]["phase"] = "Failed"
        pod["metadata"].setdefault("deletionTimestamp", now())
        pod["metadata"]["deletionGracePeriodSeconds"] = 0
        store.replace("pods", pod)


def _pods(store: Store, name: str, *, over: bool = False) -> list[Object]:
    here = [one for one in store.select("pods") if one["spec"].get("nodeName") == name]
    return [pod for pod in here if over or not is_over(pod)]


def show_devices(store: Store, cards: dict[str, int]) -> None:
    """Finds the nodes on which a device plugin would run, whose GPUs become allocatable.

    `cards` are the GPUs of each node that are not allocatable yet.
    """
    nodes = [one for one in store.select("nodes") if condition(one, "Ready")]
    for one in store.select("daemonsets"):
        pod = one["spec"]["template"]["spec"]
        if DEVICE_PLUGIN not in pod["containers"][0]["image"]:
            continue
        selector = (pod.get("nodeSelector") or {}).items()
        fitting = [
            node
            for node in nodes
            if selector <= node["metadata"].get("labels", {}).items()
            and all(tolerates(pod, taint) for taint in node["spec"].get("taints") or ())
        ]
        for node in fitting:
            if count := cards.pop(node["metadata"]["name"], 0):
                for kind in ("capacity", "allocatable"):
                    node["status"][kind] = node["status"][kind] | {GPU: str(count)}
                store.replace("nodes", node)


def answer_requests(store: Store) -> None:
    """Accepts new requests, or fails them."""
    for request in store.select(REQUEST):
        if at(request, "status", "conditions"):
            continue
        if why := _problem(store, request):
            set_condition(request, "Failed", "True", "InvalidRequest", why)
        else:
            set_condition(request, "Accepted", "True", "Accepted")
            why = "capacity is not available yet"
            set_condition(request, "Provisioned", "False", "NotProvisioned", why)
        store.replace(REQUEST, request)


def _problem(store: Store, request: Object) -> str:
    spec, namespace = request["spec"], request["metadata"]["namespace"]
    name = spec["podSets"][0]["podTemplateRef"]["name"]
    template = store.find("podtemplates", namespace, name)
    seconds = int(at(spec, "parameters", "maxRunDurationSeconds", default=0))
    rules = {
        f"unknown class {spec['provisioningClassName']}": spec["provisioningClassName"] != CLASS,
        "queued provisioning supports only one PodSet": len(spec["podSets"]) != 1,
        "maxRunDurationSeconds is longer than seven days": seconds > LONGEST_SECONDS,
        f"PodTemplate {name} does not exist": template is None,
        f"PodTemplate {name} has no label {WARDEN}": at(template, "metadata", "labels", WARDEN)
        != "true",
    }
    return next((text for text, is_broken in rules.items() if is_broken), "")
