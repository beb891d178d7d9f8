"""`pods/log`, and `pods/exec` over WebSocket: a program beside the process of a container.

The channels are those of v4.channel.k8s.io and v5.channel.k8s.io: a first byte 0 to 4 for stdin, stdout,
stderr, the Status at the end, and the size of the terminal; stdin needs a terminal here
(k8s.io/apimachinery/pkg/util/remotecommand/constants.go and k8s.io/kubelet/pkg/cri/streaming/remotecommand/
websocket.go, read 2026-11-22). The refusals are those of pkg/registry/core/pod/strategy.go and the kubelet.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from emulators.kubernetes.api import AnswerLost
from emulators.kubernetes.objects import Object, Refusal, at, is_over
from emulators.kubernetes.store import Store

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
TRUE = {"true", "True", "1"}


def log_of(root: Path, pod: Object, container: str) -> Path:
    """Returns where the kubelet keeps what a container prints."""
    return root / "pods" / pod["metadata"]["uid"] / f"{container}.log"


def _status_of(pod: Object, container: str) -> Object:
    kinds = ("initContainerStatuses", "containerStatuses")
    found = [one for kind in kinds for one in at(pod, "status", kind, default=())]
    return at(next((one for one in found if one["name"] == container), {}), "state", default={})


class Logs:
    """Reads the logs of pods whose kubelet answers."""

    def __init__(self, store: Store, root: Path, lost_nodes: set[str]) -> None:
        self._store, self._root, self._lost_nodes = store, root, lost_nodes

    def read(self, namespace: str, name: str, query: dict[str, str]) -> Iterator[bytes]:
        """Yields the log of a container, by lines with a time; refuses when there is none yet."""
        pod = self._store.get("pods", namespace, name)
        container, node = query["container"], pod["spec"].get("nodeName")
        if node in self._lost_nodes:
            text = (
                f'Get "https://{node}:10250/containerLogs/{namespace}/{name}/{container}": dial tcp'
            )
            raise Refusal(500, f"{text}: connect: no route to host")
        state = _status_of(pod, container)
        if not node or "waiting" in state or not state:
            why = at(state, "waiting", "reason", default="ContainerCreating")
            raise Refusal(
                400, f'container "{container}" in pod "{name}" is waiting to start: {why}'
            )
        started = at(state, "running", "startedAt") or state["terminated"]["startedAt"]
        chunks = self._chunks(pod, container, follow=query.get("follow") in TRUE)
        return _timed(chunks, started.removesuffix("Z"))

    def _chunks(self, pod: Object, container: str, *, follow: bool) -> Iterator[bytes]:
        with log_of(self._root, pod, container).open("rb") as log:
            while True:
                ended = not follow or self._has_ended(pod, container)
                if found := log.read():
                    yield found
                if ended:
                    return
                if self._store.closed:
                    raise AnswerLost
                time.sleep(0.03)

    def _has_ended(self, pod: Object, container: str) -> bool:
        own = pod["metadata"]
        found = self._store.find("pods", own["namespace"], own["name"])
        if found is None or found["metadata"]["uid"] != own["uid"]:
            return True
        return is_over(found) or "terminated" in _status_of(found, container)


def _timed(chunks: Iterator[bytes], started: str) -> Iterator[bytes]:
    """Lines with a time: the container's start and the number of the line, the same whenever it is read."""
    number, rest = 0, b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield f"{started}.{number:09}Z ".encode() + line + b"\n"
            number += 1
    if rest:
        yield f"{started}.{number:09}Z ".encode() + rest


def handshake(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers of the answer 101; refuses other requests than the upgrades of this server."""
    offered = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]
    protocol = next((one for one in offered if one in PROTOCOLS), None)
    if headers.get("upgrade", "").lower() != "websocket" or protocol is None:
        raise Refusal(400, "Upgrade request required")
    digest = hashlib.sha1(headers["sec-websocket-key"].encode() + MAGIC).digest()  # noqa: S324
    answer = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": protocol}
    return answer | {"Sec-WebSocket-Accept": base64.b64encode(digest).decode()}


class ExecSession:
    """One command in a running container; `run` serves its connection until the command ends."""

    def __init__(
        self, store: Store, namespace: str, name: str, query: Mapping[str, list[str]]
    ) -> None:
        pod = store.get("pods", namespace, name)
        container = query["container"][0]
        if container not in [one["name"] for one in pod["spec"]["containers"]]:
            raise Refusal(400, f"container {container} is not valid for pod {name}")
        self._tty = query.get("tty", [""])[0] in TRUE
        self._command = query.get("command") or []
        if not self._command:
            raise Refusal(400, "you must specify at least 1 command for the container")
        if "running" not in _status_of(pod, container):
            raise Refusal(500, f'container not found ("{container}")')
        (status,) = pod["status"]["containerStatuses"]
        self._pid = int(status["containerID"].removeprefix("local://"))

    def run(self, connection: Any) -> None:
        """Sends output and Status; a client that goes away ends the command."""
        wire = _Wire(connection)
        wire.send(STDOUT, b"")  # the connection is established
        process = Path("/proc") / str(self._pid)
        lines = (process / "environ").read_bytes().split(b"\0")
        env = dict(line.decode().split("=", 1) for line in lines if b"=" in line)
        master, slave = pty.openpty() if self._tty else (-1, -1)
        stream = slave if self._tty else subprocess.PIPE
        try:
            running = subprocess.Popen(
                self._command,
                env=env,
                cwd=(process / "cwd").readlink(),
                stdin=slave if self._tty else subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                preexec_fn=_take_terminal if self._tty else None,  # noqa: PLW1509  one ioctl
            )
        except OSError:
            text = "unable to start container process: exec: "
            text += f'"{self._command[0]}": executable file not found in $PATH: unknown'
            wire.end({"metadata": {}, "status": "Failure", "message": text, "code": 500})
            return
        finally:
            if self._tty:
                os.close(slave)
        with running:
            try:
                self._serve(wire, running, master)
            except OSError:
                running.kill()  # by the hang-up of its terminal
            finally:
                if self._tty:
                    os.close(master)
        wire.end(_status(running.returncode))

    def _serve(self, wire: _Wire, running: subprocess.Popen[bytes], master: int) -> None:
        outputs = {master: STDOUT} if self._tty else {}
        for stream, channel in ((running.stdout, STDOUT), (running.stderr, STDERR)):
            if stream:
                outputs[stream.fileno()] = channel
        while outputs:
            ready, _, _ = select.select([*outputs, wire.connection], [], [], 0.02)
            if wire.connection in ready or wire.connection.pending():
                self._take(*wire.receive(), master)
            for descriptor in [one for one in ready if one in outputs]:
                content = b""
                with contextlib.suppress(OSError):  # a terminal without a process
                    content = os.read(descriptor, 65536)
                if content:
                    wire.send(outputs[descriptor], content)
                else:
                    del outputs[descriptor]

    def _take(self, channel: int, content: bytes, master: int) -> None:
        if channel == STDIN and self._tty:
            os.write(master, content)
        elif channel == RESIZE and self._tty:
            size = json.loads(content)
            packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            fcntl.ioctl(master, termios.TIOCSWINSZ, packed)


def _take_terminal() -> None:
    """Makes standard input the terminal of the new session, so that Ctrl-C in it is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class _Wire:
    """Messages of a WebSocket's server, by the frames of the client's library (RFC 6455, section 5)."""

    def __init__(self, connection: Any) -> None:
        from websocket import _abnf

        self.connection, self._abnf = connection, _abnf.ABNF
        self._frames = _abnf.frame_buffer(self._receive, skip_utf8_validation=True)

    def _receive(self, count: int) -> bytes:
        if content := self.connection.recv(count):
            return content
        raise OSError("the client has gone")

    def send(self, channel: int, content: bytes) -> None:
        self._send(self._abnf.OPCODE_BINARY, bytes([channel]) + content)

    def _send(self, opcode: int, content: bytes) -> None:
        self.connection.sendall(self._abnf(1, 0, 0, 0, opcode, 0, content).format())

    def end(self, status: Object) -> None:
        with contextlib.suppress(OSError):
            self.send(STATUS, json.dumps(status).encode())
            self._send(self._abnf.OPCODE_CLOSE, struct.pack(">H", 1000))

    def receive(self) -> tuple[int, bytes]:
        """Returns the next message: its channel and content."""
        frame = self._frames.recv_frame()
        if frame.opcode == self._abnf.OPCODE_CLOSE or not frame.data:
            raise OSError("the client has gone")
        return frame.data[0], frame.data[1:]


def _status(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    ended = str(code if code > 0 else 128 - code)
    text = f"command terminated with non-zero exit code: exit status {ended}"
    cause = {"reason": "ExitCode", "message": ended}
    status = {"metadata": {}, "status": "Failure", "message": text, "reason": "NonZeroExitCode"}
    return status | {"details": {"causes": [cause]}}
