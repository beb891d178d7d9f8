"""Runs a command in a container over the WebSocket of `pods/exec`, with or without a terminal.

The channels of v4.channel.k8s.io and v5.channel.k8s.io, which the official client negotiates: 0 to 4 are
standard input, output, error, the Status at the end, and the size of the terminal
(https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apimachinery/pkg/util/
remotecommand/constants.go, read 2026-11-22).
"""

from __future__ import annotations

import importlib
import json
import os
import select
import ssl
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from urllib.parse import urlencode

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError, shorten
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.launch.kubernetes.api import map_error
from cloudgan.launch.kubernetes.kubeconfig import ApiClient

_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE = range(5)
_POLL_SECONDS = 0.25
_MOST_BYTES = 65_536


def execute(
    client: ApiClient, path: str, container: str, command: Sequence[str], streams: CommandStreams
) -> int:
    """Runs a command, which no shell expands, in a container of the pod at `path`; returns its exit code.

    Raises:
        LaunchError: The connection ended before the command.
    """
    terminal = streams.terminal
    query = [("container", container), *(("command", word) for word in command)]
    query += [("stdout", "true"), ("stdin" if terminal else "stderr", "true")]
    query += [("tty", "true")] if terminal else []
    socket = _connect(client, f"{path}/exec?{urlencode(query)}")
    try:
        with _raw_terminal() if terminal else nullcontext():
            status = _follow(socket, streams)
        return _exit_code(status, command[0])
    finally:
        socket.sock.shutdown()  # close() waits for an answer of the server


def _connect(client: ApiClient, path: str) -> Any:
    """Returns the WebSocket of the official client."""
    ws_client = importlib.import_module("kubernetes.stream.ws_client")
    websocket = importlib.import_module("websocket")
    _, url, headers, *_ = client.param_serialize("GET", path, auth_settings=["BearerToken"])
    known = {name.lower(): value for name, value in headers.items()}
    try:
        return ws_client.WSClient(
            client.configuration,
            ws_client.get_websocket_url(url),
            known,
            capture_all=False,
            binary=True,
        )
    except websocket.WebSocketBadStatusException as error:
        request = f"GET {path.partition('?')[0]}"
        found = map_error(error.status_code, error.resp_body or b"", request)
        if isinstance(found, CredentialsError) and error.status_code == 403:  # noqa: PLR2004
            raise CredentialsError(
                f"{request}: this login may not run commands in pods; deploy/kubernetes/debug-role.yaml"
                " lists the permissions (get and create on pods/exec), which deploy does not need"
            ) from error
        raise found from error
    except (websocket.WebSocketException, OSError) as error:
        raise LaunchError(
            f"the cluster opens no connection to the pod ({error}); `cloudgan status` shows whether it"
            " runs"
        ) from error


def _follow(socket: Any, streams: CommandStreams) -> bytes:
    """Passes input and output until the command ends; returns the bytes of its Status."""
    websocket = importlib.import_module("websocket")
    status, size = b"", None
    given = sys.stdin.fileno() if streams.terminal else None
    while socket.is_open():
        if streams.terminal and (now := os.get_terminal_size(sys.stdin.fileno())) != size:
            size = now
            words = json.dumps({"Width": size.columns, "Height": size.lines})
            socket.write_channel(_RESIZE, words.encode())
        try:
            typed = _wait(socket, given)
            socket.update(timeout=0)
            if typed is not None:
                content = os.read(typed, _MOST_BYTES)
                given = given if content else None
                socket.write_channel(_STDIN, content or b"\x04")  # the end of input in a terminal
            output, errors, ended = map(socket.read_channel, (_STDOUT, _STDERR, _STATUS))
        except (websocket.WebSocketException, OSError) as error:
            raise LaunchError(f"the connection ended before the command ({error})") from error
        for content, is_error in ((output, False), (errors, True)):
            if content and streams.terminal:
                sys.stdout.buffer.write(content)
                sys.stdout.buffer.flush()
            elif content:
                streams.output(content, is_error)
        status += ended
    return status


def _wait(socket: Any, given: int | None) -> int | None:
    """Waits for output or input, at most a moment; returns the descriptor that has input."""
    raw = socket.sock.sock
    if raw is None or (isinstance(raw, ssl.SSLSocket) and raw.pending()):
        return None
    readers = [raw] if given is None else [raw, given]
    ready, _, _ = select.select(readers, (), (), _POLL_SECONDS)
    return given if given in ready else None


def _exit_code(status: bytes, program: str) -> int:
    """Returns the exit code in a Status (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/)."""
    if not status:
        raise LaunchError(
            "the connection ended before the command: the pod was stopped, or the network failed"
        )
    found = parse_json(status, "the Status of the command", LaunchError, any_text=True)
    try:
        if found["status"] == "Success":
            return 0
        causes = (found.get("details") or {}).get("causes") or ()
        codes = [cause["message"] for cause in causes if cause.get("reason") == "ExitCode"]
        if codes:
            return int(codes[0])
        message = str(found.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LaunchError(
            f"the cluster sent no Status of the command: {shorten(str(found))}"
        ) from error
    if "executable file not found" in message or "no such file or directory" in message:
        raise ConfigError(f"the container of the worker has no program {program!r}")
    raise LaunchError(f"the container runtime did not run {program!r}: {message}")


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Passes each key to the remote terminal, Ctrl-C included, and restores this one."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
