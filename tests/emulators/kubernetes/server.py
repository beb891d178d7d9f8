"""The HTTPS server in front of the API: routes, permissions, logs, `exec`, and faults on request.

The channels of `exec` are those of v4.channel.k8s.io and v5.channel.k8s.io: a first byte 0 to 4 for stdin,
stdout, stderr, the Status at the end, and the size of the terminal; stdin needs a terminal here
(k8s.io/apimachinery/pkg/util/remotecommand/constants.go and k8s.io/kubelet/pkg/cri/streaming/remotecommand/
websocket.go, read 2026-11-22). The refusals are those of pkg/registry/core/pod/strategy.go and the kubelet.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import ssl
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from websocket import ABNF, WebSocket, WebSocketException

from emulators.faults import Faults
from emulators.http import Answer, AnswerLost, Asked, HttpServer
from emulators.kubernetes.api import Api
from emulators.kubernetes.objects import Object, Refusal, Resource, at, is_over
from emulators.kubernetes.ports import free_pair
from emulators.kubernetes.rights import Question, Rights
from emulators.kubernetes.store import Store

OBJECTS = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>log|exec|eviction))?/?$"
)
VERBS = {
    ("GET", True): "get",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
    ("GET", False): "list",
    ("POST", False): "create",
}
"""By method, and whether the path names an object."""
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TRUE = {"true", "True", "1"}
STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
ACCEPTED = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


class Request(NamedTuple):
    """One request as it was answered. `status` 0: the connection was cut instead."""

    method: str
    path: str
    """With its query."""
    status: int


class ApiServer:
    """Serves on one port of loopback, with pauses on request."""

    def __init__(
        self, store: Store, api: Api, rights: Rights, context: ssl.SSLContext, kubelets: Any
    ) -> None:
        self.store, self.api, self.rights = store, api, rights
        self.requests: list[Request] = []
        self.faults = Faults()
        self._context, self._kubelets = context, kubelets
        self.port = free_pair(set())  # stays reserved while the server is away
        self.start()

    def start(self) -> None:
        self._server = HttpServer(self._answer, self._context, port=self.port)

    def stop(self) -> None:
        """Refuses new connections and resets those that are open."""
        self._server.close()
        self._server.reset()

    def _answer(self, asked: Asked) -> Answer:
        try:
            answer = self._serve(asked)
        except Refusal as refusal:
            answer = Answer(refusal.code, refusal.body)
        except AnswerLost:
            self.requests.append(Request(asked.method, asked.target, 0))
            raise
        except Exception as error:
            self.store.troubles.append(error)
            raise
        # Before the answer is sent, so that a client with the answer finds it there.
        self.requests.append(Request(asked.method, asked.target, answer.status))
        return answer

    def _serve(self, asked: Asked) -> Answer:
        """Answers as the API does, or with the planned fault of this request."""
        fault = self.faults.meet(f"{asked.method} {urlsplit(asked.target).path}")
        if fault and not fault.acts:
            raise fault.error
        answer = self._ask(asked, json.loads(asked.body) if asked.body else None)
        if fault:
            raise fault.error
        return answer

    def _ask(self, asked: Asked, body: Any) -> Answer:
        """Finds object and verb of a request, checks the permission and acts."""
        method, (_, _, path, search, _) = asked.method, urlsplit(asked.target)
        words = parse_qs(search)
        query = {name: values[-1] for name, values in words.items()}
        who = self.rights.who(asked.headers.get("Authorization"))
        if method == "GET" and (known := _groups(self.store.resources).get(path)):
            return Answer(200, known)
        if (method, path) == ("POST", REVIEWS):
            return Answer(201, self.rights.review(who, body))
        found = OBJECTS.match(path)
        of = {name: text or "" for name, text in (found.groupdict() if found else {}).items()}
        kinds = {one[:3]: one for one in self.store.resources}
        kind = of and kinds.get((of["group"], of["version"] or "v1", of["plural"]))
        if not kind:
            raise Refusal(404, "the server could not find the requested resource")
        namespace, name, part = of["namespace"], of["name"], of["part"]
        verb = "create" if part == "eviction" else VERBS.get((method, bool(name)))
        if verb is None:
            raise Refusal(405, "the server does not allow this method on the requested resource")
        if verb == "list" and query.get("watch") in TRUE:
            verb = "watch"
        # A namespace is an object of the cluster, but rights on it are those within it.
        place = name if kind.plural == "namespaces" else namespace
        # Since 1.35 exec requires `create`, too, whatever the method (kubernetes/pull/134577).
        for one in (verb, "create") if part == "exec" else (verb,):
            question = Question(one, kind.group, kind.plural, part, place, name)
            self.rights.require(who, question, kind)
        if part == "exec":
            return ExecSession(self.store, namespace, name, words).answer(asked)
        if part == "log":
            return Answer(200, self._read_log(namespace, name, query))
        if verb == "watch":
            return Answer(200, self.api.watch(kind, namespace or None, query))
        if verb == "patch" and "merge-patch+json" not in asked.headers.get("Content-Type", ""):
            raise Refusal(415, "the double knows JSON merge patches only")
        known = self._act(verb, kind, (namespace, name), query, body)
        return Answer(201 if verb == "create" else 200, known)

    def _act(
        self, verb: str, kind: Resource, of: tuple[str, str], query: Object, body: Any
    ) -> Object:
        api, (namespace, name) = self.api, of
        if verb == "list":
            return api.list(kind, namespace or None, query.get("labelSelector", ""))
        if verb == "get":
            return self.store.get(kind, namespace, name)
        if verb == "create":
            return api.evict(namespace, name) if name else api.create(kind, namespace, body)
        if verb == "delete":
            return api.delete(kind, namespace, name, {**query, **(body or {})})
        return api.patch(kind, namespace, name, body)

    def _read_log(self, namespace: str, name: str, query: dict[str, str]) -> Iterator[bytes]:
        """Yields the log of a container, by lines with a time; refuses when there is none yet."""
        pod = self.store.get("pods", namespace, name)
        container, node = query["container"], pod["spec"].get("nodeName")
        if node in self._kubelets.lost_nodes:
            where = f"https://{node}:10250/containerLogs/{namespace}/{name}/{container}"
            raise Refusal(500, f'Get "{where}": dial tcp: connect: no route to host')
        state = _state_of(pod, container)
        if not node or "waiting" in state or not state:
            why = at(state, "waiting", "reason", default="ContainerCreating")
            text = f'container "{container}" in pod "{name}" is waiting to start: {why}'
            raise Refusal(400, text)
        started = at(state, "running", "startedAt") or state["terminated"]["startedAt"]
        log = log_of(self._kubelets.root, pod, container)
        lines = self._lines(pod, container, log, follow=query.get("follow") in TRUE)
        # The container's start and the number of the line: the same whenever it is read.
        time_of = f"{started.removesuffix('Z')}.{{:09}}Z ".format
        return (time_of(number).encode() + line for number, line in enumerate(lines))

    def _lines(self, pod: Object, container: str, path: Path, *, follow: bool) -> Iterator[bytes]:
        with path.open("rb") as log:
            rest = b""
            while True:
                ended = not follow or self._has_ended(pod, container)
                while line := log.readline():
                    rest += line
                    if line.endswith(b"\n"):
                        yield rest
                        rest = b""
                if ended:
                    break
                if self.store.closed:
                    raise AnswerLost
                time.sleep(0.03)
        if rest:
            yield rest

    def _has_ended(self, pod: Object, container: str) -> bool:
        own = pod["metadata"]
        found = self.store.find("pods", own["namespace"], own["name"])
        if found is None or found["metadata"]["uid"] != own["uid"]:
            return True
        return is_over(found) or "terminated" in _state_of(found, container)


def _groups(resources: list[Resource]) -> dict[str, Object]:
    """What `GET /apis` and `GET /apis/GROUP` answer, by path."""
    found = {}
    for one in resources:
        version = {"groupVersion": one.api_version, "version": one.version}
        group = {"name": one.group, "versions": [version], "preferredVersion": version}
        found[f"/apis/{one.group}"] = group
    del found["/apis/"]
    everything = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [*found.values()]}
    return found | {"/apis": everything}


def log_of(root: Path, pod: Object, container: str) -> Path:
    """Returns where the kubelet keeps what a container prints."""
    return root / "pods" / pod["metadata"]["uid"] / f"{container}.log"


def _state_of(pod: Object, container: str) -> Object:
    kinds = ("initContainerStatuses", "containerStatuses")
    found = [one for kind in kinds for one in at(pod, "status", kind, default=())]
    return at(next((one for one in found if one["name"] == container), {}), "state", default={})


class ExecSession:
    """One command in a running container, from the upgrade of its connection until it ends."""

    def __init__(
        self, store: Store, namespace: str, name: str, words: dict[str, list[str]]
    ) -> None:
        pod, container = store.get("pods", namespace, name), words["container"][0]
        if container not in [one["name"] for one in pod["spec"]["containers"]]:
            raise Refusal(400, f"container {container} is not valid for pod {name}")
        self._command = words.get("command", [])
        self._tty = bool(TRUE & {*words.get("tty", ())})
        if not self._command:
            raise Refusal(400, "you must specify at least 1 command for the container")
        if "running" not in _state_of(pod, container):
            raise Refusal(500, f'container not found ("{container}")')
        (status,) = pod["status"]["containerStatuses"]
        self._process = Path("/proc") / status["containerID"].removeprefix("local://")

    def answer(self, asked: Asked) -> Answer:
        """Returns the upgrade to a WebSocket (RFC 6455)."""
        key, offered = (asked.headers.get(f"Sec-WebSocket-{one}") for one in ("Key", "Protocol"))
        if key is None:
            raise Refusal(400, "Upgrade request required")
        digest = hashlib.sha1(f"{key}{ACCEPTED}".encode(), usedforsecurity=False).digest()
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        headers["Sec-WebSocket-Accept"] = base64.b64encode(digest).decode()
        headers["Sec-WebSocket-Protocol"] = next(one for one in PROTOCOLS if one in offered)
        return Answer(101, headers=headers, takes_over=self._serve)

    def _serve(self, connection: socket) -> None:
        """Sends output and Status; a client that goes away ends the command."""
        wire = WebSocket()
        wire.sock, wire.connected = connection, True

        def send(channel: int, content: bytes) -> None:
            frame = ABNF.create_frame(bytes([channel]) + content, ABNF.OPCODE_BINARY)
            frame.mask_value = 0  # only clients mask
            wire.send_frame(frame)

        send(STDOUT, b"")  # the connection is established
        master, slave = pty.openpty() if self._tty else (-1, -1)
        try:
            with self._start(slave) as running:
                if not self._copy(wire, send, running, master):
                    running.kill()
                status = _status(running.wait())
        except FileNotFoundError:
            text = "unable to start container process: exec: "
            text += f'"{self._command[0]}": executable file not found in $PATH: unknown'
            status = {"metadata": {}, "status": "Failure", "message": text, "code": 500}
        finally:
            if self._tty:
                os.close(master)
        send(STATUS, json.dumps(status).encode())
        wire.close()

    def _start(self, slave: int) -> subprocess.Popen[bytes]:
        lines = (self._process / "environ").read_bytes().split(b"\0")
        try:
            return subprocess.Popen(
                self._command,
                env=dict(line.decode().split("=", 1) for line in lines if b"=" in line),
                cwd=(self._process / "cwd").readlink(),
                stdin=slave if self._tty else subprocess.DEVNULL,
                stdout=slave if self._tty else subprocess.PIPE,
                stderr=slave if self._tty else subprocess.PIPE,
                start_new_session=True,
                preexec_fn=_take_terminal if self._tty else None,  # noqa: PLW1509  one ioctl
            )
        finally:
            if self._tty:
                os.close(slave)

    def _copy(self, wire: Any, send: Any, running: Any, master: int) -> bool:
        """Copies what client and command write, until all output has ended; False: the client has gone."""
        outputs = {master: STDOUT}
        if not self._tty:
            outputs = {running.stdout.fileno(): STDOUT, running.stderr.fileno(): STDERR}
        try:
            while outputs:
                ready = [wire.sock] if wire.sock.pending() else None
                for one in ready or select.select([wire.sock, *outputs], [], [])[0]:
                    if one is not wire.sock:
                        if content := _read(one):
                            send(outputs[one], content)
                        else:
                            del outputs[one]
                    elif not self._take(*wire.recv_data(), master):
                        return False
        except (OSError, WebSocketException):
            return False
        return True

    def _take(self, opcode: int, data: bytes, master: int) -> bool:
        """Gives the terminal what the client sent; False: it is the end."""
        if data[:1] == bytes([STDIN]) and self._tty:
            os.write(master, data[1:])
        elif data[:1] == bytes([RESIZE]) and self._tty:
            size = json.loads(data[1:])
            packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            fcntl.ioctl(master, termios.TIOCSWINSZ, packed)
        return opcode != ABNF.OPCODE_CLOSE


def _read(output: int) -> bytes:
    try:
        return os.read(output, 65536)
    except OSError:  # a terminal without a process
        return b""


def _take_terminal() -> None:
    """Makes standard input the terminal of the new session, so that Ctrl-C in it is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _status(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    ended = str(code if code > 0 else 128 - code)
    text = f"command terminated with non-zero exit code: exit status {ended}"
    cause = {"reason": "ExitCode", "message": ended}
    status = {"metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode"}
    return status | {"details": {"causes": [cause]}}
