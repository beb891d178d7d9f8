"""The HTTPS server in front of the API: routes, permissions, and faults on request."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from emulators.kubernetes.api import AnswerLost, Api
from emulators.kubernetes.objects import REASONS, Object, Refusal, Resource
from emulators.kubernetes.ports import free_pair
from emulators.kubernetes.rights import Question, Rights
from emulators.kubernetes.store import Store
from emulators.kubernetes.streams import ExecSession, Logs, handshake

OBJECTS = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>log|exec|eviction))?/?$"
)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RESET = struct.pack("ii", 1, 0)  # closing sends RST: what a client sees when a server dies
TRUE = {"true", "True", "1"}
NO_SUCH_PATH = "the server could not find the requested resource"


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
    retry_after_seconds: int | None = None
    acts: bool = False

    def strike(self) -> None:
        if self.code == 0:
            raise AnswerLost
        text = f"{REASONS.get(self.code, 'planned fault')}, please try again later"
        raise Refusal(self.code, text, retry_after_seconds=self.retry_after_seconds)


class ApiServer:
    """Serves on one port of loopback, with pauses on request."""

    def __init__(
        self, store: Store, api: Api, rights: Rights, logs: Logs, context: ssl.SSLContext
    ) -> None:
        self.store, self.api, self.rights, self.logs = store, api, rights, logs
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self._context, self._lock = context, threading.Lock()
        self._connections: set[ssl.SSLSocket] = set()
        self._server: ThreadingHTTPServer | None = None
        self.port = free_pair(set())  # stays reserved while the server is away
        self.start()

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self.port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Refuses new connections and resets those that are open."""
        if self._server is None:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server = None
        with self._lock:
            for connection in self._connections:
                _reset(connection)

    def serve(self, plain: socket.socket, address: Any) -> None:
        with contextlib.suppress(OSError):
            plain.settimeout(600)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(plain, server_side=True) as connection:
                with self._lock:
                    self._connections.add(connection)
                try:
                    _Handler(connection, address, self)
                finally:
                    with self._lock:
                        self._connections.discard(connection)

    def meet(self, method: str, path: str) -> Fault | None:
        """Returns the planned fault of this request, if there is one."""
        with self._lock:
            for fault in self.faults:
                if (
                    fault.times > 0
                    and fault.method in {"*", method}
                    and re.search(fault.path, path)
                ):
                    fault.times -= 1
                    return fault
        return None


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close, request_queue_size = True, False, 128

    def __init__(self, address: tuple[str, int], api_server: ApiServer) -> None:
        self._api_server = api_server
        super().__init__(address, _Handler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        """Binds without a look-up of this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._api_server.serve(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing about clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, request: Any, address: Any, server: ApiServer) -> None:
        self._of = server
        super().__init__(request, address, None)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Writes no log: the requests are in a list."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self._ask(json.loads(body) if body else None)
        except Refusal as refusal:
            wait = refusal.retry_after_seconds
            headers = {} if wait is None else {"Retry-After": str(wait)}
            with contextlib.suppress(OSError):
                self._write(refusal.code, refusal.body, **headers)
        except AnswerLost:
            self._note(0)
            self._drop()
        except OSError:
            self.close_connection = True
        except Exception as error:
            self._of.store.troubles.append(error)
            raise

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _answer  # noqa: N815

    def _ask(self, body: Any) -> None:
        """Serves one request: finds its object and verb, checks the permission, acts and answers."""
        address, of = urlsplit(self.path), self._of
        words = parse_qs(address.query)
        query = {name: values[-1] for name, values in words.items()}
        fault = of.meet(self.command, address.path)
        if fault and not fault.acts:
            fault.strike()
        who = of.rights.who(self.headers.get("Authorization"))
        if self.command == "GET" and address.path == "/apis":
            self._write(200, _groups(of.store.resources))
            return
        if self.command == "POST" and address.path == REVIEWS:
            self._write(201, of.rights.review(who, body))
            return
        found = OBJECTS.match(address.path)
        group, version, plural, namespace, name, part = (
            (
                found[one] or ""
                for one in ("group", "version", "plural", "namespace", "name", "part")
            )
            if found
            else [""] * 6
        )
        kind = next(
            (one for one in of.store.resources if one[:3] == (group, version or "v1", plural)), None
        )
        if found is None or kind is None:
            raise Refusal(404, NO_SUCH_PATH)
        verb = "create" if part == "eviction" else self._verb(name, query)
        # A namespace is an object of the cluster, but rights on it are those within it.
        place = name if plural == "namespaces" else namespace
        # Since 1.35 exec requires `create`, too, whatever the method (kubernetes/pull/134577).
        for one in (verb, "create") if part == "exec" else (verb,):
            of.rights.require(who, Question(one, group, plural, part, place, name), kind)
        if part == "exec":
            self._exec(ExecSession(of.store, namespace, name, words))
        elif part == "log":
            self._stream(of.logs.read(namespace, name, query), "text/plain")
        elif verb == "watch":
            self._stream(of.api.watch(kind, namespace or None, query), "application/json")
        else:
            answer, warnings = self._act(verb, kind, (namespace, name), query, body)
            if fault:
                fault.strike()
            headers = {"Warning": f'299 - "{"; ".join(warnings)}"'} if warnings else {}
            self._write(201 if verb == "create" else 200, answer, **headers)

    def _act(
        self, verb: str, kind: Resource, of: tuple[str, str], query: dict[str, str], body: Any
    ) -> tuple[Object, list[str]]:
        """Returns the object of the answer, and warnings."""
        api, (namespace, name) = self._of.api, of
        strict = query.get("fieldValidation") == "Strict"
        if verb == "list":
            return api.list(kind, namespace or None, query.get("labelSelector", "")), []
        if verb == "get":
            return self._of.store.get(kind, namespace, name), []
        if verb == "create" and name:
            return api.evict(namespace, name), []
        if verb == "create":
            return api.create(kind, namespace, body, strict=strict)
        if verb == "delete":
            return api.delete(kind, namespace, name, query | (body or {})), []
        if "merge-patch+json" not in (self.headers.get("Content-Type") or ""):
            raise Refusal(415, "the double knows JSON merge patches only")
        return api.patch(kind, namespace, name, body, strict=strict)

    def _verb(self, name: str, query: dict[str, str]) -> str:
        if name:
            verb = {"GET": "get", "PATCH": "patch", "DELETE": "delete"}.get(self.command)
        elif self.command == "GET":
            verb = "watch" if query.get("watch") in TRUE else "list"
        else:
            verb = "create" if self.command == "POST" else None
        if verb is None:
            text = "the server does not allow this method on the requested resource"
            raise Refusal(405, text)
        return verb

    def _write(self, code: int, body: Object, **headers: str) -> None:
        content = json.dumps(body).encode()
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        self._head(code, headers)
        self.wfile.write(content)

    def _head(self, code: int, headers: dict[str, str]) -> None:
        self._note(code)
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _exec(self, session: ExecSession) -> None:
        self._head(101, handshake({name.lower(): value for name, value in self.headers.items()}))
        self.close_connection = True
        session.run(self.connection)

    def _stream(self, chunks: Any, kind: str) -> None:
        self._head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked"})
        try:
            for chunk in chunks:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")
        except AnswerLost:
            self._drop()

    def _note(self, status: int) -> None:
        """Lists the request before its answer is sent, so that a client with the answer finds it there."""
        self._of.requests.append(Request(self.command, self.path, status))

    def _drop(self) -> None:
        self.close_connection = True
        _reset(self.connection)


def _groups(resources: list[Resource]) -> Object:
    """What `GET /apis` answers."""
    names = dict.fromkeys((one.group, one.version) for one in resources if one.group)
    groups = [
        {"name": group, "versions": [{"groupVersion": f"{group}/{version}", "version": version}]}
        for group, version in names
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
