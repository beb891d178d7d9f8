"""TLS server for the Resource Manager and Entra ID, selected by host name."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from emulators.azure.arm import HOST, Arm
from emulators.azure.entra import Entra
from emulators.azure.faults import Refusal
from emulators.azure.lists import Lists
from emulators.azure.rights import Assignment, action_of, is_allowed
from emulators.certificates import Files
from emulators.http import Answer, Asked, HttpServer

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
        server = HttpServer(self._served, files.context())
        self.port, self.close = server.port, server.close

    def _served(self, asked: Asked) -> Answer:
        parts = urlsplit(asked.target)
        if asked.headers.get("Host", "").startswith(LOGIN):
            return Answer(*self.entra.ask(asked.method, parts.path, asked.body))
        try:
            self._refuse_invalid_token(asked.headers.get("Authorization") or "")
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            with self.arm.lock:
                path = unquote(parts.path)
                sent = json.loads(asked.body) if asked.body else None
                self._refuse_unless_granted(asked.method, path, sent)
                found = self.lists.list(path, query) if asked.method == "GET" else None
                if found is None:
                    return self.arm.ask(asked.method, asked.target, sent)
                self.arm.calls.append((asked.method, path))
                self.arm.faults.strike(asked.method, path)
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
