"""HTTP control server of a worker: `/state` for probes and, on the chief, `/join` for the workers.

It accepts no commands. `/join` is signed with the secret of the run, in both directions; `/state` is
open, because a kubelet's probe has no secret, and shows phase and step only. Requests are short; longer,
slower and too many ones are rejected.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import socket
import socketserver
import threading
import time
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from cloudgan.core.clock import utc_moment
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import DataError
from cloudgan.schema.heartbeat import Phase
from cloudgan.worker.preemption import PreemptionNotice
from cloudgan.worker.rendezvous import JoinResponse, MemberState

if TYPE_CHECKING:
    from cloudgan.core.run_secret import RunSecret
    from cloudgan.worker.rendezvous import Rendezvous
    from cloudgan.worker.state import AgentState, AgentStatus

_AT_A_TIME = 64
_AT_A_TIME_EACH = 32
"""Connections of one address: another host cannot occupy all threads."""
_PATIENCE_SECONDS = 5.0
_MOST_REQUEST_BYTES = 1024
_MOST_ANSWER_BYTES = 65_536
_INCARNATION = re.compile(r"[0-9A-Za-z-]{1,64}")
_NOTICE = re.compile(r"([a-z]{1,16})-([0-9]{0,6})")
_NONCE = re.compile(r"[0-9a-f]{32}")
_SECONDS = re.compile(r"[0-9]{1,11}")
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_LONGEST_SECONDS = 999_999.0
_MOST_GENERATION, _MOST_PORT = 999_999, 65_535
_PHASES = frozenset(get_args(Phase))
_JOIN = "/join"
_TIME, _NONCE_HEADER, _SIGNED = "Cloudgan-Time", "Cloudgan-Nonce", "Cloudgan-Signature"
_MOST_SKEW_SECONDS = 300
_UNSIGNED_PER_SECOND = 20
_MOST_ADDRESSES = 1024


class RejectedError(ValueError):
    """The chief rejects the requests of this worker, or its response is not from a chief."""


class ControlServer:
    """Serves requests in threads until it is closed."""

    def __init__(
        self,
        address: tuple[str, int],
        state: AgentState,
        rendezvous: Rendezvous | None = None,
        secret: RunSecret | None = None,
    ) -> None:
        """Listens on `address`; serves `/join` if there is a rendezvous and a secret."""
        join = _Joining(rendezvous, secret, state.world) if rendezvous and secret else None
        self._server = _Server(address, state, join)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stops the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], state: AgentState, join: _Joining | None) -> None:
        self.state, self.join = state, join
        self.unsigned = _RateLimit(_UNSIGNED_PER_SECOND)
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        if ":" in address[0] or (not address[0] and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        # The supervisor of nodes on this machine holds the ports of their agents.
        self.allow_reuse_port = address[0] in {"127.0.0.1", "::1", "localhost"}
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Listens on IPv4 and IPv6 unless an address is given."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own queries DNS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves the request in a thread; limits the number of threads, also per address."""
        host = str(client_address[0])
        with self._lock:
            is_free = self._open.total() < _AT_A_TIME and self._open[host] < _AT_A_TIME_EACH
            self._open[host] += is_free
        if is_free:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Releases the slot after the request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            host = str(client_address[0])
            with self._lock:
                self._open[host] -= 1
                if not self._open[host]:
                    del self._open[host]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores aborted connections."""


class _RateLimit:
    """Counts the requests of each address within the present second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second, self._seen = 0, Counter[str]()
        self._lock = threading.Lock()

    def admits(self, host: str) -> bool:
        second = int(time.monotonic())
        with self._lock:
            if second != self._second or len(self._seen) > _MOST_ADDRESSES:
                self._second, self._seen = second, Counter()
            self._seen[host] += 1
            return self._seen[host] <= self._per_second


class _Answer(NamedTuple):
    status: HTTPStatus
    content: dict[str, Any]
    nonce: str = ""
    """Of the signed request; empty: the answer is not signed."""


class _Joining:
    """Verifies signed requests and passes them to the rendezvous."""

    def __init__(
        self,
        rendezvous: Rendezvous,
        secret: RunSecret,
        world: int,
    ) -> None:
        self._rendezvous, self.secret, self._world = rendezvous, secret, world
        self._used: dict[str, float] = {}
        self._lock = threading.Lock()

    def answer(self, headers: Any, body: bytes) -> _Answer:
        """Returns the answer; UNAUTHORIZED unless the request is signed, recent and new."""
        at, nonce = str(headers.get(_TIME, "")), str(headers.get(_NONCE_HEADER, ""))
        signature = str(headers.get(_SIGNED, ""))
        well_formed = (
            _SECONDS.fullmatch(at) and _NONCE.fullmatch(nonce) and _SIGNATURE.fullmatch(signature)
        )
        if not (well_formed and self.secret.verifies(signature, "POST", _JOIN, at, nonce, body)):
            return _Answer(HTTPStatus.UNAUTHORIZED, {"error": "the request is not signed"})
        skew = utc_moment().timestamp() - int(at)
        if abs(skew) > _MOST_SKEW_SECONDS:
            error = f"the clocks of the two workers differ by {abs(skew):.0f} s"
            return _Answer(HTTPStatus.UNAUTHORIZED, {"error": error}, nonce)
        if not self._is_new(nonce):
            return _Answer(HTTPStatus.UNAUTHORIZED, {"error": "the request was sent before"})
        requested = _parse_join(body, self._world)
        response = self._rendezvous.join(*requested) if requested else None
        if response is None:
            error = "invalid worker, phase or generation"
            return _Answer(HTTPStatus.BAD_REQUEST, {"error": error}, nonce)
        return _Answer(HTTPStatus.OK, response._asdict(), nonce)

    def _is_new(self, nonce: str) -> bool:
        """Remembers the nonces of signed requests while their time stamps are accepted."""
        now = time.monotonic()
        with self._lock:
            for old, until in tuple(self._used.items()):  # in order of arrival
                if until > now:
                    break
                del self._used[old]
            if nonce in self._used:
                return False
            self._used[nonce] = now + 2 * _MOST_SKEW_SECONDS
            return True


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE_SECONDS
    server_version = "cloudgan"
    sys_version = ""

    def do_GET(self) -> None:
        """Serves `/state`."""
        server = cast("_Server", self.server)
        if self.path.partition("?")[0] == "/state":
            self._unsigned(_Answer(HTTPStatus.OK, server.state.as_json()))
        else:
            self._unsigned(_NOT_FOUND)

    def do_POST(self) -> None:
        """Serves `/join`."""
        server = cast("_Server", self.server)
        length = self.headers.get("Content-Length", "")
        if self.path != _JOIN or server.join is None:
            self._unsigned(_NOT_FOUND)
        elif not (length.isascii() and length.isdigit() and len(length) < 5):  # noqa: PLR2004
            self._unsigned(_Answer(HTTPStatus.LENGTH_REQUIRED, {"error": "no Content-Length"}))
        elif int(length) > _MOST_REQUEST_BYTES:
            error = {"error": f"at most {_MOST_REQUEST_BYTES} bytes"}
            self._unsigned(_Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error))
        else:
            answer = server.join.answer(self.headers, self.rfile.read(int(length)))
            if answer.nonce:
                body = json.dumps(answer.content).encode()
                self._send(
                    answer.status, body, server.join.secret.sign("answer", answer.nonce, body)
                )
            else:
                self._unsigned(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's own name
        """Logs nothing: requests come every second."""

    def _unsigned(self, answer: _Answer) -> None:
        """Answers a request without signature; closes the connection if there are too many."""
        self.close_connection = True
        if cast("_Server", self.server).unsigned.admits(str(self.client_address[0])):
            self._send(answer.status, json.dumps(answer.content).encode())

    def _send(self, status: HTTPStatus, body: bytes, signature: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if signature:
            self.send_header(_SIGNED, signature)
        self.end_headers()
        self.wfile.write(body)


_NOT_FOUND = _Answer(
    HTTPStatus.NOT_FOUND, {"error": "valid: GET /state and, on worker 0, POST /join"}
)


def _parse_join(body: bytes, world: int) -> tuple[int, MemberState] | None:
    try:
        given = parse_json(body, "request")
        index, generation, port = (given[name] for name in ("index", "generation", "port"))
        incarnation, phase, notice = (given[name] for name in ("incarnation", "phase", "notice"))
    except (DataError, KeyError, TypeError):
        return None
    # The chief (index 0) does not join over HTTP.
    limits = ((index, 1, world - 1), (generation, 0, _MOST_GENERATION), (port, 0, _MOST_PORT))
    if not all(type(value) is int and low <= value <= high for value, low, high in limits):
        return None
    if not all(isinstance(text, str) for text in (incarnation, phase, notice)):
        return None
    if not _INCARNATION.fullmatch(incarnation) or phase not in _PHASES:
        return None
    known = cast("Phase", phase)
    member = MemberState(
        incarnation, known, generation, time.monotonic(), _decode_notice(notice), port
    )
    return index, member


def _encode_notice(notice: PreemptionNotice | None) -> str:
    """Encodes a notice as CLOUD-SECONDS; unknown seconds are empty."""
    if notice is None:
        return ""
    left = "" if notice.seconds is None else f"{min(notice.seconds, _LONGEST_SECONDS):.0f}"
    return f"{notice.cloud}-{left}"


def _decode_notice(word: str) -> PreemptionNotice | None:
    """Decodes a notice; None if it is invalid or empty."""
    found = _NOTICE.fullmatch(word)
    if found is None:
        return None
    return PreemptionNotice(found[1], float(found[2]) if found[2] else None)


def join_chief(
    address: tuple[str, int], index: int, incarnation: str, status: AgentStatus, secret: RunSecret
) -> JoinResponse:
    """Sends this worker's status to the chief and returns the response.

    Raises:
        OSError: The chief is unreachable; `socket.gaierror` if its name does not resolve.
        RejectedError: The chief rejects the request, or the response is not from a chief.
    """
    values = {
        "index": index,
        "incarnation": incarnation,
        "phase": status.phase,
        "generation": status.generation,
        "notice": _encode_notice(status.notice),
        "port": status.port,
    }
    body, nonce = json.dumps(values).encode(), secrets.token_hex(16)
    at = f"{utc_moment().timestamp():.0f}"
    headers = {
        _TIME: at,
        _NONCE_HEADER: nonce,
        _SIGNED: secret.sign("POST", _JOIN, at, nonce, body),
    }
    connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("POST", _JOIN, body, headers)
        answer = connection.getresponse()
        content = answer.read(_MOST_ANSWER_BYTES)
        signature = answer.getheader(_SIGNED, "")
        if not secret.verifies(signature, "answer", nonce, content):
            raise RejectedError("it does not have the secret of this run")
        found = parse_json(content, "answer")
        if answer.status != HTTPStatus.OK:
            raise RejectedError(str(found["error"]))
        return JoinResponse(**found | {"ports": tuple(found["ports"])})
    except (http.client.HTTPException, DataError, TypeError, KeyError) as error:
        raise RejectedError("it does not answer as a chief does") from error
    finally:
        connection.close()
