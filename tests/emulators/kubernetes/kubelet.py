"""The kubelets of all nodes: the life of each pod, from volumes to the last status.

A pod has one container besides its init containers, and restarts none: all Jobs of cloudgan say so.
"""

from __future__ import annotations

import hashlib
import http.client
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from emulators.kubernetes.containers import (
    ContainerProcess,
    Image,
    NotReady,
    PeerPorts,
    find_image,
    prepare_volumes,
    start_process,
)
from emulators.kubernetes.exec import log_of
from emulators.kubernetes.objects import Object, Store, is_deleted, is_over, now, set_condition

TRY_AGAIN_SECONDS, POLL_SECONDS = 0.1, 0.02
NEVER = float("inf")
MOST_MESSAGE_BYTES = 2048
KILLED, CANNOT_START = 137, 128
# gRPC status and words of containerd, as in its issues and https://github.com/apache/airflow/issues/65490.
NOT_FOUND = "NotFound", "not found"
UNAVAILABLE = "Unavailable", "unexpected status from HEAD request: 503 Service Unavailable"


@dataclass
class Kubelets:
    """Starts and ends pods as their objects in the API require."""

    store: Store
    root: Path
    images: dict[str, Image]
    probe_scale: float
    peers: PeerPorts
    pods: dict[str, PodRun] = field(default_factory=dict)
    lost_nodes: set[str] = field(default_factory=set)
    registry_is_away: bool = False
    pulled: set[tuple[str, str]] = field(default_factory=set)
    """Nodes and the images that they have."""

    def sync(self) -> None:
        there = {}
        for pod in self.store.select("pods"):
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            there[uid] = pod
            if node is None or node in self.lost_nodes:
                continue
            if uid not in self.pods and not is_over(pod):
                self.pods[uid] = PodRun(self, pod)
                self.pods[uid].start()
            if is_deleted(pod) and uid in self.pods:
                self.pods[uid].terminate(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        for uid in self.pods.keys() - there.keys():
            self.pods[uid].terminate(0)

    def lose(self, name: str) -> None:
        """Kills everything on a node at once, without a status update."""
        with self.store.changed:
            self.lost_nodes.add(name)
            for one in self.pods.values():
                if one.node == name:
                    one.abandon()

    def close(self) -> None:
        """Kills all containers."""
        for one in self.pods.values():
            one.abandon()
        for one in self.pods.values():
            one.join(10)


class PodRun(threading.Thread):
    """One pod on its node; other threads only ask it to end."""

    def __init__(self, kubelets: Kubelets, pod: Object) -> None:
        super().__init__(daemon=True, name=f"pod {pod['metadata']['name']}")
        self._of, self._store, self._pod = kubelets, kubelets.store, pod
        self.node = pod["spec"]["nodeName"]
        self._wake = threading.Event()
        self._kill_at = NEVER
        self._ending = self._abandoned = False
        self.process: ContainerProcess | None = None
        self._ports: dict[int, int] = {}
        self._started_at, self._phase = now(), "Pending"
        spec = pod["spec"]
        why = "ContainerCreating"
        self._initial = [_status(one, why) for one in spec.get("initContainers", ())]
        (container,) = spec["containers"]
        self._main = _status(container, "PodInitializing" if self._initial else why)

    def terminate(self, grace_seconds: float) -> None:
        self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)
        self._ending = True
        self._wake.set()

    def abandon(self) -> None:
        """Kills all containers and writes no status any more: the node is lost."""
        self._abandoned = True
        self.kill()
        self.terminate(0)

    def kill(self) -> None:
        if self.process:
            self.process.signal_all(signal.SIGKILL)

    def run(self) -> None:
        try:
            self._live()
        except Exception as error:
            self._store.troubles.append(error)
            raise
        finally:
            self.kill()

    def _live(self) -> None:
        self._report()
        folders = self._until_ready(lambda: prepare_volumes(self._store, self._pod, self._of.root))
        spec = self._pod["spec"]
        steps = [*zip(spec.get("initContainers", ()), self._initial, strict=True)]
        for container, status in (*steps, (spec["containers"][0], self._main)):
            if self._ending or self._run(container, status, folders or {}):
                break
        self._finish()

    def _pause(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _until_ready(self, get: Callable[[], object], status: Object | None = None) -> object:
        """Returns what a function does, as soon as the objects that it needs exist; None: the pod ends."""
        while not self._ending:
            try:
                return get()
            except NotReady as missing:
                if status is not None:
                    waiting = {"reason": missing.reason, "message": missing.message}
                    status["state"] = {"waiting": waiting}
                self._warn("Failed" if status else missing.reason, missing.message)
                self._report()
                self._pause(TRY_AGAIN_SECONDS)
        return None

    def _warn(self, reason: str, message: str) -> None:
        self._store.record_event(self._pod, reason, message)

    def _run(self, container: Object, status: Object, folders: dict[str, Path]) -> int:
        """Runs a container to its end; returns its exit code."""
        log = log_of(self._of.root, self._pod, container["name"])
        log.parent.mkdir(parents=True, exist_ok=True)

        def start() -> tuple[ContainerProcess, dict[int, int]]:
            image = self._pull(container["image"])
            fixed = (self._store, self._of.peers, self._pod, container, image)
            return start_process(*fixed, folders=folders, log=log)

        began = now()
        try:
            started = self._until_ready(start, status)
        except OSError as error:
            log.touch()
            text = f"failed to create containerd task: unable to start container process: {error}"
            self._warn("Failed", f"Error: {text}")
            return _end(status, began, CANNOT_START, "StartError", text)
        if started is None:
            return KILLED
        process, self._ports = self.process, _ = started  # type: ignore[misc]
        status |= {"state": {"running": {"startedAt": began}}, "ready": status is self._main}
        status["containerID"] = f"local://{process.pid}"
        status["imageID"] = _image_id(container["image"])
        if status is self._main:
            self._phase = "Running"
        self._report()
        code = self._watch(process, container)
        status["ready"] = status is not self._main and not code
        text = ""
        if code and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = log.read_bytes()[-MOST_MESSAGE_BYTES:].decode(errors="replace")
        return _end(status, began, code, "Error" if code else "Completed", text)

    def _pull(self, name: str) -> Image:
        image = find_image(self._of.images, name)
        is_pulled = (self.node, name) in self._of.pulled
        if image and (is_pulled or not self._of.registry_is_away):
            self._of.pulled.add((self.node, name))
            return image
        code, text = UNAVAILABLE if image else NOT_FOUND
        said = f'failed to pull and unpack image "{name}": failed to resolve reference: {text}'
        raise NotReady("ErrImagePull", f"rpc error: code = {code} desc = {said}")

    def _watch(self, process: ContainerProcess, container: Object) -> int:
        """Waits for the end of a container: asks it, kills it, and probes it; returns its exit code."""
        probe, scale = container.get("livenessProbe"), self._of.probe_scale
        start = time.monotonic() + (probe or {}).get("initialDelaySeconds", 0) * scale
        probe_at, failures, is_told = start if probe else NEVER, 0, False
        while (code := process.code()) is None:
            self._pause(POLL_SECONDS)
            if self._ending and not is_told and not self._abandoned:
                is_told = True
                process.terminate()
            if time.monotonic() >= self._kill_at:
                self._kill_at = NEVER
                process.signal_all(signal.SIGKILL)
            if probe and time.monotonic() >= probe_at:
                probe_at = time.monotonic() + probe["periodSeconds"] * scale
                failures = 0 if self._answers(probe) else failures + 1
                if failures == probe["failureThreshold"]:
                    self._warn("Unhealthy", f"Liveness probe failed; container {container['name']}")
                    process.terminate()
                    grace = self._pod["spec"]["terminationGracePeriodSeconds"]
                    self._kill_at = min(self._kill_at, time.monotonic() + grace)
        return code

    def _answers(self, probe: Object) -> bool:
        """Whether the HTTP server of a container answers its probe."""
        request = probe["httpGet"]
        seconds = max(0.05, probe["timeoutSeconds"] * self._of.probe_scale)
        port = self._ports.get(request["port"], request["port"])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
        try:
            connection.request("GET", request["path"])
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _finish(self) -> None:
        """Writes the final status; removes a deleted pod."""
        statuses = (*self._initial, self._main)
        if self._ending and "terminated" not in self._main["state"]:
            _end(self._main, now(), KILLED, "ContainerStatusUnknown", "")
        codes = [one["state"].get("terminated", {}).get("exitCode", 0) for one in statuses]
        self._phase = "Failed" if any(codes) else "Succeeded"
        self._report()

        def let_go(found: Object) -> None:
            if is_deleted(found):
                found["metadata"]["deletionGracePeriodSeconds"] = 0

        if not self._abandoned:
            self._store.wait_while_away()
            self._store.edit("pods", self._pod, let_go)

    def _report(self) -> None:
        """Writes the pod's status; as the real kubelet, only through an API that is there."""
        self._store.wait_while_away()
        if not self._abandoned and not self._store.closed:
            self._store.edit("pods", self._pod, self._describe)

    def _describe(self, found: Object) -> None:
        if is_over(found):
            return
        status = found["status"]
        status |= {"phase": self._phase, "startTime": self._started_at}
        if self._initial:
            status["initContainerStatuses"] = self._initial
        status["containerStatuses"] = [self._main]
        set_condition(found, "Ready", str(self._main["ready"]))


def _status(container: Object, why: str) -> Object:
    own = {"name": container["name"], "image": container["image"], "imageID": "", "ready": False}
    return own | {"restartCount": 0, "state": {"waiting": {"reason": why}}}


def _image_id(reference: str) -> str:
    """Returns what containerd reports: the name without its tag, and the digest that it pulled."""
    tagged, at, digest = reference.partition("@")
    name, colon, tag = tagged.rpartition(":")
    digest = digest if at else f"sha256:{hashlib.sha256(reference.encode()).hexdigest()}"
    return f"{name if colon and '/' not in tag else tagged}@{digest}"


def _end(status: Object, began: str, code: int, reason: str, message: str) -> int:
    """Records that a container ended; returns its exit code."""
    ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now()}
    status["state"] = {"terminated": ended | ({"message": message} if message else {})}
    return code
