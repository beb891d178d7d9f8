"""The services on a node that give a pod its credentials: EKS Pod Identity agent, Google's metadata server."""

from __future__ import annotations

import datetime as dt
from typing import Any

from emulators.http import Answer, Asked, HttpServer

_GOOGLE = "/computeMetadata/v1/"
_ACCOUNT = f"{_GOOGLE}instance/service-accounts/default/"


class IdentityDouble:
    """Answers on loopback, with credentials or with a status.

    Attributes:
        status: Of every answer; 200: credentials.
        seconds: Validity of the credentials. SDKs renew them before each request in their last minutes.
        asked: Paths of all requests.
    """

    def __init__(self, status: int = 200) -> None:
        self.status, self.seconds = status, 60.0
        self.asked: list[str] = []
        self._server = HttpServer(self._answer)
        self.address, self.close = self._server.url, self._server.close

    def _answer(self, asked: Asked) -> Answer:
        self.asked.append(asked.target)
        body = self._content(asked.target) if self.status == 200 else "not yet"
        kind = "text/plain" if isinstance(body, str) else "application/json"
        return Answer(self.status, body, {"Metadata-Flavor": "Google", "Content-Type": kind})

    def _content(self, path: str) -> Any:
        path = path.partition("?")[0]
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=self.seconds)
        known: dict[str, Any] = {
            "/v1/credentials": {
                "AccessKeyId": "KEY",
                "SecretAccessKey": "secret",
                "Token": "session",
                "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            f"{_GOOGLE}project/project-id": "lab",
            f"{_GOOGLE}universe/universe-domain": "googleapis.com",
            _ACCOUNT: {"email": "default", "scopes": [], "aliases": []},
            f"{_ACCOUNT}token": {
                "access_token": "token",
                "expires_in": self.seconds,
                "token_type": "Bearer",
            },
        }
        return known.get(path, "")
