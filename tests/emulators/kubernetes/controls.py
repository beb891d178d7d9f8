"""Methods by which a test inspects, changes and breaks a cluster."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.api import Options
from emulators.kubernetes.faults import Fault
from emulators.kubernetes.logs import log_of
from emulators.kubernetes.nodes import Loss
from emulators.kubernetes.quantities import is_over
from emulators.kubernetes.queued_provisioning import FLEX, GPU_TAINT, OF_REQUEST, REQUEST, TAINT
from emulators.kubernetes.store import KINDS, set_condition
from emulators.kubernetes.volumes import claim_folder

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from emulators.kubernetes.api import Api
    from emulators.kubernetes.device_plugins import DevicePlugins
    from emulators.kubernetes.faults import Faults
    from emulators.kubernetes.kubelet import Kubelets, Settings
    from emulators.kubernetes.nodes import NodeLifecycle
    from emulators.kubernetes.pod_worker import PodWorker
    from emulators.kubernetes.queued_provisioning import QueuedProvisioning
    from emulators.kubernetes.reading import Reading
    from emulators.kubernetes.server import ApiServer
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
NOT_READY = "node.kubernetes.io/not-ready"
MOST_SECONDS, POLL_SECONDS = 20.0, 0.05


class Controls:
    """Methods return when the change is requested, not when it is complete."""

    root: Path
    queued_provisioning: QueuedProvisioning
    _store: Store
    _api: Api
    _faults: Faults
    _kubelets: Kubelets
    _nodes: NodeLifecycle
    _reading: Reading
    _server: ApiServer
    _device_plugins: DevicePlugins
    _settings: Settings

    # Objects, without requests over the network.

    def find(self, plural: str, namespace: str | None, name: str) -> Object | None:
        return self._store.find(plural, namespace, name)

    def select(self, plural: str, namespace: str | None = None) -> list[Object]:
        return self._store.select(plural, namespace)

    def put(self, plural: str, found: Object) -> None:
        """Creates an object as the API does, without a request over the network."""
        namespace = found["metadata"].get("namespace")
        self._api.create(KINDS[plural], namespace, found, Options({}))

    def wait_for(self, holds: Callable[[], Any], seconds: float = MOST_SECONDS) -> Any:
        """Waits until a function returns something true, and returns that.

        Calls it after each change in the cluster, and every 50 ms for conditions outside of it.
        """
        store, end = self._store, time.monotonic() + seconds
        while True:
            seen = store.revision
            if found := holds():
                return found
            if time.monotonic() > end:
                pods = [(one["metadata"]["name"], one["status"]) for one in self.select("pods")]
                raise TimeoutError(f"waited {seconds} s in vain; pods: {pods}")
            with store.changed:
                store.changed.wait_for(lambda seen=seen: store.revision != seen, POLL_SECONDS)

    def log(self, namespace: str, pod: str, container: str | None = None) -> str:
        """Returns what a container of a pod that still exists has printed."""
        found = self._store.get("pods", namespace, pod)
        name = container or found["spec"]["containers"][0]["name"]
        return log_of(self.root, found, name).read_text(encoding="utf-8", errors="replace")

    def claim_folder(self, namespace: str, name: str) -> Path:
        """Returns where a claim's files are."""
        return claim_folder(self.root, namespace, name)

    # Nodes.

    def provide(self, request: str, labels: Mapping[str, str]) -> None:
        """Starts all nodes of a ProvisioningRequest at once, in a GKE pool whose nodes have `labels`."""
        (found,) = [one for one in self.select(REQUEST) if one["metadata"]["name"] == request]  # type: ignore[arg-type]
        known = {FLEX: "true", OF_REQUEST: request, **labels}
        for number in range(found["spec"]["podSets"][0]["count"]):
            taints = [TAINT, GPU_TAINT]
            self.add_node(f"{request}-{number}", gpus=1, labels=known, taints=taints)
        self.queued_provisioning.end(request, "Provisioned", "Provisioned", "all nodes are ready")

    def add_node(
        self,
        name: str,
        *,
        gpus: int = 0,
        hidden_gpus: int = 0,
        cpu: str = "16",
        memory: str = "64Gi",
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Object] = (),
    ) -> None:
        """Adds a node that accepts pods at once; one that was lost is empty then.

        `hidden_gpus` are in the machine; they become allocatable when a device plugin registers them.
        """
        amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
        if gpus:
            amounts["nvidia.com/gpu"] = str(gpus)
        known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}
        node = {
            "metadata": {"name": name, "labels": known},
            "spec": {"taints": list(taints)} if taints else {},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        set_condition(node, "Ready", "True", "KubeletReady", "kubelet is posting ready status")
        with self._store.changed:
            self._settings.lost_nodes.discard(name)
            self._settings.pulled = {one for one in self._settings.pulled if one[0] != name}
            self._device_plugins.cards[name] = hidden_gpus
            self._store.insert("nodes", node)

    def remove_node(self, name: str) -> None:
        """The pool deletes a machine: its pods are killed, and its node object is deleted."""
        self.lose_node(name, unknown_seconds=0.0, evict_seconds=0.0, remove_seconds=0.0)

    def lose_node(
        self,
        name: str,
        *,
        unknown_seconds: float = 0.1,
        evict_seconds: float = 0.1,
        remove_seconds: float = 0.1,
    ) -> None:
        """A machine fails: all its processes are killed at once.

        After `unknown_seconds` its node is unreachable, after `evict_seconds` more the taint
        manager deletes its pods, after `remove_seconds` more the cloud has removed the node and
        its pods are Failed. Real clusters take about 40 s, 5 min and as long as their cloud does.
        """
        self._kubelets.lose(name)
        unknown = time.monotonic() + unknown_seconds
        evicted = unknown + evict_seconds
        self._nodes.lose(name, Loss(unknown, evicted, evicted + remove_seconds))

    def reclaim_node(self, name: str, *, notice_seconds: float = 1.0) -> None:
        """The cloud preempts a spot machine: SIGTERM to its pods, and deletion after the notice."""
        text = "Pod was terminated in response to imminent node shutdown."
        with self._store.changed:
            node = self._store.get("nodes", None, name)
            node["spec"].setdefault("taints", []).append({"key": NOT_READY, "effect": "NoSchedule"})
            set_condition(node, "Ready", "False", "KubeletNotReady", "node is shutting down")
            self._store.replace("nodes", node)
            for pod in self._store.select("pods"):
                if pod["spec"].get("nodeName") == name and not is_over(pod):
                    reason = "TerminationByKubelet"
                    set_condition(pod, "DisruptionTarget", "True", reason, text)
                    self._store.replace("pods", pod)
                    if worker := self._kubelets.workers.get(pod["metadata"]["uid"]):
                        worker.terminate(notice_seconds)
        gone = {"unknown_seconds": 0.0, "evict_seconds": 0.0, "remove_seconds": 0.1}
        timer = threading.Timer(notice_seconds, self.lose_node, (name,), gone)
        timer.daemon = True
        timer.start()

    # Pods.

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        uid = self._store.get("pods", namespace, pod)["metadata"]["uid"]
        return self.wait_for(lambda: self._kubelets.workers.get(uid))

    def evict(self, namespace: str, pod: str) -> None:
        """What `kubectl drain` and descheduling do: SIGTERM, with the pod's grace."""
        self._api.evict(KINDS["pods"], namespace, pod, {})

    def evict_under_pressure(
        self, namespace: str, pod: str, resource: str = "ephemeral-storage"
    ) -> None:
        """The kubelet ends a pod because its node is low on a resource; the Failed object stays.

        https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/ (read 2026-11-25)
        """
        text = (
            f"The node was low on resource: {resource}. Threshold quantity: 1Gi, available: 9Mi. "
        )
        worker = self._worker(namespace, pod)
        with self._store.changed:
            worker.abandon()
            found = self._store.get("pods", namespace, pod)
            set_condition(found, "DisruptionTarget", "True", "TerminationByKubelet", text)
            found["status"] |= {"phase": "Failed", "reason": "Evicted", "message": text}
            self._store.replace("pods", found)

    def registry(self, *, is_away: bool) -> None:
        """Nodes get no image that they do not have, or get them again."""
        self._settings.registry_is_away = is_away

    def oom(self, namespace: str, pod: str, container: str | None = None) -> None:
        """Kills a container as the kernel does when memory is at its limit."""
        found = self._worker(namespace, pod).container(container)
        found.reason = "OOMKilled"
        if found.process:
            found.process.kill()

    def freeze(self, namespace: str, pod: str, container: str | None = None) -> None:
        """Stops all processes of a container (SIGSTOP)."""
        if process := self._worker(namespace, pod).container(container).process:
            process.freeze()

    def thaw(self, namespace: str, pod: str, container: str | None = None) -> None:
        if process := self._worker(namespace, pod).container(container).process:
            process.thaw()

    def kill(
        self, namespace: str, pod: str, number: signal.Signals, container: str | None = None
    ) -> list[int]:
        """Sends a signal to what a container's first process started; returns their ids."""
        process = self._worker(namespace, pod).container(container).process
        return process.signal_children(number) if process else []

    # Between clients and the API.

    def away(self, seconds: float) -> None:
        """The API server is unreachable for a while; pods keep running."""
        self._store.is_away = True
        self._server.stop()
        timer = threading.Timer(seconds, self._return)
        timer.daemon = True
        timer.start()

    def _return(self) -> None:
        with self._store.changed:
            if not self._store.closed:
                self._server.start()
            self._store.is_away = False
            self._store.revision += 1
            self._store.changed.notify_all()

    def cut_watches(self) -> None:
        """All open watches end in the middle, as load balancers do it."""
        self._reading.cut_watches()

    def forget_history(self) -> None:
        """A watch from an earlier resourceVersion gets 410."""
        self._store.compact()

    def answer(
        self,
        code: int,
        *,
        method: str = "*",
        path: str = "",
        times: int = 1,
        retry_after_seconds: int | None = None,
    ) -> None:
        """Answers the next requests whose method and path (a regular expression) match with `code`.

        With code 0 the connection is reset instead. Nothing is done for them.
        """
        self._faults.plan(Fault(method, path, code, times, retry_after_seconds))

    def lose_answer(self, *, method: str = "*", path: str = "", times: int = 1) -> None:
        """Handles the next matching requests, and resets the connection before the answer."""
        self._faults.plan(Fault(method, path, 0, times, acts=True))
