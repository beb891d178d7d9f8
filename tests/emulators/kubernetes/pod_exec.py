"""`pods/exec` over WebSocket: a program beside the process of a container.

The channels are those of v4.channel.k8s.io and v5.channel.k8s.io: a first byte 0 to 4 for stdin, stdout,
stderr, the Status at the end, and the size of the terminal; in v5 255 N closes channel N
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulators.kubernetes.selection import at
from emulators.kubernetes.status_errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from emulators.kubernetes.store import Store

Object = dict[str, Any]
STDIN, STDOUT, STDERR, STATUS, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_BINARY, _CLOSE_FRAME = 2, 8
_TRUE = {"true", "True", "1"}


def handshake(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers of the answer 101; refuses other requests than the upgrades of this server."""
    if headers.get("upgrade", "").lower() != "websocket":
        raise Refusal(400, "Upgrade request required")
    offered = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]
    protocol = next((one for one in offered if one in PROTOCOLS), None)
    if protocol is None:
        raise Refusal(400, "requested protocol(s) are not supported")
    digest = hashlib.sha1(headers["sec-websocket-key"].encode() + _MAGIC).digest()  # noqa: S324
    return {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": base64.b64encode(digest).decode(),
        "Sec-WebSocket-Protocol": protocol,
    }


class ExecSession:
    """One command in a running container; `run` serves its connection until the command ends."""

    def __init__(
        self, store: Store, namespace: str, name: str, query: Mapping[str, list[str]]
    ) -> None:
        pod = store.get("pods", namespace, name)
        if not pod["spec"].get("nodeName"):
            raise Refusal(400, f"pod {name} does not have a host assigned")
        names = [one["name"] for one in pod["spec"]["containers"]]
        container = (query.get("container") or names)[0]
        if container not in names:
            raise Refusal(400, f"container {container} is not valid for pod {name}")
        self._wants = {key: (query.get(key) or [""])[0] in _TRUE for key in ("stdin", "tty")}
        if not any((query.get(key) or [""])[0] in _TRUE for key in ("stdin", "stdout", "stderr")):
            raise Refusal(400, "you must specify at least 1 of stdin, stdout, stderr")
        self._command = query.get("command") or []
        if not self._command:
            raise Refusal(400, "you must specify at least 1 command for the container")
        statuses = at(pod, "status", "containerStatuses") or []
        status = next((one for one in statuses if one["name"] == container), {})
        if "running" not in (status.get("state") or {}):
            raise Refusal(500, f'container not found ("{container}")')
        self._pid = int(status["containerID"].removeprefix("local://"))

    def run(self, connection: Any) -> None:
        """Sends output and Status; a client that goes away ends a command with a terminal only."""
        wire = _Wire(connection)
        wire.send(STDOUT, b"")  # the connection is established
        process = Path("/proc") / str(self._pid)
        lines = (process / "environ").read_bytes().split(b"\0")
        env = dict(line.decode().split("=", 1) for line in lines if b"=" in line)
        master, slave = pty.openpty() if self._wants["tty"] else (-1, -1)
        pipe = subprocess.PIPE
        streams = (slave, slave, slave) if slave >= 0 else (pipe, pipe, pipe)
        try:
            running = subprocess.Popen(
                self._command,
                env=env,
                cwd=(process / "cwd").readlink(),
                stdin=streams[0] if self._wants["stdin"] else subprocess.DEVNULL,
                stdout=streams[1],
                stderr=streams[2],
                start_new_session=True,
                preexec_fn=_take_terminal if slave >= 0 else None,  # noqa: PLW1509  one ioctl
            )
        except OSError:
            wire.send(STATUS, json.dumps(_not_found(self._command[0])).encode())
            wire.close()
            return
        finally:
            if slave >= 0:
                os.close(slave)
        with running:
            try:
                self._serve(wire, running, master)
            except OSError:
                running.kill()  # by the hang-up of its terminal
        wire.send(STATUS, json.dumps(_status(running.returncode)).encode())
        wire.close()

    def _serve(self, wire: _Wire, running: subprocess.Popen[bytes], master: int) -> None:
        outputs = {master: STDOUT} if master >= 0 else {}
        for stream, channel in ((running.stdout, STDOUT), (running.stderr, STDERR)):
            if stream:
                outputs[stream.fileno()] = channel
        while outputs:
            ready, _, _ = select.select([*outputs, wire.connection], [], [], 0.02)
            if wire.connection in ready or wire.connection.pending():
                for channel, content in wire.receive():
                    self._take(channel, content, running, master)
            for descriptor in [one for one in ready if one in outputs]:
                content = b""
                with contextlib.suppress(OSError):  # a terminal without a process
                    content = os.read(descriptor, 65536)
                if content:
                    wire.send(outputs[descriptor], content)
                else:
                    del outputs[descriptor]

    def _take(
        self, channel: int, content: bytes, running: subprocess.Popen[bytes], master: int
    ) -> None:
        if channel == STDIN and master >= 0:
            os.write(master, content)
        elif channel == STDIN and running.stdin:
            running.stdin.write(content)
            running.stdin.flush()
        elif channel == CLOSE and content == bytes([STDIN]) and running.stdin:
            running.stdin.close()
        elif channel == RESIZE and master >= 0:
            size = json.loads(content)
            packed = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            fcntl.ioctl(master, termios.TIOCSWINSZ, packed)


def _take_terminal() -> None:
    """Makes standard input the terminal of the new session, so that Ctrl-C in it is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class _Wire:
    """WebSocket frames (RFC 6455, section 5) of a server."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def send(self, channel: int, content: bytes) -> None:
        self._frame(_BINARY, bytes([channel]) + content)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._frame(_CLOSE_FRAME, struct.pack(">H", 1000))

    def receive(self) -> Iterator[tuple[int, bytes]]:
        """Yields the next message; raises OSError if the client has gone."""
        first, second = self._exactly(2)
        length = second & 127
        if length > 125:
            length = int.from_bytes(self._exactly(2 if length == 126 else 8), "big")
        if not second & 128:
            raise OSError("a client's frame must be masked")
        mask, content = self._exactly(4), self._exactly(length)
        plain = bytes(byte ^ mask[i % 4] for i, byte in enumerate(content))
        if first & 15 == _CLOSE_FRAME:
            raise OSError("the client has gone")
        if plain:
            yield plain[0], plain[1:]

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self.connection.recv(count - len(found))
            if not part:
                raise OSError("the client has gone")
            found += part
        return found

    def _frame(self, opcode: int, content: bytes) -> None:
        length = len(content)
        if length < 126:
            head = bytes([128 | opcode, length])
        elif length < 65536:
            head = bytes([128 | opcode, 126]) + struct.pack(">H", length)
        else:
            head = bytes([128 | opcode, 127]) + struct.pack(">Q", length)
        self.connection.sendall(head + content)


def _status(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    ended = str(code if code > 0 else 128 - code)
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {ended}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": ended}]},
    }


def _not_found(program: str) -> Object:
    why = "OCI runtime exec failed: exec failed: unable to start container process: exec:"
    return {
        "metadata": {},
        "status": "Failure",
        "message": "Internal error occurred: error executing command in container: failed to exec in"
        f' container: {why} "{program}": executable file not found in $PATH: unknown',
        "reason": "InternalError",
        "code": 500,
    }
