"""Garbage collector, lost nodes, and DaemonSets of device plugins."""

from __future__ import annotations

import time
from collections.abc import Callable

from emulators.kubernetes.api import Api
from emulators.kubernetes.objects import (
    Object,
    condition,
    is_deleted,
    is_over,
    now,
    set_condition,
)
from emulators.kubernetes.scheduler import tolerates
from emulators.kubernetes.store import Store

UNREACHABLE = "node.kubernetes.io/unreachable"
FOREGROUND = "foregroundDeletion"
DEVICE_PLUGIN, GPU = "/k8s-device-plugin", "nvidia.com/gpu"
NEVER = float("inf")


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


class NodeLifecycle:
    """Gets lost nodes by a call; the real one detects missing heartbeats."""

    def __init__(self, store: Store, api: Api) -> None:
        self._store, self._api = store, api
        self._due: list[tuple[float, Callable[[str], None], str]] = []

    def lose(self, name: str, *seconds: float) -> None:
        """Plans the steps about a lost node, each so many seconds after the one before."""
        moment = time.monotonic()
        with self._store.changed:
            for wait, step in zip(seconds, (self._unknown, self._evict, self._remove), strict=True):
                moment += wait
                self._due.append((moment, step, name))
        self._store.wake()

    def sync(self) -> float:
        """Returns when it must look again without a change."""
        moment = time.monotonic()
        due = [one for one in self._due if one[0] <= moment]
        self._due = [one for one in self._due if one[0] > moment]
        for _, step, name in due:
            step(name)
        return min((one[0] for one in self._due), default=NEVER)

    def _unknown(self, name: str) -> None:
        node = self._store.find("nodes", None, name)
        if node is None:
            return
        taints = node["spec"].setdefault("taints", [])
        for effect in ("NoSchedule", "NoExecute"):
            taints.append({"key": UNREACHABLE, "effect": effect, "timeAdded": now()})
        text = "Kubelet stopped posting node status."
        set_condition(node, "Ready", "Unknown", "NodeStatusUnknown", text)
        self._store.replace("nodes", node)
        for pod in self._pods(name):
            self._store.edit("pods", pod, lambda one: set_condition(one, "Ready", "False"))

    def _evict(self, name: str) -> None:
        text = "Taint manager: deleting due to NoExecute taint"
        for pod in self._pods(name):
            if not is_deleted(pod):
                set_condition(pod, "DisruptionTarget", "True", "DeletionByTaintManager", text)
                self._api.remove(self._store.replace("pods", pod))

    def _remove(self, name: str) -> None:
        """The cloud reports that the machine is deleted: deletes its node and its pods."""
        if node := self._store.find("nodes", None, name):
            self._store.remove("nodes", node)
        for pod in self._pods(name, over=True):
            if is_over(pod):
                self._api.remove(pod)
                continue
            text = "PodGC: node no longer exists"
            set_condition(pod, "DisruptionTarget", "True", "DeletionByPodGC", text)
            pod["status"]["phase"] = "Failed"
            pod["metadata"].setdefault("deletionTimestamp", now())
            pod["metadata"]["deletionGracePeriodSeconds"] = 0
            self._store.replace("pods", pod)

    def _pods(self, name: str, *, over: bool = False) -> list[Object]:
        return [
            pod
            for pod in self._store.select("pods")
            if pod["spec"].get("nodeName") == name and (over or not is_over(pod))
        ]


def show_devices(store: Store, cards: dict[str, int]) -> None:
    """Counts on which nodes each DaemonSet would run; where a device plugin does, GPUs are allocatable.

    `cards` are the GPUs of each node that are not allocatable yet.
    """
    nodes = [one for one in store.select("nodes") if condition(one, "Ready")]
    for one in store.select("daemonsets"):
        pod = one["spec"]["template"]["spec"]
        selector = (pod.get("nodeSelector") or {}).items()
        fitting = [
            node
            for node in nodes
            if selector <= node["metadata"].get("labels", {}).items()
            and all(tolerates(pod, taint) for taint in node["spec"].get("taints") or ())
        ]
        counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady")
        one["status"] = dict.fromkeys(counts, len(fitting)) | {"numberMisscheduled": 0}
        store.replace("daemonsets", one)
        if DEVICE_PLUGIN not in pod["containers"][0]["image"]:
            continue
        for node in fitting:
            if count := cards.pop(node["metadata"]["name"], 0):
                for kind in ("capacity", "allocatable"):
                    node["status"][kind] = node["status"][kind] | {GPU: str(count)}
                store.replace("nodes", node)
