"""TLS server for the Resource Manager and Entra ID, selected by host name."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from emulators.azure.arm import HOST
from emulators.azure.faults import Answer, Refusal
from emulators.azure.rights import action_of, is_allowed

if TYPE_CHECKING:
    from emulators.azure.arm import Arm
    from emulators.azure.certificates import Files
    from emulators.azure.entra import Entra
    from emulators.azure.lists import Lists
    from emulators.azure.rights import Assignment

LOGIN = "login.microsoftonline.com"


class Server:
    """Answers on a free port of loopback until it is closed."""

    def __init__(self, arm: Arm, lists: Lists, entra: Entra, files: Files) -> None:
        self.arm, self.lists, self.entra = arm, lists, entra
        self.grants: list[Assignment] | None = None
        """Roles of the login; None: it may do everything."""
        lists.grants = lambda: self.grants
        self.skew_seconds = 0.0
        """How far Azure's clock is ahead of this machine's."""
        handler = type("Handler", (_Handler,), {"server_of": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.socket = files.context().wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, url: str, body: bytes, token: str) -> Answer:
        """Answers a request to the Resource Manager."""
        try:
            self._refuse_invalid_token(token)
            parts = urlsplit(url)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            with self.arm.lock:
                path = unquote(parts.path)
                sent = json.loads(body) if body else None
                self._refuse_unless_granted(method, path, sent)
                found = self.lists.list(path, query) if method == "GET" else None
                if found is None:
                    return self.arm.ask(method, url, sent)
                self.arm.calls.append((method, path))
                self.arm.faults.meet(method, path)
                return self._page(found, parts.path, query)
        except Refusal as refusal:
            return refusal.answer

    def _refuse_unless_granted(self, method: str, path: str, body: Any) -> None:
        if "/operations/" in path and "microsoft.containerservice" not in path.lower():
            return
        if self.grants is None or is_allowed(self.grants, method, path, body):
            return
        action = action_of(method, path)
        raise Refusal(
            403,
            "AuthorizationFailed",
            f"The client 'a-service-principal' does not have authorization to perform action"
            f" '{action}' over scope '{path}' or the scope is invalid.",
        )

    def _page(self, found: list[Any], path: str, query: dict[str, str]) -> Answer:
        """A part of a list, and where the next one is."""
        begin = int(query.pop("$skiptoken", "0"))
        if begin and self.lists.loses_pages:
            raise Refusal(404, "NotFound", "The page that the token names does not exist.")
        end = begin + self.lists.page
        body: dict[str, Any] = {"value": found[begin:end]}
        if end < len(found):
            body["nextLink"] = f"{HOST}{path}?{urlencode(query | {'$skiptoken': str(end)})}"
        return Answer(200, body)

    def _refuse_invalid_token(self, token: str) -> None:
        try:
            payload = token.removeprefix("Bearer ").split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
        except (IndexError, ValueError):
            raise Refusal(401, "AuthenticationFailed", "Authentication failed.") from None
        if claims["aud"] != HOST:
            raise Refusal(401, "InvalidAuthenticationTokenAudience", f"not {claims['aud']}")
        if claims["exp"] < time.time() + self.skew_seconds:
            raise Refusal(401, "ExpiredAuthenticationToken", "The access token has expired.")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: Server
    wbufsize = -1  # one packet for an answer
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Writes no log: the requests are in a list."""

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server_of
        if self.headers.get("Host", "").startswith(LOGIN):
            status, found = server.entra.ask(self.command, urlsplit(self.path).path, body)
            self._send(Answer(status, found))
            return
        token = self.headers.get("Authorization") or ""
        self._send(server.answer(self.command, self.path, body, token))

    do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815

    def _send(self, answer: Answer) -> None:
        content = json.dumps(answer.body).encode() if answer.body is not None else b""
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
