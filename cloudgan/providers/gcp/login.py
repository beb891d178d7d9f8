"""Who is logged in to Google Cloud, and the token that a cluster takes from them."""

from __future__ import annotations

import threading
from typing import Any

import google.auth
import requests
from google.auth import exceptions as login
from google.auth.transport.requests import AuthorizedSession, Request

from cloudgan.core.errors import CredentialsError
from cloudgan.providers.gcp.api import LOG_IN
from cloudgan.providers.gcp.refusal import sentence

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class Login:
    """A login that renews itself.

    Args:
        credentials: Of google-auth.
        project: That the login names; None: it names none.
    """

    def __init__(self, credentials: Any, project: str | None) -> None:
        self._credentials, self.project = credentials, project
        self._lock = threading.Lock()

    @classmethod
    def find(cls) -> Login:
        """Finds a login as all of Google's libraries do.

        Raises:
            CredentialsError: There is none; says how to make one.
        """
        try:
            credentials, project = google.auth.default(scopes=[_SCOPE])
        except (login.GoogleAuthError, OSError) as error:
            raise CredentialsError(f"Google Cloud: no login was found; {LOG_IN}") from error
        return cls(credentials, project)

    @property
    def who(self) -> str:
        """An address where the login knows its own."""
        for name in ("service_account_email", "account"):
            if (found := getattr(self._credentials, name, None)) and found != "default":
                return str(found)
        return "the login of a user"

    def session(self) -> Any:
        """Returns what sends requests in this name."""
        return AuthorizedSession(self._credentials)  # type: ignore[no-untyped-call]

    def token(self) -> str:
        """Returns a token that is valid now.

        Raises:
            CredentialsError: It is not renewed any more.
        """
        with self._lock:
            if not self._credentials.valid:
                try:
                    self._credentials.refresh(Request())
                except (login.GoogleAuthError, requests.RequestException) as error:
                    raise CredentialsError(
                        f"Google gives no token for the cluster ({sentence(str(error))}); {LOG_IN}"
                    ) from error
            return str(self._credentials.token)
