"""Images as local programs, containers as local processes, their environment and volumes, and ports of peers.

All pods share one loopback interface, so peer names are local ports. A pod that NetworkPolicy objects select
refuses what none of them allows, in each direction by itself
(https://kubernetes.io/docs/concepts/services-networking/network-policies/, read 2026-11-22). Rules by IP block or
namespace match no pod of the same namespace here.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from emulators.kubernetes.jobs import INDEX, index_of
from emulators.kubernetes.objects import Object, Store, has_labels, owned_by

MARK, PROC = "CLUSTER_CONTAINER", Path("/proc")
VARIABLE = re.compile(r"\$(\$|\((\w[\w.-]*)\))")
PEERS = "CLOUDGAN_PEERS"
TEMPLATE = re.compile(
    r"(?P<job>[a-z0-9-]+)-\{index\}\.(?P<service>[a-z0-9-]+)[a-z0-9.-]*:(?P<port>\d+)"
)
BLOCKED = "127.0.0.1:1"
"""Address of a peer that a NetworkPolicy keeps from a pod: no process listens there."""
FIRST, LAST = 20000, 32000  # below the range of ports that the system assigns itself
SOURCES = {"configMap": "configmaps", "secret": "secrets"}
WITH_TESTS = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
"""Ends a container when the tests are killed."""


class Image(NamedTuple):
    """An image that holds nothing but names for programs of this machine."""

    programs: Mapping[str, str] = {}
    """The first word of a command -> the program that runs; others are looked up in PATH."""
    env: Mapping[str, str] = {}
    """What the image sets; a manifest may override it."""
    appended: Mapping[str, str] = {}
    """Paths that come after those of the manifest, such as PYTHONPATH to the tested sources."""
    overridden: Mapping[str, str] = {}
    """What this machine sets in spite of the manifest."""


def python_image(*paths: Path | str, **env: str) -> Image:
    """Returns an image whose `python` is the interpreter that runs the tests, without a GPU.

    `paths` are searched for modules after the manifest's PYTHONPATH. It also replaces TensorFlow's
    public image for GPUs, whose TensorFlow registers none: it has cuDNN 8, and TensorFlow has needed
    cuDNN 9 since 2.18 (https://github.com/tensorflow/build/issues/221, read 2026-11-22).
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    appended = {"PYTHONPATH": os.pathsep.join(map(str, paths))} if paths else {}
    variables = {"PATH": path, "CUDA_VISIBLE_DEVICES": "-1", **env}
    return Image({"python": sys.executable, "python3": sys.executable}, variables, appended)


RCLONE = "rclone/rclone:1.75.1"


def rclone_image(**env: str) -> Image:
    """Returns an image with the shell of this machine and the rclone of the tests' environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    return Image({"sh": "/bin/sh"}, {"PATH": path, **env})


def with_gpus(image: Image) -> Image:
    """Returns an image with libraries that fit the GPUs; they are processors of this machine.

    TensorFlow counts no processor as a GPU, so the planned number is taken away.
    """
    return image._replace(overridden={**image.overridden, "CLOUDGAN_ACCELERATORS": "0"})


def find_image(images: Mapping[str, Image], reference: str) -> Image | None:
    """Finds an image by its reference, with or without digest and registry; `*` is any."""
    bare = reference.partition("@")[0]
    names = (reference, bare, bare.removeprefix("docker.io/"), "*")
    return next((images[name] for name in names if name in images), None)


class NotReady(Exception):
    """An object that a container needs does not exist yet; the kubelet tries again."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def _data(store: Store, kind: str, namespace: str, name: str) -> dict[str, bytes]:
    """Returns the entries of a ConfigMap or Secret."""
    found = store.find(SOURCES[kind], namespace, name)
    if found is None:
        raise NotReady("CreateContainerConfigError", f'{kind.lower()} "{name}" not found')
    entries = (found.get("data") or {}).items()
    if kind == "secret":
        return {key: base64.b64decode(value) for key, value in entries}
    return {key: value.encode() for key, value in entries}


def prepare_volumes(store: Store, pod: Object, root: Path) -> dict[str, Path]:
    """Returns a folder for each volume of a pod."""
    own, folders = pod["metadata"], {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        folder = root / "pods" / own["uid"] / "volumes" / name
        if claim := volume.get("persistentVolumeClaim"):
            folder = claim_folder(root, own["namespace"], claim["claimName"])
        folder.mkdir(parents=True, exist_ok=True)
        for kind in SOURCES.keys() & volume.keys():
            source = volume[kind]
            wanted = source.get("secretName") or source["name"]
            try:
                data = _data(store, kind, own["namespace"], wanted)
            except NotReady as error:
                text = f'MountVolume.SetUp failed for volume "{name}" : {error.message}'
                raise NotReady("FailedMount", text) from None
            for key, content in data.items():
                path = folder / key
                path.unlink(missing_ok=True)
                path.write_bytes(content)
                path.chmod(source.get("defaultMode", 0o644))
        folders[name] = folder
    return folders


def claim_folder(root: Path, namespace: str, name: str) -> Path:
    """Returns the folder of a claim: it outlives pods."""
    return root / "claims" / namespace / name


def _replacer(container: Object, folders: dict[str, Path]) -> Callable[[str], str]:
    """Returns a function that replaces a container's mount paths in a text by folders.

    A mount path counts where a path begins: not within a longer name, not within a URL's path.
    """
    mounts = container.get("volumeMounts") or ()
    places = {one["mountPath"].rstrip("/"): str(folders[one["name"]]) for one in mounts}
    if not places:
        return lambda text: text
    longest_first = sorted(map(re.escape, places), key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w./-])({'|'.join(longest_first)})(?![\w.-])")
    return lambda text: pattern.sub(lambda found: places[found[1]], text)


def _expand(text: str, known: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` where the name is known; `$$` is a dollar."""
    return VARIABLE.sub(
        lambda found: "$" if found[1] == "$" else known.get(found[2], found[0]), text
    )


def _variables(store: Store, pod: Object, container: Object) -> dict[str, str]:
    """Returns the variables of a container's `envFrom` and `env`."""
    namespace, found = pod["metadata"]["namespace"], {}
    for source in container.get("envFrom") or ():
        data = _data(store, "secret", namespace, source["secretRef"]["name"])
        found |= {key: value.decode() for key, value in data.items()}
    for entry in container.get("env") or ():
        source, name = entry.get("valueFrom"), entry["name"]
        if source is None:
            found[name] = _expand(entry.get("value") or "", found)
        elif reference := source.get("secretKeyRef"):
            data = _data(store, "secret", namespace, reference["name"])
            if reference["key"] not in data:
                where = f"in Secret {namespace}/{reference['name']}"
                text = f"couldn't find key {reference['key']} {where}"
                raise NotReady("CreateContainerConfigError", text)
            found[name] = data[reference["key"]].decode()
        else:  # only the Job controller's variable is from a field
            assert source["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
            found[name] = pod["metadata"]["labels"][INDEX]
    return found


class ContainerProcess:
    """One container's first process, in a session of its own; its other processes end with it.

    Processes that left the group are found by a mark in their environment, where there is /proc.
    """

    def __init__(self, words: list[str], env: Mapping[str, str], folder: Path, log: Path) -> None:
        self._mark = f"{folder}#{time.monotonic_ns()}"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*WITH_TESTS, *words],
                env={**env, MARK: self._mark},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def code(self) -> int | None:
        """Returns the exit code of a container that ended, and ends its other processes."""
        if (code := self._process.poll()) is None:
            return None
        for _ in range(200):  # one that was being started is found the next time
            if not self.signal_all(signal.SIGKILL):
                break
            time.sleep(0.01)
        return 128 - code if code < 0 else code

    def terminate(self) -> None:
        """Asks the first process to end, as a container's runtime does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def signal_children(self, number: signal.Signals) -> list[int]:
        """Sends a signal to the processes that the first one started itself; returns their ids."""
        children = [pid for pid in _processes() if _parent(pid) == self.pid]
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        return children

    def signal_all(self, number: signal.Signals) -> bool:
        """Signals the group and what left it; returns whether it found what had left."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, number)
        there, wanted = False, f"{MARK}={self._mark}".encode()
        for pid in _processes():
            with contextlib.suppress(OSError):
                if wanted in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                    os.kill(pid, number)
                    there = True
        return there


def start_process(
    store: Store,
    peers: PeerPorts,
    pod: Object,
    container: Object,
    image: Image,
    *,
    folders: dict[str, Path],
    log: Path,
) -> tuple[ContainerProcess, dict[int, int]]:
    """Starts a container; returns its process, and its ports as the manifest names them -> as they are.

    Raises:
        NotReady: An object is missing.
        OSError: There is no such program.
    """
    replaced = _replacer(container, folders)
    known = {name: replaced(one) for name, one in _variables(store, pod, container).items()}
    ports: dict[int, int] = {}
    if PEERS in known and (found := peers.resolve(pod, known[PEERS])):
        known[PEERS], ports = found
    folder = log.parent / container["name"]
    folder.mkdir(exist_ok=True)
    env = {"PATH": os.defpath, "HOME": str(folder), **image.env, **known, **image.overridden}
    env.setdefault("HOSTNAME", pod["spec"].get("hostname") or pod["metadata"]["name"])
    for name, paths in image.appended.items():
        env[name] = os.pathsep.join(filter(None, [env.get(name), paths]))
    # Replaced first: what is expanded was replaced already.
    words = [*container["command"], *(container.get("args") or ())]
    words = [_expand(replaced(word), known) for word in words]
    program = image.programs.get(words[0]) or shutil.which(words[0], path=env["PATH"])
    if program is None:
        raise FileNotFoundError(f'exec: "{words[0]}": executable file not found in $PATH')
    words[0] = program
    return ContainerProcess(words, env, folder, log), ports


def _processes() -> list[int]:
    return [int(folder.name) for folder in PROC.glob("[0-9]*")]


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        # The name in parentheses may hold anything, so count from its end.
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return 0


class PeerPorts:
    """Gives each job pairs of neighbouring free ports, once, so that a replaced pod keeps its own."""

    def __init__(self, store: Store, *, enforces_policies: bool) -> None:
        self._store, self._enforces = store, enforces_policies
        self._given: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def resolve(self, pod: Object, value: str) -> tuple[str, dict[int, int]] | None:
        """Returns the local addresses of a template in a pod, and the pod's own ports.

        None: DNS would have no such names.
        """
        found, namespace = TEMPLATE.fullmatch(value), pod["metadata"]["namespace"]
        jobs = [one for one in self._store.select("jobs", namespace) if owned_by([pod], one)]
        if not found or not jobs or found["job"] != jobs[0]["metadata"]["name"]:
            return None
        service = self._store.find("services", namespace, found["service"])
        if pod["spec"].get("subdomain") != found["service"] or not service:
            return None
        with self._lock:
            given = self._given.setdefault(jobs[0]["metadata"]["uid"], [])
            while len(given) < jobs[0]["spec"]["completions"]:
                given.append(free_pair(set().union(*self._given.values())))
        port, mine = int(found["port"]), given[index_of(pod) or 0]
        addresses = ",".join(
            f"127.0.0.1:{one}" if self._reaches(pod, index, port) else BLOCKED
            for index, one in enumerate(given)
        )
        return addresses, {port: mine, port + 1: mine + 1}

    def _reaches(self, pod: Object, index: int, port: int) -> bool:
        """Whether the policies of this moment let a pod connect to a pod of its job."""
        if not self._enforces or index == index_of(pod):
            return True
        own = pod["metadata"]
        peer = {"metadata": own | {"labels": own["labels"] | {INDEX: str(index)}}}
        policies = self._store.select("networkpolicies", own["namespace"])
        return _allows(policies, peer, pod, "ingress", port) and _allows(
            policies, pod, peer, "egress", port
        )


def _allows(
    policies: list[Object], selected: Object, other: Object, direction: str, port: int
) -> bool:
    selecting = [
        one["spec"].get(direction) or ()
        for one in policies
        if direction.capitalize() in one["spec"]["policyTypes"]
        and has_labels(one["spec"]["podSelector"], selected)
    ]
    key = "from" if direction == "ingress" else "to"
    return not selecting or any(
        all(one.get("port") == port for one in rule.get("ports") or ())
        and any(
            set(one) == {"podSelector"} and has_labels(one["podSelector"], other)
            for one in rule.get(key) or [{"podSelector": {}}]
        )
        for rules in selecting
        for rule in rules
    )


def free_pair(taken: set[int]) -> int:
    """Returns a port that is free together with the next one."""
    while True:
        port = FIRST + 2 * secrets.randbelow((LAST - FIRST) // 2)
        if port not in taken and _is_free(port) and _is_free(port + 1):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
