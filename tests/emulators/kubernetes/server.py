"""The HTTPS server in front of the API."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import yaml

from emulators.kubernetes.faults import AnswerLost
from emulators.kubernetes.ports import free_pair
from emulators.kubernetes.routes import HttpRequest
from emulators.kubernetes.status_errors import Refusal

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from emulators.kubernetes.faults import Faults
    from emulators.kubernetes.pod_exec import ExecSession
    from emulators.kubernetes.routes import Answer, Routes

RESET = struct.pack("ii", 1, 0)  # closing sends RST: what a client sees when a server dies
POLL_SECONDS = 0.02


class ApiServer:
    """Serves on one port of loopback, with pauses on request."""

    def __init__(self, routes: Routes, faults: Faults, context: ssl.SSLContext) -> None:
        self._routes = routes
        self._faults = faults
        self._context = context
        self._connections: set[ssl.SSLSocket] = set()
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.port = free_pair(set())  # stays reserved while the server is away
        self.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = _Server(self.port, self._serve)
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Refuses new connections and resets those that are open."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server = None
        self.cut()

    def cut(self) -> None:
        """Resets all open connections, those of watches and logs too."""
        with self._lock:
            for connection in self._connections:
                _reset(connection)

    def _serve(self, plain: socket.socket, address: Any) -> None:
        with contextlib.suppress(OSError):
            plain.settimeout(600)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(plain, server_side=True) as connection:
                with self._lock:
                    self._connections.add(connection)
                try:
                    _Handler(connection, address, self._routes, self._faults)
                finally:
                    with self._lock:
                        self._connections.discard(connection)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, serve: Callable[[socket.socket, Any], None]) -> None:
        self._serve = serve
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Binds without a look-up of this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._serve(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing about clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, request: Any, address: Any, routes: Routes, faults: Faults) -> None:
        self._routes, self._faults = routes, faults
        self._user = ""
        super().__init__(request, address, None)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Writes no log: the requests are in a list."""

    def _answer(self) -> None:
        self._user = ""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._send(self._ask(body))
        except Refusal as refusal:
            self._refuse(refusal)
        except AnswerLost:
            self._note(0)
            self._drop()
        except OSError:
            self.close_connection = True
        except Exception as error:
            self._routes.store.troubles.append(error)
            self._refuse(Refusal(500, f"Internal error occurred: {error!r}"))
            raise

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

    def _ask(self, body: bytes) -> Answer:
        fault = self._faults.meet(self.command, self.path)
        if fault and not fault.acts:
            self._faults.strike(fault)
        identity = self._routes.rights.who(self.headers.get("Authorization"))
        self._user = identity.user
        address = urlsplit(self.path)
        words = parse_qs(address.query)
        query = {name: values[-1] for name, values in words.items()}
        kind = self.headers.get("Content-Type") or "application/json"
        agent = (self.headers.get("User-Agent") or "unknown").partition("/")[0]
        decoded = _decoded(body, kind)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = HttpRequest(
            self.command, address.path, query, decoded, kind, agent, words, headers
        )
        answer = self._routes.ask(identity, request)
        if fault:
            self._faults.strike(fault)
        return answer

    def _refuse(self, refusal: Refusal) -> None:
        headers = {}
        if refusal.retry_after_seconds is not None:
            headers["Retry-After"] = str(refusal.retry_after_seconds)
        if refusal.code == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="kubernetes"'
        with contextlib.suppress(OSError):
            self._write(refusal.code, json.dumps(refusal.body).encode(), **headers)

    def _send(self, answer: Answer) -> None:
        if answer.upgrade is not None:
            self._upgrade(answer, answer.upgrade)
        elif answer.stream is not None:
            self._stream(answer)
        elif isinstance(answer.body, str):
            self._write(answer.code, answer.body.encode(), kind="text/plain", **answer.headers)
        else:
            self._write(answer.code, json.dumps(answer.body).encode(), **answer.headers)

    def _write(
        self, code: int, body: bytes, kind: str = "application/json", **headers: str
    ) -> None:
        self._note(code)
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _upgrade(self, answer: Answer, session: ExecSession) -> None:
        self._note(answer.code)
        self.send_response(answer.code)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        self.wfile.flush()
        session.run(self.connection)

    def _stream(self, answer: Answer) -> None:
        chunks: Iterator[bytes] = answer.stream  # type: ignore[assignment]
        self._note(answer.code)
        self.send_response(answer.code)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for chunk in chunks:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")
        except AnswerLost:
            self._drop()

    def _note(self, status: int) -> None:
        """Lists the request before it sends the answer, so that a client with the answer finds it there."""
        self._faults.note(self.command, self.path, status, self._user)

    def _drop(self) -> None:
        self.close_connection = True
        _reset(self.connection)


def _decoded(body: bytes, kind: str) -> Any:
    if not body:
        return None
    if "protobuf" in kind or "cbor" in kind:
        raise Refusal(415, f"the body of the request was in an unknown format - {kind}")
    try:
        return json.loads(body)
    except ValueError as error:
        if "yaml" not in kind:
            raise Refusal(400, f"the object provided is unrecognized: {error}") from error
    try:
        return yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise Refusal(400, f"the object provided is unrecognized: {error}") from error
