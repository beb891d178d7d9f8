"""The HTTPS server in front of the API: routes, permissions, logs, `exec`, and faults on request.

The channels of `exec` are those of v4.channel.k8s.io and v5.channel.k8s.io: a first byte 0 to 4 for stdin,
stdout, stderr, the Status at the end, and the size of the terminal; stdin needs a terminal here
(k8s.io/apimachinery/pkg/util/remotecommand/constants.go and k8s.io/kubelet/pkg/cri/streaming/remotecommand/
websocket.go, read 2026-11-22). The refusals are those of pkg/registry/core/pod/strategy.go and the kubelet.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import socket
import ssl
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from emulators.kubernetes.api import AnswerLost, Api
from emulators.kubernetes.objects import REASONS, Object, Refusal, Resource, at, is_over
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
RESET = struct.pack("ii", 1, 0)  # closing sends RST: what a client sees when a server dies
TRUE = {"true", "True", "1"}
STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
MOST_REQUESTS, STOP_SECONDS = 256, 20.0


class Request(NamedTuple):
    """One request as it was answered. `status` 0: the connection was cut instead."""

    method: str
    path: str
    """With its query."""
    status: int


@dataclass
class Fault:
    """The next `times` matching requests are answered with `code` (0: by a reset), or done and not answered."""

    method: str
    path: str
    code: int
    times: int
    acts: bool = False

    def strike(self) -> None:
        if self.code == 0:
            raise AnswerLost
        raise Refusal(self.code, f"{REASONS[self.code]}, please try again later")


class ApiServer:
    """Serves on one port of loopback, with pauses on request."""

    def __init__(
        self, store: Store, api: Api, rights: Rights, context: ssl.SSLContext, kubelets: Any
    ) -> None:
        self.store, self.api, self.rights = store, api, rights
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self._context, self._lock, self._kubelets = context, threading.Lock(), kubelets
        self._loop, self._workers = asyncio.new_event_loop(), ThreadPoolExecutor(MOST_REQUESTS)
        self._listener: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = free_pair(set())  # stays reserved while the server is away
        self.start()

    def start(self) -> None:
        self._wait(self._open())

    def stop(self) -> None:
        """Refuses new connections and resets those that are open."""
        self._wait(self._shut())

    def close(self) -> None:
        self.stop()
        self._wait(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        self._loop.close()
        self._workers.shutdown(wait=False)

    def _wait(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(STOP_SECONDS)

    def call(self, function: Any, *given: Any) -> Any:
        """Runs what may wait in a thread of its own."""
        return self._loop.run_in_executor(self._workers, function, *given)

    async def _open(self) -> None:
        self._server = web.Server(self._answer)
        self._listener = await self._loop.create_server(
            self._server, "127.0.0.1", self.port, ssl=self._context, reuse_address=True
        )

    async def _shut(self) -> None:
        if self._listener:
            self._listener.close()
            self._listener = None
            for connection in self._server.connections:
                _reset(connection.transport)

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        try:
            found = await self.call(self._ask, request, json.loads(body) if body else None)
            if isinstance(found, ExecSession):
                return await found.run(self, request)
            if not isinstance(found, web.Response):
                return await self._stream(request, found)
        except Refusal as refusal:
            found = web.json_response(refusal.body, status=refusal.code)
        except AnswerLost:
            self.note(request, 0)
            _reset(request.transport)
            return web.Response()
        except OSError:
            return web.Response()  # the client has gone
        except Exception as error:
            self.store.troubles.append(error)
            raise
        self.note(request, found.status)
        return found

    async def _stream(
        self, request: web.BaseRequest, chunks: Iterator[bytes]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        self.note(request, 200)
        await response.prepare(request)
        try:
            while chunk := await self.call(next, chunks, b""):
                await response.write(chunk)
        except AnswerLost:
            _reset(request.transport)
        return response

    def note(self, request: web.BaseRequest, status: int) -> None:
        """Lists the request before its answer is sent, so that a client with the answer finds it there."""
        self.requests.append(Request(request.method, request.path_qs, status))

    def _meet(self, method: str, path: str) -> Fault | None:
        """Returns the planned fault of this request, if there is one."""
        with self._lock:
            for fault in self.faults:
                if fault.times and fault.method in {"*", method} and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None

    def _ask(self, request: web.BaseRequest, body: Any) -> Any:
        """Finds object and verb of a request, checks the permission and acts.

        Returns the answer, the chunks of a stream, or a session.
        """
        method, path, query = request.method, request.path, dict(request.query)
        fault = self._meet(method, path)
        if fault and not fault.acts:
            fault.strike()
        who = self.rights.who(request.headers.get("Authorization"))
        if (method, path) == ("GET", "/apis"):
            return web.json_response(_groups(self.store.resources))
        if (method, path) == ("POST", REVIEWS):
            return web.json_response(self.rights.review(who, body), status=201)
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
            asked = Question(one, kind.group, kind.plural, part, place, name)
            self.rights.require(who, asked, kind)
        if part == "exec":
            return ExecSession(self.store, namespace, name, request.query)
        if part == "log":
            return self._read_log(namespace, name, query)
        if verb == "watch":
            return self.api.watch(kind, namespace or None, query)
        answer = self._act(verb, kind, (namespace, name), request, body)
        if fault:
            fault.strike()
        return web.json_response(answer, status=201 if verb == "create" else 200)

    def _act(
        self, verb: str, kind: Resource, of: tuple[str, str], request: web.BaseRequest, body: Any
    ) -> Object:
        api, (namespace, name), query = self.api, of, request.query
        if verb == "list":
            return api.list(kind, namespace or None, query.get("labelSelector", ""))
        if verb == "get":
            return self.store.get(kind, namespace, name)
        if verb == "create" and name:
            return api.evict(namespace, name)
        if verb == "create":
            return api.create(kind, namespace, body)
        if verb == "delete":
            return api.delete(kind, namespace, name, {**query, **(body or {})})
        if "merge-patch+json" not in request.headers.get("Content-Type", ""):
            raise Refusal(415, "the double knows JSON merge patches only")
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


def _reset(transport: Any) -> None:
    if transport:
        with contextlib.suppress(OSError, AttributeError):
            linger = (socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            transport.get_extra_info("socket").setsockopt(*linger)
        transport.abort()


def _groups(resources: list[Resource]) -> Object:
    """What `GET /apis` answers."""
    names = dict.fromkeys((one.group, one.version) for one in resources if one.group)
    groups = [
        {"name": group, "versions": [{"groupVersion": f"{group}/{version}", "version": version}]}
        for group, version in names
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def log_of(root: Path, pod: Object, container: str) -> Path:
    """Returns where the kubelet keeps what a container prints."""
    return root / "pods" / pod["metadata"]["uid"] / f"{container}.log"


def _state_of(pod: Object, container: str) -> Object:
    kinds = ("initContainerStatuses", "containerStatuses")
    found = [one for kind in kinds for one in at(pod, "status", kind, default=())]
    return at(next((one for one in found if one["name"] == container), {}), "state", default={})


class ExecSession:
    """One command in a running container; `run` serves its connection until the command ends."""

    def __init__(self, store: Store, namespace: str, name: str, query: Any) -> None:
        pod, container = store.get("pods", namespace, name), query["container"]
        if container not in [one["name"] for one in pod["spec"]["containers"]]:
            raise Refusal(400, f"container {container} is not valid for pod {name}")
        self._command, self._tty = query.getall("command", []), query.get("tty") in TRUE
        if not self._command:
            raise Refusal(400, "you must specify at least 1 command for the container")
        if "running" not in _state_of(pod, container):
            raise Refusal(500, f'container not found ("{container}")')
        (status,) = pod["status"]["containerStatuses"]
        self._process = Path("/proc") / status["containerID"].removeprefix("local://")

    async def run(self, server: ApiServer, request: web.BaseRequest) -> web.StreamResponse:
        """Sends output and Status; a client that goes away ends the command."""
        wire = web.WebSocketResponse(protocols=PROTOCOLS, timeout=1.0, max_msg_size=0)
        if not wire.can_prepare(request):
            raise Refusal(400, "Upgrade request required")
        server.note(request, 101)
        await wire.prepare(request)
        await wire.send_bytes(bytes([STDOUT]))  # the connection is established
        master, slave = pty.openpty() if self._tty else (-1, -1)
        try:
            running = await server.call(self._start, slave)
        except OSError:
            text = "unable to start container process: exec: "
            text += f'"{self._command[0]}": executable file not found in $PATH: unknown'
            status = {"metadata": {}, "status": "Failure", "message": text, "code": 500}
        else:
            outputs = {master: STDOUT} if self._tty else {}
            for stream, channel in ((running.stdout, STDOUT), (running.stderr, STDERR)):
                if stream:
                    outputs[stream.fileno()] = channel

            async def pump(descriptor: int, channel: int) -> None:
                with contextlib.suppress(OSError):  # a terminal without a process
                    while content := await server.call(os.read, descriptor, 65536):
                        await wire.send_bytes(bytes([channel]) + content)

            taking = asyncio.ensure_future(self._take(wire, running, master))
            await asyncio.gather(*(pump(*output) for output in outputs.items()))
            status = _status(await server.call(running.wait))
            taking.cancel()
            await asyncio.wait([taking])
            for stream in filter(None, (running.stdout, running.stderr)):
                stream.close()
        finally:
            if self._tty:
                os.close(master)
        with contextlib.suppress(OSError):
            await wire.send_bytes(bytes([STATUS]) + json.dumps(status).encode())
            await wire.close()
        return wire

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

    async def _take(self, wire: Any, running: subprocess.Popen[bytes], master: int) -> None:
        async for message in wire:
            data = message.data.encode() if isinstance(message.data, str) else message.data
            if data[:1] == bytes([STDIN]) and self._tty:
                os.write(master, data[1:])
            elif data[:1] == bytes([RESIZE]) and self._tty:
                size = json.loads(data[1:])
                packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                fcntl.ioctl(master, termios.TIOCSWINSZ, packed)
        running.kill()  # the client has gone


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
