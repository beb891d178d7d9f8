"""Sends the requests of `GoogleApi` through a google-auth session, which adds and renews the login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import requests
from google.auth import exceptions as login

from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.gcp.api import GoogleApi
from cloudgan.launch.clouds.gcp.errors import Answer, parse_answer, sentence

_TIMEOUT_SECONDS: Final = (5, 60)
LOG_IN: Final = (
    "type: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key"
    " file, or run where a service account is attached"
)


LOGIN_ERRORS: Final = (login.GoogleAuthError, requests.RequestException)
"""What google-auth raises when it renews a login."""


def login_error(error: Exception) -> CredentialsError | LaunchError:
    """Returns the error for one of `LOGIN_ERRORS`: the login is refused, or Google did not answer and may later."""
    is_outage = isinstance(error, login.TransportError | requests.RequestException)
    if is_outage or getattr(error, "retryable", False):
        return LaunchError(f"Google did not answer ({_said(error)})")
    return CredentialsError(f"Google does not renew this login ({sentence(str(error))}); {LOG_IN}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {sentence(str(error))}"


class SessionApi(GoogleApi):
    """The API of a project.

    Args:
        endpoint: Receives all requests instead of Google, under ``<endpoint>/<host>/<path>``.
        patience: Of `GoogleApi`.
    """

    def __init__(
        self, session: Any, project: str, *, endpoint: str | None = None, **patience: float
    ) -> None:
        super().__init__(project, **patience)
        self._session, self._endpoint = session, endpoint

    def ask(self, method: str, url: str, body: Any, query: Mapping[str, Any] | None) -> Answer:
        """Sends a request once."""
        there = f"{(self._endpoint or '').rstrip('/')}/{url.partition('://')[2]}"
        try:
            answer = self._session.request(
                method,
                there if self._endpoint else url,
                params=dict(query or {}),
                json=body,
                timeout=_TIMEOUT_SECONDS,
            )
        except LOGIN_ERRORS as error:
            found = login_error(error)
            if isinstance(found, CredentialsError):
                raise found from error
            return Answer(0, _said(error))
        return parse_answer(answer.status_code, answer.content, answer.headers.get("Retry-After"))
