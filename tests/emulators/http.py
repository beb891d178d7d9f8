"""HTTP on loopback for the emulators: a thread for each connection, no log."""

from __future__ import annotations

import contextlib
import datetime as dt
import email.utils
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple

_RESET = struct.pack("ii", 1, 0)  # closing sends RST


class Asked(NamedTuple):
    """A request."""

    method: str
    target: str
    headers: Any
    body: bytes


class Answer(NamedTuple):
    """A status, a body and headers.

    An iterator of bytes is sent in chunks, any other body that is neither text nor bytes as JSON.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    cut: int = 0
    """So many of the last bytes are in Content-Length and not sent."""
    takes_over: Callable[[socket.socket], None] | None = None
    """Gets the connection after status and headers, and uses it to its end."""


class AnswerLost(Exception):
    """The connection is reset instead of an answer."""


class HttpServer:
    """Serves on one port until it is closed.

    Args:
        answer: Returns what is answered, or raises `AnswerLost`.
        context: For TLS.
        port: 0: any that is free.
        skew: How far the clock of the server is ahead of ours.
    """

    def __init__(
        self,
        answer: Callable[[Asked], Answer],
        context: ssl.SSLContext | None = None,
        skew: Callable[[], dt.timedelta] = dt.timedelta,
        port: int = 0,
    ) -> None:
        handler = type("Handler", (_Handler,), {"answer": staticmethod(answer), "skew": skew})
        self._server = _Server(("127.0.0.1", port), handler)
        if context:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_port
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reset(self) -> None:
        """Resets all open connections."""
        for connection in list(self._server.open):
            _reset(connection)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, *given: Any) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def server_bind(self) -> None:
        """Binds without a look-up of this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing about clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    answer: Callable[[Asked], Answer]
    skew: Callable[[], dt.timedelta]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet for an answer

    def log_message(self, *_: Any) -> None:
        """Writes no log: the emulators have lists of their requests."""

    def date_time_string(self, timestamp: float | None = None) -> str:
        return email.utils.format_datetime(dt.datetime.now(dt.UTC) + type(self).skew(), usegmt=True)

    def handle_expect_100(self) -> bool:
        """Tells a client that waits to send its body at once."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _do(self) -> None:
        asked = self._body()
        try:
            answer = self.answer(Asked(self.command, self.path, self.headers, asked))
        except AnswerLost:
            self._lose()
            return
        if answer.takes_over or isinstance(answer.body, Iterator):
            self._open(answer)
            return
        body = "" if answer.body is None else answer.body
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        content = text.encode() if isinstance(text, str) else text
        headers = {"Content-Type": "application/json", "Content-Length": str(len(content))}
        headers |= {"Date": self.date_time_string()}
        given = {name.lower() for name in answer.headers}
        ours = {name: value for name, value in headers.items() if name.lower() not in given}
        with contextlib.suppress(OSError):
            self.send_response_only(answer.status)
            for name, value in {**ours, **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) - answer.cut])
        self.close_connection = self.close_connection or bool(answer.cut)

    def _lose(self) -> None:
        self.close_connection = True
        _reset(self.connection)

    def _open(self, answer: Answer) -> None:
        """Answers with what does not exist yet."""
        chunked = {} if answer.takes_over else {"Transfer-Encoding": "chunked"}
        with contextlib.suppress(OSError):
            self.send_response_only(answer.status)
            for name, value in {**chunked, **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.flush()
            if answer.takes_over:
                self.close_connection = True
                answer.takes_over(self.connection)
                return
            try:
                for chunk in answer.body:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except AnswerLost:
                self._lose()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_CONNECT = _do  # noqa: N815
