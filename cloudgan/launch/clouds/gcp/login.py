"""Logins of Google Cloud: the application default credentials, and what google-auth raises."""

from __future__ import annotations

import threading
from typing import Any, Final

import google.auth
import requests
from google.auth import exceptions
from google.auth.transport.requests import AuthorizedSession, Request

from cloudgan.core.documents import check_login_file
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.gcp import names
from cloudgan.launch.clouds.gcp.errors import sentence

_LOG_IN: Final = (
    "type: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key"
    " file, or run where a service account is attached"
)
LOGIN_ERRORS: Final = (exceptions.GoogleAuthError, requests.RequestException)
"""What google-auth raises when it renews a login."""


def login_error(error: Exception) -> CredentialsError | LaunchError:
    """Returns the error for one of `LOGIN_ERRORS`: the login is refused, or Google did not answer and may later."""
    is_outage = isinstance(error, exceptions.TransportError | requests.RequestException)
    if is_outage or getattr(error, "retryable", False):
        return LaunchError(f"Google did not answer ({described(error)})")
    return CredentialsError(f"Google does not renew this login ({sentence(str(error))}); {_LOG_IN}")


def described(error: Exception) -> str:
    """Returns class and message of an error."""
    return f"{type(error).__name__}: {sentence(str(error))}"


class Login:
    """A login that renews itself."""

    def __init__(self, credentials: Any, project: str | None) -> None:
        self._credentials, self.project = credentials, project
        self._lock = threading.Lock()

    @classmethod
    def find(cls) -> Login:
        """Finds the application default credentials."""
        check_login_file("GOOGLE_APPLICATION_CREDENTIALS")
        try:
            credentials, project = google.auth.default(scopes=[names.SCOPE])
        except (exceptions.GoogleAuthError, OSError) as error:
            raise CredentialsError(f"Google Cloud: no login was found; {_LOG_IN}") from error
        return cls(credentials, project)

    @property
    def who(self) -> str:
        """The e-mail address of the login, if it has one."""
        for name in ("service_account_email", "account"):
            if (found := getattr(self._credentials, name, None)) and found != "default":
                return str(found)
        return "the login of a user"

    def token(self) -> str:
        """Returns a valid access token.

        Raises:
            CredentialsError: The login is refused.
            LaunchError: Google does not answer.
        """
        with self._lock:
            if not self._credentials.valid:
                try:
                    self._credentials.refresh(Request())
                except LOGIN_ERRORS as error:
                    raise login_error(error) from error
            return str(self._credentials.token)

    def session(self) -> AuthorizedSession:
        """Returns a session for requests with this login."""
        return AuthorizedSession(self._credentials)  # type: ignore[no-untyped-call]

    def project_for(self, account: str | None) -> str:
        """Returns the given project, or the login's for None and the placeholder."""
        project = account if account not in (None, names.PROJECT) else self.project
        if not project:
            raise CredentialsError(
                "Google Cloud: this login names no project; pass --project=ID, or type: gcloud auth"
                " application-default set-quota-project ID"
            )
        return project
