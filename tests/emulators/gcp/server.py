"""The server; validates requests by discovery documents and counts time in requests.

The first part of a path is the API's host, as in ``/container.googleapis.com/v1/projects/...``: so
one address serves all of Google's hosts. Time that is counted in requests, not in seconds, makes slow
operations and late lists the same in each run of a test.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from emulators.faults import Faults
from emulators.gcp.discovery import Api, Match
from emulators.gcp.iam_conditions import Binding, resource_of, roles_of
from emulators.gcp.refusal import Refusal
from emulators.http import Answer, AnswerLost, Asked, HttpServer

TOKEN = "test-token"  # noqa: S105


class Call(NamedTuple):
    """A valid request, as a handler gets it."""

    method: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: dict[str, Any]


class Route(NamedTuple):
    """The handler of a method, and the permissions that it requires."""

    handler: Callable[[Call], dict[str, Any]]
    permissions: tuple[str, ...] = ()


class Seen(NamedTuple):
    """A received request; `method` is empty if no API has such a path."""

    verb: str
    path: str
    method: str
    status: int
    query: Mapping[str, str]
    body: Any
    permissions: tuple[str, ...]


class GoogleServer:
    """Serves on one port of loopback from its creation to `stop`.

    Attributes:
        ticks: Requests so far; they are the server's time.
        hidden_ticks: For how many requests a new resource is neither found nor listed.
        skew: How far the clock of the server is ahead of ours.
        tokens: The bindings of the roles of those who may come in; None: all rights.
        issued: The token that a key file is exchanged for.
        refuses: Whether an API, named by its host, answers SERVICE_DISABLED.
    """

    def __init__(
        self, apis: tuple[Api, ...], routes: Mapping[str, Route] = MappingProxyType({})
    ) -> None:
        self.apis = {api.host: api for api in apis}
        self.routes: dict[str, Route] = {}
        self.add(routes)
        self.ticks, self.hidden_ticks = 0, 0
        self.skew = dt.timedelta()
        self.tokens: dict[str, tuple[Binding, ...] | None] = {TOKEN: None}
        self.issued = TOKEN
        self.refuses: Callable[[str], bool] = lambda _: False
        self.seen: list[Seen] = []
        self.troubles: list[str] = []
        """Answers that break Google's contract: `serving` fails if there is one."""
        self._faults = Faults()
        self._lock = threading.RLock()
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._server = HttpServer(self._served, skew=lambda: self.skew)
        self.stop = self._server.close

    @property
    def url(self) -> str:
        """Its address; ``<url>/<host>/<path>`` replaces ``https://<host>/<path>``."""
        return self._server.url

    def add(self, routes: Mapping[str, Route]) -> None:
        """Adds methods, which a discovery document must have."""
        unknown = set(routes) - {name for api in self.apis.values() for name in api.methods}
        assert not unknown, f"no discovery document has {sorted(unknown)}"
        self.routes |= routes

    # Faults and changes that a test plans.

    def refuse(self, method: str, refusal: Refusal, *, times: int = 1) -> None:
        """Answers the next calls, whose id matches, with a refusal; nothing is done for them."""
        self._faults.plan(method, refusal, times)

    def lose_answer(self, method: str) -> None:
        """Does what the next call asks and resets its connection."""
        self._faults.plan(method, AnswerLost(), acts=True)

    def later(self, ticks: int, action: Callable[[], None]) -> None:
        """Calls a function after so many more requests; 0: at once."""
        if ticks <= 0:
            action()
        else:
            self._later.append((self.ticks + ticks, action))

    # What handlers need.

    def is_shown(self, made_tick: int) -> bool:
        """Whether a resource that was created at this tick is found and listed already."""
        return self.ticks >= made_tick + self.hidden_ticks

    def moment(self) -> str:
        """Returns now by the server's clock, as Google writes it."""
        return (dt.datetime.now(dt.UTC) + self.skew).strftime("%Y-%m-%dT%H:%M:%SZ")

    def methods(self) -> list[str]:
        """Returns the ids of the methods called so far, in order."""
        return [one.method for one in self.seen]

    # Called for each request.

    def _served(self, asked: Asked) -> Answer:
        if asked.target == "/token":
            return self._exchange(asked.body)
        try:
            return Answer(200, self._answered(asked))
        except Refusal as refusal:
            return refusal.answer()

    def _exchange(self, body: bytes) -> Answer:
        """Issues a token for an assertion that a key signed, as https://oauth2.googleapis.com/token does."""
        if b"assertion=" not in body:
            why = {"error": "invalid_grant", "error_description": "no assertion"}
            return Answer(400, why)
        token = {"access_token": self.issued, "expires_in": 3600, "token_type": "Bearer"}
        return Answer(200, token)

    def _answered(self, asked: Asked) -> dict[str, Any]:
        verb, body = asked.method, asked.body
        token = (asked.headers.get("Authorization") or "").removeprefix("Bearer ")
        address = urlsplit(asked.target)
        query = {k.lstrip("$"): ",".join(v) for k, v in parse_qs(address.query, True).items()}
        host, _, path = address.path.lstrip("/").partition("/")
        found = self.apis[host].match(verb, f"/{path}") if host in self.apis else None
        route = self.routes.get(found.method.id) if found else None
        decoded = json.loads(body) if body else None
        with self._lock:
            status = 0
            try:
                answer = self._do(found, route, query, decoded, token=token, path=path)
                status = 200
            except Refusal as refusal:
                status = refusal.code
                raise
            finally:
                method = found.method.id if found else ""
                rights = route.permissions if route else ()
                self.seen.append(Seen(verb, address.path, method, status, query, decoded, rights))
        return answer

    def _do(
        self,
        found: Match | None,
        route: Route | None,
        query: dict[str, str],
        body: Any,
        *,
        token: str,
        path: str,
    ) -> dict[str, Any]:
        self._tick()
        if found is None:
            raise Refusal(404, "The requested URL was not found on this server.")
        fault = self._faults.meet(found.method.id)
        if fault and not fault.acts:
            raise fault.error
        self._refuse_disabled(found.api.host)
        self._check_rights(token, route, found.api.host, path, body)
        api, method = found.api, found.method
        if wrong := [*api.wrong_query(method, query), *api.wrong_request(method, body)]:
            raise Refusal(400, "Invalid JSON payload or parameter: " + "; ".join(wrong))
        if route is None:
            raise Refusal(501, f"the emulator has no {method.id}")
        answer = route.handler(Call(method.id, found.path, query, body or {}))
        if wrong := api.wrong_answer(method, answer):
            self.troubles.append(f"{method.id}: {'; '.join(wrong)}")
            raise Refusal(500, f"the emulator breaks the contract: {self.troubles[-1]}")
        if fault:
            raise fault.error
        return answer

    def _refuse_disabled(self, host: str) -> None:
        """https://github.com/hashicorp/terraform-provider-google/issues/8214 (read 2026-11-22)."""
        if self.refuses(host):
            raise Refusal(
                403,
                f"{host} has not been used in project 123456789 before or it is disabled. If you"
                " enabled this API recently, wait a few minutes for the action to propagate to our"
                " systems and retry.",
                reason="SERVICE_DISABLED",
            )

    def _check_rights(
        self, token: str, route: Route | None, host: str, path: str, body: Any
    ) -> None:
        if token not in self.tokens:
            raise Refusal(
                401,
                "Request had invalid authentication credentials. Expected OAuth 2 access token.",
                reason="ACCESS_TOKEN_EXPIRED",
            )
        granted = self.tokens[token]
        if route is None or granted is None:
            return
        for one in route.permissions:
            resource = resource_of(one, host, path)
            if not any(each.grants(one, resource, roles_of(body)) for each in granted):
                raise Refusal(
                    403,
                    f'Required "{one}" permission(s) for this resource.',
                    reason="IAM_PERMISSION_DENIED",
                )

    def _tick(self) -> None:
        self.ticks += 1
        due = [action for when, action in self._later if when <= self.ticks]
        self._later = [(when, action) for when, action in self._later if when > self.ticks]
        for action in due:
            action()


@contextlib.contextmanager
def serving(server: GoogleServer) -> Iterator[GoogleServer]:
    """Runs a server; fails at its end if an answer violated Google's discovery documents."""
    try:
        yield server
    finally:
        server.stop()
    assert not server.troubles, server.troubles
