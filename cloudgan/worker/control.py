"""What a worker's parent tells over HTTP: `/state` to everybody, `/join` as the chief to the others.

Nothing can be commanded here. A request is one line with a few short values; whoever sends more,
or sends slowly, is cut off.
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

from cloudgan.worker.metadata import Notice
from cloudgan.worker.roster import Answer, Member

if TYPE_CHECKING:
    from cloudgan.core.heartbeat import Phase
    from cloudgan.worker.roster import Roster
    from cloudgan.worker.state import Standing, WorkerState

_AT_A_TIME = 64
_PATIENCE_SECONDS = 5.0
_MOST_ANSWER_BYTES = 4096
_INCARNATION = re.compile(r"[0-9A-Za-z-]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,6}")
_NOTICE = re.compile(r"([a-z]{1,16})-([0-9]{0,6})")
_LONGEST_SECONDS = 999_999.0
_PHASES = frozenset({"staging", "waiting", "training", "ended"})


class ControlServer:
    """Answers in threads of its own until it is closed."""

    def __init__(
        self, address: tuple[str, int], state: WorkerState, roster: Roster | None = None
    ) -> None:
        """Listens on `address`; answers `/join` where there is a roster."""
        self._server = _Server(address, state, roster)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], state: WorkerState, roster: Roster | None) -> None:
        self.state, self.roster = state, roster
        self._places = threading.BoundedSemaphore(_AT_A_TIME)
        if ":" in address[0] or (not address[0] and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Listens for both kinds of addresses where no one is named."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks DNS for our name

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers in a thread, but not in more than a few at a time."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Gives its place back when it is done."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: who hangs up in the middle is no news."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE_SECONDS
    server_version = "cloudgan"
    sys_version = ""

    def do_GET(self) -> None:
        """Answers what is known."""
        server = cast("_Server", self.server)
        parts = urlsplit(self.path)
        if parts.path == "/state":
            self._answer(HTTPStatus.OK, server.state.shown())
        elif parts.path == "/join" and server.roster:
            asked = _parse_join(parts.query, server.state.world)
            if asked is None:
                self._answer(HTTPStatus.BAD_REQUEST, {"error": "no such worker or phase"})
            else:
                self._answer(HTTPStatus.OK, server.roster.join(*asked)._asdict())
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there is /state and, of worker 0, /join"})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's own name
        """Says nothing: it is asked every second."""

    def _answer(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _parse_join(query: str, world: int) -> tuple[int, Member] | None:
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
    if not 0 < int(index) < world:  # the chief does not join itself
        return None
    notice = _heard(given.get("notice", ""))
    now = time.monotonic()
    return int(index), Member(incarnation, cast("Phase", phase), int(generation), now, notice)


def _told(notice: Notice | None) -> str:
    """A notice in one word: its cloud, and the seconds where they are known."""
    if notice is None:
        return ""
    left = "" if notice.seconds is None else f"{min(notice.seconds, _LONGEST_SECONDS):.0f}"
    return f"{notice.cloud}-{left}"


def _heard(word: str) -> Notice | None:
    """The same, read; None where it is no notice."""
    found = _NOTICE.fullmatch(word)
    if found is None:
        return None
    return Notice(found[1], float(found[2]) if found[2] else None)


def ask_chief(address: tuple[str, int], index: int, incarnation: str, standing: Standing) -> Answer:
    """Tells the chief how this worker stands, and returns what it answers.

    Raises:
        OSError: It cannot be reached; `socket.gaierror` where its name does not resolve.
        ValueError: What answers is no chief of ours.
    """
    query = urlencode(
        {
            "index": index,
            "incarnation": incarnation,
            "phase": standing.phase,
            "generation": standing.generation,
            "notice": _told(standing.notice),
        }
    )
    connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", f"/join?{query}")
        body = connection.getresponse().read(_MOST_ANSWER_BYTES)
        return Answer(**json.loads(body))
    except (http.client.HTTPException, TypeError) as error:
        raise ValueError(f"what answers at {address[0]}:{address[1]} is no chief") from error
    finally:
        connection.close()
