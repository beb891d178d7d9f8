"""The life of one pod on its node, from volumes to the last status."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes import images, volumes
from emulators.kubernetes.container import KILLED, Container
from emulators.kubernetes.controller import record_event
from emulators.kubernetes.health import Health, Probed
from emulators.kubernetes.image_pull_errors import (
    DENIED,
    NOT_FOUND,
    UNAVAILABLE,
    cannot_pull,
    cannot_start,
)
from emulators.kubernetes.logs import log_of
from emulators.kubernetes.pod_status import describe, phase_of
from emulators.kubernetes.store import now

if TYPE_CHECKING:
    from pathlib import Path

    from emulators.kubernetes.container import Starter
    from emulators.kubernetes.kubelet import Settings
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
TRY_AGAIN_SECONDS = 0.1
MOST_BACKOFF_SECONDS = 2.0


class Ended(NamedTuple):
    container: Container
    process: int
    code: int


class Terminate(NamedTuple):
    grace_seconds: float


class PodWorker(threading.Thread):
    """Handles messages one by one; no other thread changes its state."""

    def __init__(
        self, store: Store, pod: Object, root: Path, settings: Settings, starter: Starter
    ) -> None:
        super().__init__(daemon=True, name=f"pod {pod['metadata']['name']}")
        self._store, self._pod, self._root = store, pod, root
        self._settings, self._starter = settings, starter
        self._inbox: queue.SimpleQueue[Ended | Terminate | Probed] = queue.SimpleQueue()
        self._health = Health(store, pod, settings.probe_scale, self._inbox.put)
        self._kill_at: float | None = None
        self._ending = False
        self._abandoned = False
        self._folders: dict[str, Path] = {}
        self._started_at = now()
        spec = pod["spec"]
        self._policy = spec["restartPolicy"]
        self._initial = [Container(one, initial=True) for one in spec.get("initContainers") or []]
        self._main = [Container(one, initial=False) for one in spec["containers"]]

    @property
    def containers(self) -> list[Container]:
        return [*self._initial, *self._main]

    def container(self, name: str | None) -> Container:
        """Returns a container by name, or the first."""
        return next(one for one in self.containers if name in {None, one.name} and not one.initial)

    def terminate(self, grace_seconds: float) -> None:
        self._inbox.put(Terminate(grace_seconds))

    def abandon(self) -> None:
        """Kills all containers and writes no status any more: the node is lost."""
        self._abandoned = True
        for one in self.containers:
            if one.process:
                one.process.kill()
        self._inbox.put(Terminate(0))

    def run(self) -> None:
        try:
            self._live()
        except Exception as error:
            self._store.troubles.append(error)
            raise
        finally:
            for one in self.containers:
                for prober in one.probers:
                    prober.stop()
                if one.process and one.process.is_alive:
                    one.process.kill()

    def _live(self) -> None:
        if self._initial:
            for one in self._main:
                one.wait("PodInitializing")
        while not self._ending and not self._get_volumes():
            self._turn(TRY_AGAIN_SECONDS)
        for one in self._initial:
            if not self._run_to_end(one):
                break
        else:
            for one in self._main:
                self._start(one)
            self._report()
            while any(not self._is_done(one) for one in self._main):
                self._turn()
                self._restart()
        self._finish()

    def _get_volumes(self) -> bool:
        try:
            self._folders = volumes.prepare(self._store, self._pod, self._root)
        except volumes.NotReady as missing:
            record_event(self._store, self._pod, missing.reason, missing.message, kind="Warning")
            self._report()
            return False
        return True

    def _run_to_end(self, container: Container) -> bool:
        """Runs an init container; returns whether the next may follow."""
        while not self._ending:
            self._start(container)
            self._report()
            while not self._is_done(container):
                self._turn()
            if not container.exit_code:
                return not self._ending
            if self._policy == "Never":
                return False
            container.restart_count += 1
            self._turn(self._backoff(container))
        return False

    def _start(self, container: Container) -> None:
        """Starts a container, as soon as its image and the objects that it refers to exist."""
        log = self._log(container)
        log.parent.mkdir(parents=True, exist_ok=True)
        pulls = 0
        while not self._ending:
            image = images.find(self._settings.images, container.spec["image"])
            error = self._pull_error(image, container.spec["image"])
            if image is None or error:
                if cannot_pull(self._store, self._pod, container, pulls, error or NOT_FOUND):
                    self._report()
                pulls += 1
                self._turn(TRY_AGAIN_SECONDS)
                continue
            try:
                self._starter.start(
                    self._pod,
                    container,
                    image,
                    folders=self._folders,
                    log=log,
                    on_end=self._on_end(container),
                )
            except volumes.NotReady as missing:
                container.wait(missing.reason, missing.message)
                record_event(self._store, self._pod, "Failed", f"Error: {missing}", kind="Warning")
                self._report()
                self._turn(TRY_AGAIN_SECONDS)
                continue
            except OSError as error:
                log.touch()
                cannot_start(self._store, self._pod, container, error)
                return
            record_event(self._store, self._pod, "Started", f"Started container {container.name}")
            self._health.watch(container)
            return

    def _pull_error(self, image: images.Image | None, name: str) -> tuple[str, str] | None:
        """Returns why an image cannot be pulled; a node keeps those that it has pulled."""
        here = (self._pod["spec"]["nodeName"], name)
        if image is None or not images.may_pull(image, self._pod, self._store):
            return NOT_FOUND if image is None else DENIED
        if self._settings.registry_is_away and here not in self._settings.pulled:
            return UNAVAILABLE
        self._settings.pulled.add(here)
        return None

    def _on_end(self, container: Container) -> Any:
        return lambda code: self._inbox.put(Ended(container, container.restart_count, code))

    def _turn(self, seconds: float | None = None) -> None:
        """Waits for one message, at most so long, and acts on it."""
        if self._kill_at is not None:
            left = max(0.0, self._kill_at - time.monotonic())
            seconds = left if seconds is None else min(left, seconds)
        try:
            message = self._inbox.get(timeout=seconds)
        except queue.Empty:
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = None
                self._kill(self.containers)
            return
        if isinstance(message, Terminate):
            self._terminate(self.containers, message.grace_seconds)
            self._ending = True
        elif isinstance(message, Ended):
            if message.process == message.container.restart_count:
                message.container.end(message.code, self._log(message.container))
                message.container.restarts = self._runs_again(message.container)
                self._report()
        else:
            if container := self._health.judge(message):
                spec, probe = self._pod["spec"], container.spec[message.kind]
                grace = spec["terminationGracePeriodSeconds"]
                grace = probe.get("terminationGracePeriodSeconds", grace)
                self._terminate([container], grace)
            self._report()

    def _terminate(self, containers: list[Container], seconds: float) -> None:
        kill_at = time.monotonic() + seconds
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        if not self._ending and not self._abandoned:
            for one in containers:
                if one.is_running and one.process:
                    record_event(
                        self._store, self._pod, "Killing", f"Stopping container {one.name}"
                    )
                    one.process.terminate()

    @staticmethod
    def _kill(containers: list[Container]) -> None:
        for one in containers:
            if one.process and one.is_running:
                one.process.kill()

    def _is_done(self, container: Container) -> bool:
        if self._ending and not container.is_running:
            return True
        return container.has_ended and not container.restarts

    def _runs_again(self, container: Container) -> bool:
        if self._ending or container.initial or self._policy == "Never":
            return False
        return self._policy == "Always" or container.exit_code != 0

    def _restart(self) -> None:
        """Starts again what the restart policy says should run."""
        for one in self._main:
            if one.has_ended and one.restarts and not self._ending:
                one.last_state = one.state
                one.wait("CrashLoopBackOff", f"back-off restarting failed container {one.name}")
                self._report()
                self._turn(self._backoff(one))
                one.restart_count += 1
                one.started_up = "startupProbe" not in one.spec
                self._start(one)
                one.restarts = False
                self._report()

    def _backoff(self, container: Container) -> float:
        wait: float = self._settings.restart_backoff_seconds * 2**container.restart_count
        return min(wait, MOST_BACKOFF_SECONDS)

    def _finish(self) -> None:
        """Writes the final status; removes a deleted pod."""
        for one in self.containers:
            if one.process and one.process.is_alive and one.has_ended is False:
                one.process.kill()
            if self._ending and not one.has_ended and not one.initial:
                one.state = {"waiting": {}}
                one.reason = "ContainerStatusUnknown"
                one.end(KILLED, None)
        self._report()
        own = self._pod["metadata"]

        def let_go(found: Object) -> None:
            if "deletionTimestamp" in found["metadata"]:
                found["metadata"]["deletionGracePeriodSeconds"] = 0

        if not self._abandoned:
            self._store.wait_while_away()
            self._store.edit("pods", own["namespace"], own["name"], let_go, own["uid"])

    def _report(self) -> None:
        """Writes the pod's status; as the real kubelet, only through an API that is there."""
        self._store.wait_while_away()
        if self._abandoned or self._store.closed:
            return
        phase = phase_of(self._initial, self._main, self._policy, ending=self._ending)
        own = self._pod["metadata"]

        def write(found: Object) -> None:
            if found["status"]["phase"] not in {"Succeeded", "Failed"}:
                describe(found, self._initial, self._main, phase, self._started_at)

        self._store.edit("pods", own["namespace"], own["name"], write, own["uid"])

    def _log(self, container: Container) -> Path:
        return log_of(self._root, self._pod, container.name)
