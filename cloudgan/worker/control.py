"""HTTP control server of a worker: `/state` for probes and, on the chief, `/join` for the workers.

It accepts no commands. Requests have one line with a few short values; longer or slower requests
are rejected.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import socketserver
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from cloudgan.worker.preemption import PreemptionNotice
from cloudgan.worker.rendezvous import JoinResponse, MemberState

if TYPE_CHECKING:
    from cloudgan.schema.heartbeat import Phase
    from cloudgan.worker.rendezvous import Rendezvous
    from cloudgan.worker.state import AgentState, AgentStatus

_AT_A_TIME = 64
_PATIENCE_SECONDS = 5.0
_MOST_ANSWER_BYTES = 4096
_INCARNATION = re.compile(r"[0-9A-Za-z-]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,6}")
_NOTICE = re.compile(r"([a-z]{1,16})-([0-9]{0,6})")
_LONGEST_SECONDS = 999_999.0
_PHASES = frozenset({"staging", "waiting", "training", "ended"})


class ControlServer:
    """Serves requests in threads until it is closed."""

    def __init__(
        self, address: tuple[str, int], state: AgentState, rendezvous: Rendezvous | None = None
    ) -> None:
        """Listens on `address`; serves `/join` if there is a rendezvous."""
        self._server = _Server(address, state, rendezvous)
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

    def __init__(
        self, address: tuple[str, int], state: AgentState, rendezvous: Rendezvous | None
    ) -> None:
        self.state, self.rendezvous = state, rendezvous
        self._places = threading.BoundedSemaphore(_AT_A_TIME)
        if ":" in address[0] or (not address[0] and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Listens on IPv4 and IPv6 unless an address is given."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own queries DNS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves the request in a thread; limits the number of threads."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Releases the slot after the request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores aborted connections."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE_SECONDS
    server_version = "cloudgan"
    sys_version = ""

    def do_GET(self) -> None:
        """Serves `/state` and `/join`."""
        server = cast("_Server", self.server)
        parts = urlsplit(self.path)
        if parts.path == "/state":
            self._answer(HTTPStatus.OK, server.state.as_json())
        elif parts.path == "/join" and server.rendezvous:
            requested = _parse_join(parts.query, server.state.world)
            if requested is None:
                self._answer(HTTPStatus.BAD_REQUEST, {"error": "invalid worker or phase"})
            else:
                self._answer(HTTPStatus.OK, server.rendezvous.join(*requested)._asdict())
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "valid: /state and, on worker 0, /join"})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's own name
        """Logs nothing: requests come every second."""

    def _answer(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _parse_join(query: str, world: int) -> tuple[int, MemberState] | None:
    try:
        given = {name: values[0] for name, values in parse_qs(query, max_num_fields=8).items()}
    except ValueError:
        return None
    index, generation = given.get("index", ""), given.get("generation", "")
    incarnation, phase = given.get("incarnation", ""), given.get("phase", "")
    if not (_NUMBER.fullmatch(index) and _NUMBER.fullmatch(generation)):
        return None
    if not _INCARNATION.fullmatch(incarnation) or phase not in _PHASES:
        return None
    if not 0 < int(index) < world:  # the chief does not join over HTTP
        return None
    notice = _decode_notice(given.get("notice", ""))
    now = time.monotonic()
    return int(index), MemberState(incarnation, cast("Phase", phase), int(generation), now, notice)


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
    address: tuple[str, int], index: int, incarnation: str, status: AgentStatus
) -> JoinResponse:
    """Sends this worker's status to the chief and returns the response.

    Raises:
        OSError: The chief is unreachable; `socket.gaierror` if its name does not resolve.
        ValueError: The response is not from a chief.
    """
    query = urlencode(
        {
            "index": index,
            "incarnation": incarnation,
            "phase": status.phase,
            "generation": status.generation,
            "notice": _encode_notice(status.notice),
        }
    )
    connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", f"/join?{query}")
        body = connection.getresponse().read(_MOST_ANSWER_BYTES)
        return JoinResponse(**json.loads(body))
    except (http.client.HTTPException, TypeError) as error:
        raise ValueError(f"unexpected response from {address[0]}:{address[1]}") from error
    finally:
        connection.close()
