"""The services on a node that give a pod its credentials: EKS Pod Identity agent, Google's metadata server."""

from __future__ import annotations

import datetime as dt
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.asked.append(self.path)
                body = double.answer(self.path) if double.status == 200 else "not yet"
                self.send_response(double.status)
                self.send_header("Metadata-Flavor", "Google")
                self.send_header(
                    "Content-Type", "text/plain" if body[:1] != "{" else "application/json"
                )
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> str:
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
        found = known.get(path, "")
        return found if isinstance(found, str) else json.dumps(found)
