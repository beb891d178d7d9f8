"""Pods of lost nodes: node lifecycle, taint manager, pod garbage collector."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes.controller import Controller, record_event
from emulators.kubernetes.quantities import is_over
from emulators.kubernetes.store import now, set_condition

if TYPE_CHECKING:
    from emulators.kubernetes.api import Api
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
UNREACHABLE = "node.kubernetes.io/unreachable"


class Loss(NamedTuple):
    """When, on the monotonic clock, the control plane takes each step about a lost node."""

    unknown: float
    evicted: float
    removed: float


class NodeLifecycle(Controller):
    """Gets lost nodes by a call; the real one detects missing heartbeats."""

    def __init__(self, store: Store, api: Api) -> None:
        super().__init__(store)
        self._api = api
        self._losses: dict[str, Loss] = {}

    def lose(self, name: str, loss: Loss) -> None:
        with self.store.changed:
            self._losses[name] = loss
            self.store.revision += 1  # wakes the loop although nothing has changed yet
            self.store.changed.notify_all()

    def sync(self) -> float | None:
        waits = []
        for name, loss in list(self._losses.items()):
            node = self.store.find("nodes", None, name)
            moment = time.monotonic()
            if node and moment >= loss.unknown:
                self._unknown(node)
            if moment >= loss.evicted:
                self._evict(name)
            if moment >= loss.removed:
                self._remove(name, node)
            waits += [one - moment for one in loss if one > moment]
        return max(0.001, min(waits)) if waits else None

    def _unknown(self, node: Object) -> None:
        name = node["metadata"]["name"]
        taints = node["spec"].setdefault("taints", [])
        if any(one["key"] == UNREACHABLE for one in taints):
            return
        for effect in ("NoSchedule", "NoExecute"):
            taints.append({"key": UNREACHABLE, "effect": effect, "timeAdded": now()})
        text = "Kubelet stopped posting node status."
        set_condition(node, "Ready", "Unknown", "NodeStatusUnknown", text)
        self.store.replace("nodes", node)
        for pod in self._pods(name):
            set_condition(pod, "Ready", "False")
            self.store.replace("pods", pod)
            record_event(
                self.store,
                pod,
                "NodeNotReady",
                "Node is not ready",
                kind="Warning",
                by="node-controller",
            )

    def _evict(self, name: str) -> None:
        for pod in self._pods(name):
            if "deletionTimestamp" in pod["metadata"]:
                continue
            text = "Taint manager: deleting due to NoExecute taint"
            set_condition(pod, "DisruptionTarget", "True", "DeletionByTaintManager", text)
            kept = self.store.replace("pods", pod)
            text = (
                f"Marking for deletion Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
            )
            record_event(self.store, kept, "TaintManagerEviction", text, by="taint-eviction")
            self._api.remove(kept)

    def _remove(self, name: str, node: Object | None) -> None:
        """The cloud reports that the machine is deleted: deletes its node and its pods."""
        if node:
            self.store.remove("nodes", node)
        for pod in self.store.select("pods"):
            if pod["spec"].get("nodeName") == name and is_over(pod):
                self._api.remove(pod)
        for pod in self._pods(name):
            set_condition(
                pod, "DisruptionTarget", "True", "DeletionByPodGC", "PodGC: node no longer exists"
            )
            pod["status"]["phase"] = "Failed"
            own = pod["metadata"]
            own.setdefault("deletionTimestamp", now())
            own["deletionGracePeriodSeconds"] = 0
            self.store.replace("pods", pod)
        del self._losses[name]

    def _pods(self, name: str) -> list[Object]:
        return [
            pod
            for pod in self.store.select("pods")
            if pod["spec"].get("nodeName") == name and not is_over(pod)
        ]
