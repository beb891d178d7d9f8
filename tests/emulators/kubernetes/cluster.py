"""One cluster: starts and stops all parts, and lets a test inspect, change and break it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from emulators.certificates import authority, write_certificates
from emulators.http import AnswerLost
from emulators.kubernetes.api import OF_REQUEST, Api
from emulators.kubernetes.containers import Image, PeerPorts, claim_folder, python_image
from emulators.kubernetes.controllers import (
    FLEX,
    REQUEST,
    TAINTS,
    answer_requests,
    collect_garbage,
    lose_node,
    schedule,
    show_devices,
)
from emulators.kubernetes.jobs import JobController
from emulators.kubernetes.kubelet import Kubelets
from emulators.kubernetes.objects import (
    KINDS,
    REASONS,
    Object,
    Refusal,
    Resource,
    Store,
    is_over,
    set_condition,
)
from emulators.kubernetes.server import ApiServer, Request, Rights

GANG = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
NOT_READY = "node.kubernetes.io/not-ready"
MOST_SECONDS, POLL_SECONDS, NEVER = 20.0, 0.05, float("inf")


class Cluster:
    """A running cluster. Methods return when the change is requested, not when it is complete.

    `token`, `evict`, `find`, `select`, `cut_watches` and `forget_history` are those of its parts.
    """

    def __init__(
        self,
        root: Path,
        images: Mapping[str, Image] | None = None,
        *,
        gang: bool = False,
        probe_scale: float = 1.0,
        backoff_scale: float = 0.01,
        enforces_policies: bool = True,
    ) -> None:
        """Starts all parts.

        Args:
            root: Holds the files of the cluster.
            images: By default `busybox:1` (programs of this machine) and `python:3`.
            gang: Serves scheduling.k8s.io/v1beta1.
            probe_scale: How many seconds a probe's second lasts.
            backoff_scale: How many seconds one of the Job controller's back-off lasts.
            enforces_policies: Without it the cluster has no policy engine: NetworkPolicy objects are stored
                and have no effect.
        """
        self.root = root
        known = {"busybox:1": Image(), "python:3": python_image()}
        self.images = dict(known if images is None else images)
        """Add to it, and pods that wait for an image start."""
        self.ca = root / "ca.crt"
        """The file of the authority that clients must trust."""
        self.ca.write_bytes(authority().certificate)
        store = self._store = Store((REQUEST, *([GANG] if gang else [])))
        self._api, self._rights = Api(store), Rights()
        peers = PeerPorts(store, enforces_policies=enforces_policies)
        self._kubelets = Kubelets(store, root, self.images, probe_scale, peers)
        self._cards: dict[str, int] = {}
        context = write_certificates(root).context()
        self._server = ApiServer(store, self._api, self._rights, context, self._kubelets)
        self._syncs: tuple[Callable[[], float | None], ...] = (
            JobController(store, self._api, backoff_scale).sync,
            partial(collect_garbage, store, self._api),
            partial(show_devices, store, self._cards),
            partial(answer_requests, store),
            partial(schedule, store),
            self._kubelets.sync,
        )
        self.token, self.evict = self._rights.token, self._api.evict
        self.find, self.select = store.find, store.select
        self.cut_watches, self.forget_history = self._api.cut_watches, store.compact
        self.claim_folder = partial(claim_folder, root)
        for name in ("default", "kube-system"):
            self.put("namespaces", {"metadata": {"name": name}})
        self._thread = threading.Thread(target=self._control, daemon=True)
        self._thread.start()

    def _control(self) -> None:
        """Runs all controllers after each change, and when one of them asks for it."""
        store, seen, again = self._store, 0, 0.0
        while not store.closed:
            with store.changed:
                left = max(0.0, min(again - time.monotonic(), 60.0))
                store.changed.wait_for(lambda seen=seen: store.revision != seen, left)
            store.wait_while_away()
            with store.changed:
                seen, again = store.revision, NEVER
                for sync in self._syncs:
                    if store.closed:
                        return
                    try:
                        again = min(again, sync() or NEVER)
                    except Refusal as refusal:
                        if refusal.code not in {404, 409}:
                            store.troubles.append(refusal)
                        again = time.monotonic() + 0.05
                    except Exception as error:  # the cluster reports it when it ends
                        store.troubles.append(error)
                        raise

    def close(self) -> None:
        """Ends all parts; raises their errors."""
        self._store.close()
        self._thread.join(MOST_SECONDS)
        self._kubelets.close()
        self._server.stop()
        if self._store.troubles:
            raise self._store.troubles[0]

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.port}"

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in the order of the answers."""
        return list(self._server.requests)

    def trust(self, authenticator: Callable[[str], str | None]) -> None:
        """Lets a cloud authenticate its tokens; its users may do everything."""
        self._rights.authenticator = authenticator

    def kubeconfig(self, path: Path, token: str | None = None) -> Path:
        """Writes a kubeconfig with one context, `test`."""
        there = {"server": self.url, "certificate-authority": str(self.ca)}
        context = {"cluster": "test", "user": "test", "namespace": "default"}
        user = {"token": token or self.token()}
        written = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
        for kind, value in (("cluster", there), ("context", context), ("user", user)):
            written[f"{kind}s"] = [{"name": "test", kind: value}]  # type: ignore[assignment]
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(written), encoding="utf-8")
        return path

    def put(self, plural: str | Resource, found: Object) -> None:
        kind = KINDS[plural] if isinstance(plural, str) else plural
        self._api.create(kind, found["metadata"].get("namespace"), found)

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

    # Nodes.

    def provide(self, request: str, labels: Mapping[str, str]) -> None:
        """Starts all nodes of a ProvisioningRequest at once, in a GKE pool whose nodes have `labels`."""
        (found,) = [one for one in self.select(REQUEST) if one["metadata"]["name"] == request]
        known = {FLEX: "true", OF_REQUEST: request, **labels}
        for number in range(found["spec"]["podSets"][0]["count"]):
            self.add_node(f"{request}-{number}", gpus=1, labels=known, taints=TAINTS)
        self.end_request(request, "Provisioned", "Provisioned", "all nodes are ready")

    def end_request(self, name: str, condition: str, reason: str, message: str) -> None:
        """Sets a condition of a ProvisioningRequest."""
        (found,) = [one for one in self.select(REQUEST) if one["metadata"]["name"] == name]
        set_condition(found, condition, "True", reason, message)
        self._store.replace(REQUEST, found)

    def add_node(
        self,
        name: str,
        *,
        gpus: int = 0,
        hidden_gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Object] = (),
        amounts: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a node that accepts pods at once; one that was lost is empty then.

        `hidden_gpus` are in the machine; they become allocatable when a device plugin registers them.
        """
        amounts = dict(amounts or {})
        amounts |= {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        amounts |= {"nvidia.com/gpu": str(gpus)} if gpus else {}
        known = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}
        node = {"metadata": {"name": name, "labels": known}, "spec": {"taints": [*taints]}}
        node["status"] = {"capacity": amounts, "allocatable": amounts}
        set_condition(node, "Ready", "True", "KubeletReady", "kubelet is posting ready status")
        with self._store.changed:
            self._kubelets.lost_nodes.discard(name)
            self._kubelets.pulled = {one for one in self._kubelets.pulled if one[0] != name}
            self._cards[name] = hidden_gpus
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
        seconds = (unknown_seconds, evict_seconds, remove_seconds)
        _later(0.0, partial(lose_node, self._store, self._api, name, *seconds))

    def reclaim_node(self, name: str, *, notice_seconds: float = 1.0) -> None:
        """The cloud preempts a spot machine: SIGTERM to its pods, and deletion after the notice."""
        text = "Pod was terminated in response to imminent node shutdown."
        with self._store.changed:
            node = self._store.get("nodes", None, name)
            node["spec"]["taints"].append({"key": NOT_READY, "effect": "NoSchedule"})
            set_condition(node, "Ready", "False", "KubeletNotReady", "node is shutting down")
            self._store.replace("nodes", node)
            for pod in self._store.select("pods"):
                if pod["spec"].get("nodeName") == name and not is_over(pod):
                    reason = "TerminationByKubelet"
                    set_condition(pod, "DisruptionTarget", "True", reason, text)
                    self._store.replace("pods", pod)
                    if run := self._kubelets.pods.get(pod["metadata"]["uid"]):
                        run.terminate(notice_seconds)
        gone = {"unknown_seconds": 0.0, "evict_seconds": 0.0, "remove_seconds": 0.1}
        _later(notice_seconds, partial(self.lose_node, name, **gone))

    # Pods.

    def _run(self, namespace: str, pod: str) -> Any:
        uid = self._store.get("pods", namespace, pod)["metadata"]["uid"]
        return self.wait_for(lambda: (run := self._kubelets.pods.get(uid)) and run.process and run)

    def evict_under_pressure(self, namespace: str, pod: str) -> None:
        """The kubelet ends a pod because its node is low on disk; the Failed object stays.

        https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/ (read 2026-11-25)
        """
        text = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 9Mi. "
        run = self._run(namespace, pod)
        with self._store.changed:
            run.abandon()
            found = self._store.get("pods", namespace, pod)
            set_condition(found, "DisruptionTarget", "True", "TerminationByKubelet", text)
            found["status"] |= {"phase": "Failed", "reason": "Evicted", "message": text}
            self._store.replace("pods", found)

    def registry(self, *, is_away: bool) -> None:
        """Nodes get no image that they do not have, or get them again."""
        self._kubelets.registry_is_away = is_away

    def freeze(self, namespace: str, pod: str) -> None:
        """Stops all processes of a container (SIGSTOP)."""
        self._run(namespace, pod).process.signal_all(signal.SIGSTOP)

    def kill(self, namespace: str, pod: str, number: signal.Signals) -> list[int]:
        """Sends a signal to what a container's first process started; returns their ids."""
        found: list[int] = self._run(namespace, pod).process.signal_children(number)
        return found

    # Between clients and the API.

    def away(self, seconds: float) -> None:
        """The API server is unreachable for a while; pods keep running."""
        self._store.is_away = True
        self._server.stop()
        _later(seconds, self._return)

    def _return(self) -> None:
        if not self._store.closed:
            self._server.start()
        self._store.is_away = False
        self._store.wake()

    def answer(self, code: int, *, path: str = "", times: int = 1) -> None:
        """Answers the next requests with `code` and does nothing; `path` is found in their method and path.

        Code 0 resets the connection.
        """
        error = Refusal(code, f"{REASONS[code]}, please try again later") if code else AnswerLost()
        self._server.faults.plan(path, error, times)

    def lose_answer(self, *, method: str = "", path: str = "") -> None:
        """Handles the next matching request, and resets the connection before the answer."""
        self._server.faults.plan(f"{method} .*{path}", AnswerLost(), acts=True)


def _later(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


@contextlib.contextmanager
def local_cluster(
    nodes: int = 1,
    gpus: int = 0,
    images: Mapping[str, Image] | None = None,
    *,
    root: Path,
    **options: Any,
) -> Iterator[Cluster]:
    """Runs a cluster with nodes `node-0`, `node-1`, ... of `gpus` each; `root` holds its files."""
    root = root / "cluster"
    root.mkdir(parents=True)
    cluster = Cluster(root, images, **options)
    try:
        for index in range(nodes):
            cluster.add_node(f"node-{index}", gpus=gpus)
        yield cluster
    finally:
        cluster.close()
