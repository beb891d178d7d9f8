"""The kubelets of all nodes, which start a worker for each bound pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.controller import Controller
from emulators.kubernetes.pod_worker import PodWorker
from emulators.kubernetes.quantities import is_over

if TYPE_CHECKING:
    from pathlib import Path

    from emulators.kubernetes.container import Starter
    from emulators.kubernetes.images import Image
    from emulators.kubernetes.store import Store

Object = dict[str, Any]


@dataclass
class Settings:
    """The settings of all kubelets on this machine."""

    images: dict[str, Image]
    probe_scale: float = 1.0
    """What a second of a probe's manifest lasts."""
    restart_backoff_seconds: float = 0.1
    lost_nodes: set[str] = field(default_factory=set)
    registry_is_away: bool = False
    pulled: set[tuple[str, str]] = field(default_factory=set)
    """Nodes and the images that they have."""


class Kubelets(Controller):
    """Starts and ends pods as their objects in the API require."""

    def __init__(self, store: Store, root: Path, settings: Settings, starter: Starter) -> None:
        super().__init__(store)
        self._root, self._settings, self._starter = root, settings, starter
        self.workers: dict[str, PodWorker] = {}
        self._terminated: set[str] = set()

    def sync(self) -> None:
        there = {}
        for pod in self.store.select("pods"):
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            there[uid] = pod
            if node is None or node in self._settings.lost_nodes:
                continue
            if uid not in self.workers and not is_over(pod):
                worker = PodWorker(self.store, pod, self._root, self._settings, self._starter)
                self.workers[uid] = worker
                worker.start()
            if "deletionTimestamp" in pod["metadata"] and uid in self.workers:
                self._end(uid, pod["metadata"].get("deletionGracePeriodSeconds", 0))
        for uid in self.workers.keys() - there.keys():
            self._end(uid, 0)  # deleted by force

    def _end(self, uid: str, grace_seconds: float) -> None:
        if uid not in self._terminated:
            self._terminated.add(uid)
            self.workers[uid].terminate(grace_seconds)

    def lose(self, name: str) -> None:
        """Kills everything on a node at once, without a status update."""
        with self.store.changed:
            self._settings.lost_nodes.add(name)
            here = {
                pod["metadata"]["uid"]
                for pod in self.store.select("pods")
                if pod["spec"].get("nodeName") == name
            }
            for uid in here & self.workers.keys():
                self.workers[uid].abandon()

    def close(self) -> None:
        """Kills all containers."""
        for worker in list(self.workers.values()):
            worker.abandon()
        for worker in list(self.workers.values()):
            worker.join(10)
            for one in worker.containers:
                if one.process:
                    one.process.join(10)
