"""The login of Artifact Registry: a token of Google's as the password.

https://cloud.google.com/artifact-registry/docs/docker/authentication#token; only the page's beginning
was at hand, and the user's name is that of many scripts (docker login -u oauth2accesstoken).
"""

from __future__ import annotations

from typing import Any

import google.auth
import google.auth.exceptions
import google.auth.transport.requests

from cloudgan.core.errors import CredentialsError
from cloudgan.registries.login import Login

_USER = "oauth2accesstoken"
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


def login(host: str, credentials: Any = None) -> Login:
    """Returns the login of a registry such as europe-docker.pkg.dev.

    Args:
        host: Of the registry.
        credentials: Of google-auth; None: those of this machine.

    Raises:
        CredentialsError: There are none, or Google refuses them.
    """
    try:
        if credentials is None:
            credentials, _ = google.auth.default(scopes=_SCOPES)
        if not credentials.valid:
            credentials.refresh(google.auth.transport.requests.Request())
    except google.auth.exceptions.GoogleAuthError as error:
        raise CredentialsError(
            f"no login of Google Cloud for {host} ({error}); type: gcloud auth application-default"
            " login, or set GOOGLE_APPLICATION_CREDENTIALS"
        ) from error
    return Login(_USER, str(credentials.token))
