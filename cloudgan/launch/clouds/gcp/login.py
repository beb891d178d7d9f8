"""Google Cloud logins: for the APIs and for clusters."""

from __future__ import annotations

import threading
from typing import Any

import google.auth
import requests
from google.auth import exceptions
from google.auth.transport.requests import AuthorizedSession, Request

from cloudgan.core import settings
from cloudgan.core.documents import check_login_file
from cloudgan.core.errors import CredentialsError
from cloudgan.launch.clouds.gcp import names
from cloudgan.launch.clouds.gcp.api import LOG_IN, GoogleApi
from cloudgan.launch.clouds.gcp.errors import sentence

_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


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
            credentials, project = google.auth.default(scopes=[_SCOPE])
        except (exceptions.GoogleAuthError, OSError) as error:
            raise CredentialsError(f"Google Cloud: no login was found; {LOG_IN}") from error
        return cls(credentials, project)

    @property
    def who(self) -> str:
        """The e-mail address of the login, if it has one."""
        for name in ("service_account_email", "account"):
            if (found := getattr(self._credentials, name, None)) and found != "default":
                return str(found)
        return "the login of a user"

    def token(self) -> str:
        """Returns a valid access token."""
        with self._lock:
            if not self._credentials.valid:
                try:
                    self._credentials.refresh(Request())
                except (exceptions.GoogleAuthError, requests.RequestException) as error:
                    raise CredentialsError(
                        f"Google gives no token ({sentence(str(error))}); {LOG_IN}"
                    ) from error
            return str(self._credentials.token)

    def api(self, project: str) -> GoogleApi:
        """Returns Google's APIs with this login; CLOUDGAN_GCP_ENDPOINT replaces their address."""
        session = AuthorizedSession(self._credentials)  # type: ignore[no-untyped-call]
        return GoogleApi(session, project, endpoint=settings.variable("CLOUDGAN_GCP_ENDPOINT"))

    def project_for(self, account: str | None) -> str:
        """Returns the given project, or the login's for None and the placeholder."""
        project = account if account not in (None, names.PROJECT) else self.project
        if not project:
            raise CredentialsError(
                "Google Cloud: this login names no project; pass --project=ID, or type: gcloud auth"
                " application-default set-quota-project ID"
            )
        return project
