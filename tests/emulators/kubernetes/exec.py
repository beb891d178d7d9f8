"""Where the kubelet keeps a container's log and state, and a command in it: `exec`.

The channels are those of v4.channel.k8s.io and v5.channel.k8s.io: a first byte 0 to 4 for stdin, stdout, stderr, the
Status at the end, and the size of the terminal; stdin needs a terminal here
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
import select
import struct
import subprocess
import termios
from pathlib import Path
from socket import socket
from typing import Any

from websocket import ABNF, WebSocket, WebSocketException

from emulators.http import Answer, Asked
from emulators.kubernetes.objects import Object, Refusal, Store, at

TRUE = {"true", "True", "1"}
STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
ACCEPTED = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


def log_of(root: Path, pod: Object, container: str) -> Path:
    """Returns where the kubelet keeps what a container prints."""
    return root / "pods" / pod["metadata"]["uid"] / f"{container}.log"


def state_of(pod: Object, container: str) -> Object:
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
        if "running" not in state_of(pod, container):
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
