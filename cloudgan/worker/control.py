"""How a worker takes part in the rendezvous: the chief in process, a follower over HTTP.

The HTTP between the agents: `/state` for probes and, on the chief, `/join` for the other workers.

It accepts no commands. `/state` is open, because a kubelet's probe has no secret, and shows phase and step only.
`/join` needs the token of the run's workers, and its answer carries that of the chief: who does not have the
secret of the run can neither join nor pose as the chief.

Threat model: the run's NetworkPolicy keeps other pods from this port as from TensorFlow's, which has no
authentication at all; `deploy` probes whether it does. So neither encryption nor limits for one address are here.
Who can read the traffic learns both tokens, and who answers at the address of the chief that of the workers.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast

from pydantic import Field, ValidationError

from cloudgan.core.documents import parse_json
from cloudgan.core.errors import DataError
from cloudgan.core.run_secret import RunSecret
from cloudgan.storage.store import StoreError
from cloudgan.worker.pod_environment import Peers
from cloudgan.worker.rendezvous import AgentState, AgentStatus, JoinResponse, Rendezvous
from cloudgan.worker.trainer_process import Timeouts

_AT_A_TIME: Final = 64
_PATIENCE_SECONDS: Final = 5.0
_MOST_REQUEST_BYTES: Final = 1024
_MOST_ANSWER_BYTES: Final = 65_536
_MOST_DIGITS: Final = 10
_JOIN: Final = "/join"
_WORKER, _CHIEF = "worker", "chief"
_STORE_PAUSE_SECONDS: Final = 5.0
_TOKEN: Final = "Cloudgan-Token"  # noqa: S105  the name of a header


class RejectedError(ValueError):
    """The chief rejects the requests of this worker, or its response is not from a chief."""


class JoinRequest(AgentStatus):
    """Body of a `/join`: the status of a worker other than the chief."""

    index: int = Field(ge=1)


class ControlServer(ThreadingHTTPServer):
    """Serves requests in threads until it is closed."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        state: AgentState,
        rendezvous: Rendezvous | None = None,
        secret: RunSecret | None = None,
    ) -> None:
        """Listens on `address`; serves `/join` if there is a rendezvous and a secret."""
        self.state, self.rendezvous, self.secret = state, rendezvous, secret
        self._free = threading.BoundedSemaphore(_AT_A_TIME)
        if ":" in address[0] or (not address[0] and socket.has_dualstack_ipv6()):
            self.address_family = socket.AF_INET6
        # The supervisor of nodes on this machine holds the ports of their agents.
        self.allow_reuse_port = address[0] in {"127.0.0.1", "::1", "localhost"}
        super().__init__(address, _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops the server."""
        self.shutdown()
        self._thread.join()
        self.server_close()

    def server_bind(self) -> None:
        """Listens on IPv4 and IPv6 unless an address is given."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own queries DNS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serves the request in a thread; closes the connection if there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Releases the slot after the request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores aborted connections."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE_SECONDS
    server_version = "cloudgan"
    sys_version = ""

    def do_GET(self) -> None:
        """Serves `/state`."""
        if self.path.partition("?")[0] == "/state":
            self._send(HTTPStatus.OK, cast("ControlServer", self.server).state.as_json())
        else:
            self._refuse_path()

    def do_POST(self) -> None:
        """Serves `/join`."""
        server = cast("ControlServer", self.server)
        length = self.headers.get("Content-Length", "")
        if self.path != _JOIN or server.rendezvous is None or server.secret is None:
            self._refuse_path()
        elif not (length.isascii() and length.isdigit() and len(length) <= _MOST_DIGITS):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "no Content-Length")
        elif int(length) > _MOST_REQUEST_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_MOST_REQUEST_BYTES} bytes"
            )
        else:
            body = self.rfile.read(int(length))
            if server.secret.is_token(self.headers.get(_TOKEN, ""), _WORKER):
                self._join(server.rendezvous, server.secret.token(_CHIEF), body)
            else:
                self._refuse(HTTPStatus.UNAUTHORIZED, "the request has no token of this run")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's own name
        """Logs nothing: requests come every second."""

    def _join(self, rendezvous: Rendezvous, proof: str, body: bytes) -> None:
        response, world = None, cast("ControlServer", self.server).state.world
        with contextlib.suppress(ValidationError):
            asked = JoinRequest.model_validate_json(body)
            if asked.index < world:
                response = rendezvous.join(asked.index, asked, time.monotonic())
        if response is None:
            why = "invalid worker, phase or generation"
            self._send(HTTPStatus.BAD_REQUEST, {"error": why}, proof)
        else:
            self._send(HTTPStatus.OK, response.model_dump(), proof)

    def _refuse_path(self) -> None:
        self._refuse(HTTPStatus.NOT_FOUND, "valid: GET /state and, on worker 0, POST /join")

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._send(status, {"error": why})

    def _send(self, status: HTTPStatus, content: dict[str, Any], proof: str = "") -> None:
        """Sends an answer, with the token of the chief to a worker of the run."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if proof:
            self.send_header(_TOKEN, proof)
        self.end_headers()
        self.wfile.write(body)


def join_chief(
    address: tuple[str, int], index: int, status: AgentStatus, secret: RunSecret
) -> JoinResponse:
    """Sends this worker's status to the chief and returns the response.

    Raises:
        OSError: The chief is unreachable; `socket.gaierror` if its name does not resolve.
        RejectedError: The chief rejects the request, or the response is not from a chief.
    """
    body = JoinRequest(index=index, **dict(status)).model_dump_json().encode()
    connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("POST", _JOIN, body, {_TOKEN: secret.token(_WORKER)})
        answer = connection.getresponse()
        content = answer.read(_MOST_ANSWER_BYTES)
        if not secret.is_token(answer.getheader(_TOKEN, ""), _CHIEF):
            raise RejectedError("it does not have the secret of this run")
        if answer.status != HTTPStatus.OK:
            raise RejectedError(str(parse_json(content, "answer")["error"]))
        return JoinResponse.model_validate_json(content)
    except (http.client.HTTPException, DataError, ValidationError, KeyError) as error:
        raise RejectedError("it does not answer as a chief does") from error
    finally:
        connection.close()


class ChiefRendezvousClient:
    """Client of the worker that holds the rendezvous: worker 0, or one that works without the others."""

    def __init__(
        self,
        state: AgentState,
        rendezvous: Rendezvous,
        before_begin: Callable[[], tuple[str, ...]],
    ) -> None:
        """Calls `before_begin` once before each training; all wait while the store fails.

        It returns the arguments with which each worker starts its ranks; empty: there are none.
        """
        self._state, self._rendezvous, self._before_begin = state, rendezvous, before_begin
        self._is_prepared = False
        self._launch: tuple[str, ...] = ()
        self._not_before_seconds = float("-inf")

    def next_generation(self) -> int | None:
        """Starts a generation when all workers wait; returns its number, None while this worker waits."""
        self.notify()
        now = time.monotonic()
        if not self._rendezvous.all_waiting(now) or now < self._not_before_seconds:
            return None
        if not (self._is_prepared or self._rendezvous.is_smoke_step_due()):
            try:
                self._launch = self._before_begin()
            except StoreError:
                self._not_before_seconds = time.monotonic() + _STORE_PAUSE_SECONDS
                return None
            self._is_prepared = True
        self.notify()
        generation = self._rendezvous.begin(time.monotonic(), self._launch)
        if generation is not None:
            self._is_prepared = False
        return generation

    def restart_reason(self) -> str | None:
        """Returns why the present generation must end: a worker of it waits again; None if it need not."""
        self.notify()
        who = self._rendezvous.waiting_member()
        return None if who is None else f"worker {who} waits for a restart"

    def response(self) -> JoinResponse:
        """Returns the response to the chief's own status, which describes the present generation."""
        found = self._rendezvous.join(0, self._state.status, time.monotonic())
        assert found is not None  # noqa: S101  the chief has begun its generation itself
        return found

    def missing_workers(self) -> tuple[int, ...]:
        """Returns the workers without a recent request."""
        self.notify()
        return self._rendezvous.missing_members(time.monotonic())

    def notify(self) -> None:
        """Updates the chief's own status."""
        self.response()

    def close(self, exit_code: int) -> None:
        """Serves the exit code from now on."""
        self.notify()
        self._rendezvous.exit_code = exit_code


class FollowerRendezvousClient:
    """Client of the other workers: a thread sends their status to the chief every second."""

    def __init__(
        self,
        peers: Peers,
        state: AgentState,
        timeouts: Timeouts,
        secret: RunSecret,
        *,
        say: Callable[[str], None],
    ) -> None:
        """Has the `secret` of the run; reports a chief that rejects them to `say`."""
        self._peers, self._state, self._timeouts = peers, state, timeouts
        self._secret, self._say, self._rejected = secret, say, ""
        self._latest: tuple[AgentStatus | None, JoinResponse] = (None, JoinResponse())
        self._heard_seconds = time.monotonic()
        self._changed = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="join", daemon=True)
        self._thread.start()

    def next_generation(self) -> int | None:
        """Returns the generation that the chief started with this worker; None while it waits."""
        answer = self._present_answer()
        return answer.generation if answer and answer.start else None

    def restart_reason(self) -> str | None:
        """Returns why the present generation must end: the chief says so, or nothing; None if it need not."""
        silent = self._silent_seconds()
        if silent > self._timeouts.chief_timeout_seconds:
            return f"worker 0 did not respond for {silent:.0f} s"
        answer = self._present_answer()
        return "the other workers wait for a restart" if answer and answer.restart else None

    def response(self) -> JoinResponse:
        """Returns the last response."""
        return self._latest[1]

    def missing_workers(self) -> tuple[int, ...]:
        """Returns the chief if it does not respond; the chief knows about the others."""
        return (0,) if self._silent_seconds() > self._timeouts.fresh_seconds else ()

    def notify(self) -> None:
        """Sends the status now."""
        self._changed.set()

    def close(self, exit_code: int) -> None:
        """Stops polling."""
        del exit_code
        self._closed = True
        self._changed.set()

    def _present_answer(self) -> JoinResponse | None:
        """Returns the last response if this worker's status is still the one that it answers."""
        sent, answer = self._latest
        return answer if sent == self._state.status else None

    def _silent_seconds(self) -> float:
        return time.monotonic() - self._heard_seconds

    def _run(self) -> None:
        address = self._peers.control(0)
        while not self._closed:
            status = self._state.status
            pause = self._timeouts.join_every_seconds
            try:
                answer = join_chief(address, self._state.index, status, self._secret)
            except socket.gaierror:
                pause = self._timeouts.resolve_every_seconds  # a starting pod has no DNS name yet
            except RejectedError as error:
                if (reason := str(error)) != self._rejected:  # once per reason
                    self._rejected, (host, port) = reason, address
                    self._say(f"worker 0 ({host}:{port}) is not accepted: {reason}")
            except (OSError, ValueError):
                pass
            else:
                self._latest, self._heard_seconds = (status, answer), time.monotonic()
            self._changed.wait(pause)
            self._changed.clear()


RendezvousClient = ChiefRendezvousClient | FollowerRendezvousClient
