"""DaemonSets of device plugins: a node's GPUs become allocatable where the pod can run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulators.kubernetes.controller import Controller
from emulators.kubernetes.scheduler import tolerates
from emulators.kubernetes.store import condition

if TYPE_CHECKING:
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
IMAGE, RESOURCE = "/k8s-device-plugin", "nvidia.com/gpu"


class DevicePlugins(Controller):
    """Counts on which nodes each DaemonSet would run; makes no pods."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.cards: dict[str, int] = {}
        """GPUs of each node that are not allocatable yet."""

    def sync(self) -> None:
        nodes = [one for one in self.store.select("nodes") if condition(one, "Ready")]
        for one in self.store.select("daemonsets"):
            pod = one["spec"]["template"]["spec"]
            fitting = [node for node in nodes if _fits(pod, node)]
            counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady")
            one["status"] = {name: len(fitting) for name in counts} | {"numberMisscheduled": 0}
            self.store.replace("daemonsets", one)
            if any(IMAGE in container["image"] for container in pod["containers"]):
                for node in fitting:
                    self._show(node)

    def _show(self, node: Object) -> None:
        count = self.cards.pop(node["metadata"]["name"], 0)
        if count:
            for field in ("capacity", "allocatable"):
                node["status"][field] = node["status"][field] | {RESOURCE: str(count)}
            self.store.replace("nodes", node)


def _fits(pod: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = pod.get("nodeSelector") or {}
    taints = [
        one for one in node["spec"].get("taints") or [] if one["effect"] != "PreferNoSchedule"
    ]
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        tolerates(pod.get("tolerations") or [], taint) for taint in taints
    )
