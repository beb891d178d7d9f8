"""Google's APIs: plain requests by google-auth's session, with bounded patience.

A request is what a plan's step holds, so that what is shown is what is sent. The session brings the
login and its renewal.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import requests
from google.auth import exceptions as login

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CredentialsError
from cloudgan.providers.gcp.refusal import AbsentError, Answer, read, refusal, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OK: Final = 300
_TIMEOUT_SECONDS: Final = (5, 60)
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 16.0
LOG_IN: Final = (
    "type: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key"
    " file, or run where a service account is attached"
)


class GoogleApi:
    """Sends requests, again where that may help.

    Args:
        session: Of google-auth, logged in.
        endpoint: Takes all requests in place of Google, under ``<endpoint>/<host>/<path>``.
        patience_seconds: How long Google may be away, or ask to slow down, before that is an error.
        pause_seconds: Before the second try; later ones wait longer.
    """

    def __init__(
        self,
        session: Any,
        *,
        endpoint: str | None = None,
        patience_seconds: float = 90.0,
        pause_seconds: float = _FIRST_PAUSE_SECONDS,
    ) -> None:
        self._session, self._endpoint = session, endpoint
        self._patience, self._pause = patience_seconds, pause_seconds

    def find(self, url: str, **query: str) -> dict[str, Any] | None:
        """Returns what is at an address; None where there is nothing."""
        try:
            return self.send("GET", url, query=query)
        except AbsentError:
            return None

    def pages(self, url: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yields the pages of a list."""
        token = ""
        while True:
            page = self.send("GET", url, query=query | ({"pageToken": token} if token else {}))
            yield page
            token = page.get("nextPageToken", "")
            if not token:
                return

    def send(
        self,
        method: str,
        url: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        what: str = "",
    ) -> dict[str, Any]:
        """Sends one request until it is answered, and not refused for now only.

        Args:
            method: Of HTTP.
            url: At Google.
            body: JSON.
            query: What stands behind the question mark.
            what: For people, where it is refused; else it is the request itself.

        Raises:
            AbsentError: There is no such thing.
            BusyError: Another operation has to end first.
            CapacityError: No machine of this kind, or no quota.
            CredentialsError: The login is not accepted, or may not do this.
            LaunchError: Refused otherwise, or Google stays away.
            TakenError: There is one of this name.
        """
        deadline, pause = monotonic_seconds() + self._patience, self._pause
        while True:
            answer = self._once(method, url, body, query)
            if 0 < answer.status < _OK:
                found: dict[str, Any] = answer.body
                return found
            if not answer.passes or monotonic_seconds() >= deadline:
                raise refusal(what or f"{method} {url}", url, answer)
            time.sleep(min(max(answer.wait_seconds, pause), _LONGEST_PAUSE_SECONDS))
            pause *= 2

    def _once(self, method: str, url: str, body: Any, query: Mapping[str, str] | None) -> Answer:
        try:
            answer = self._session.request(
                method,
                self._address(url),
                params=dict(query or {}),
                json=body,
                timeout=_TIMEOUT_SECONDS,
            )
        except login.RefreshError as error:
            raise CredentialsError(
                f"Google renews this login no more ({sentence(str(error))}); {LOG_IN}"
            ) from error
        except (login.TransportError, requests.RequestException) as error:
            return Answer(0, f"{type(error).__name__}: {sentence(str(error))}")
        return read(answer.status_code, answer.content, answer.headers.get("Retry-After"))

    def _address(self, url: str) -> str:
        if self._endpoint is None:
            return url
        return f"{self._endpoint.rstrip('/')}/{url.partition('://')[2]}"
