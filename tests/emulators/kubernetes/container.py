"""One container of a pod: its state, and how its process is started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulators.kubernetes import environment, volumes
from emulators.kubernetes.ports import PEERS
from emulators.kubernetes.processes import ContainerProcess
from emulators.kubernetes.store import now

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulators.kubernetes.images import Image
    from emulators.kubernetes.ports import PeerPorts
    from emulators.kubernetes.probes import Prober
    from emulators.kubernetes.processes import ProcessReaper
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
MOST_MESSAGE_BYTES = 2048
KILLED, CANNOT_START = 137, 128


class Container:
    """The kubelet's state of a container."""

    def __init__(self, spec: Object, *, initial: bool) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.initial = initial
        self.state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self.last_state: Object = {}
        self.restart_count = 0
        self.restarts = False
        """Has ended, and will be started again."""
        self.reason = ""
        """Reason of the kill, if any."""
        self.process: ContainerProcess | None = None
        self.ports: dict[int, int] = {}
        self.probers: list[Prober] = []
        self.probed_ready = "readinessProbe" not in spec
        self.started_up = "startupProbe" not in spec

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    @property
    def has_ended(self) -> bool:
        return "terminated" in self.state

    @property
    def was_started(self) -> bool:
        return self.process is not None or self.has_ended

    @property
    def exit_code(self) -> int:
        return int(self.state.get("terminated", {}).get("exitCode", 0))

    @property
    def is_ready(self) -> bool:
        return self.is_running and self.probed_ready and self.started_up

    def wait(self, reason: str, message: str = "") -> None:
        self.state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}

    def end(self, code: int, log: Path | None) -> None:
        """Records that the process ended."""
        reason = self.reason or ("Error" if code else "Completed")
        began = self.state.get("running", {}).get("startedAt") or now()
        outcome = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now()}
        if code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError" and log:
            tail = log.read_bytes()[-MOST_MESSAGE_BYTES:]
            outcome["message"] = tail.decode(errors="replace")
        outcome["containerID"] = self._id
        self.state = {"terminated": outcome}
        self.reason = ""
        for prober in self.probers:
            prober.stop()

    @property
    def _id(self) -> str:
        return f"local://{self.process.pid}" if self.process else ""

    def status(self) -> Object:
        """Returns its entry in the pod's status."""
        outcome = {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": f"local/{self.spec['image']}" if self.was_started else "",
            "ready": self.is_ready or (self.initial and self.has_ended and not self.exit_code),
            "started": self.is_running and self.started_up,
            "restartCount": self.restart_count,
            "state": self.state,
            "lastState": self.last_state,
        }
        return outcome | ({"containerID": self._id} if self.process else {})

    def port(self, named: int | str) -> int:
        """Returns the local port that a probe of the manifest means."""
        if isinstance(named, str) and not named.isdecimal():
            ports = self.spec.get("ports") or []
            named = next(one["containerPort"] for one in ports if one["name"] == named)
        return self.ports.get(int(named), int(named))


class Starter:
    """Starts containers: manifest in, process out."""

    def __init__(self, store: Store, ports: PeerPorts, reaper: ProcessReaper) -> None:
        self._store, self._ports, self._reaper = store, ports, reaper

    def start(
        self,
        pod: Object,
        container: Container,
        image: Image,
        *,
        folders: dict[str, Path],
        log: Path,
        on_end: Callable[[int], None],
    ) -> None:
        """Starts a container's process. NotReady: something is missing; OSError: no such program."""
        spec = container.spec
        replaced = volumes.replacer(spec, folders)
        own = environment.variables(self._store, pod, spec)
        known = {name: replaced(value) for name, value in own.items()}
        if PEERS in known and (peers := self._ports.resolve(pod, own[PEERS])):
            known[PEERS], container.ports = peers.addresses, peers.ports
        folder = log.parent / container.name
        folder.mkdir(exist_ok=True)
        env = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"],
            **image.env,
            **known,
            **image.overridden,
        }
        for name, paths in image.appended.items():
            env[name] = os.pathsep.join(filter(None, [env.get(name), paths]))
        words = [*(spec.get("command") or image.entrypoint), *(spec.get("args") or [])]
        # Replaced first: what is expanded was replaced already.
        words = [environment.expand(replaced(word), known) for word in words]
        words[:1] = [_program(words[0], image, env["PATH"])] if words else [_nothing()]
        cwd = Path(replaced(spec["workingDir"])) if "workingDir" in spec else folder
        container.process = ContainerProcess(
            words, env, cwd, log=log, reaper=self._reaper, on_end=on_end
        )
        container.state = {"running": {"startedAt": now()}}


def _program(word: str, image: Image, path: str) -> str:
    found = image.programs.get(word) or shutil.which(word, path=path)
    if found is None:
        raise FileNotFoundError(f'exec: "{word}": executable file not found in $PATH')
    return found


def _nothing() -> str:
    raise FileNotFoundError("no command specified")
