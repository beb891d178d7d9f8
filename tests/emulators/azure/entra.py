"""Entra ID: unsigned tokens."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from azure.core.credentials import AccessToken

TENANT = "00000000-0000-0000-0000-0000000000aa"
SECRET, OBJECT = "planted-secret", "00000000-0000-0000-0000-0000000000cc"
AKS = "6dae42f8-4368-4678-94ff-3960e28e3630"


def jwt(audience: str, seconds: float = 3600, who: str = OBJECT) -> str:
    """A token for a service, of a user by object id."""
    now = int(time.time())
    claims = {
        "aud": audience,
        "iss": f"https://sts.windows.net/{TENANT}/",
        "iat": now,
        "nbf": now - 60,
        "exp": now + int(seconds),
        "oid": who,
        "tid": TENANT,
        "appid": "a-service-principal",
        "idtyp": "app",
    }
    parts = ({"alg": "RS256", "typ": "JWT"}, claims, {})
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    )


@dataclass
class Entra:
    """Answers the requests of azure-identity, and keeps the tokens that it issued."""

    aks_token: Any = None
    given: list[tuple[str, str]] = field(default_factory=list)
    """Client, and for which service."""

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        root = f"https://login.microsoftonline.com/{TENANT}"
        if path.endswith("/.well-known/openid-configuration"):
            return 200, {
                "token_endpoint": f"{root}/oauth2/v2.0/token",
                "authorization_endpoint": f"{root}/oauth2/v2.0/authorize",
                "issuer": f"{root}/v2.0",
            }
        form = {name: values[-1] for name, values in parse_qs(body.decode()).items()}
        if method != "POST" or form.get("grant_type") != "client_credentials":
            return 400, {"error": "invalid_request"}
        if form.get("client_secret", SECRET) != SECRET:
            said = "AADSTS7000215: Invalid client secret provided. Trace ID: 1"
            return 401, {"error": "invalid_client", "error_description": said}
        # MSAL for Go, which rclone has, asks for `openid offline_access profile` besides.
        service = form["scope"].split()[0].removesuffix("/.default")
        self.given.append((form["client_id"], service))
        token = self.aks_token() if service == AKS else jwt(service)
        return 200, {"token_type": "Bearer", "expires_in": 3600, "access_token": token}


@dataclass
class Login:
    """A credential of a logged-in user, as azure-identity's."""

    aks_token: Any = None
    seconds: float = 3600
    who: str = OBJECT
    asked: list[str] = field(default_factory=list)

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        self.asked.append(scopes[0])
        service = scopes[0].removesuffix("/.default")
        token = self.aks_token() if service == AKS else jwt(service, self.seconds, self.who)
        return AccessToken(token, int(time.time() + self.seconds))
