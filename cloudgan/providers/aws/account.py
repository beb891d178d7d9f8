"""One login to AWS: sends requests to any service and region, again where that may help."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import boto3
import botocore.config
import botocore.exceptions as found
from botocore import xform_name
from botocore.parsers import ResponseParserError

from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.providers.aws.refusal import LOGIN, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ATTEMPTS: Final = 8
"""Of one request while AWS throttles or fails: half a minute or so, by botocore's own pauses."""
_NO_LOGIN: Final = (
    found.NoCredentialsError,
    found.PartialCredentialsError,
    found.ProfileNotFound,
    found.CredentialRetrievalError,
    found.TokenRetrievalError,
    found.SSOError,
)


def session_of(profile: str | None, region: str | None) -> boto3.Session:
    """Returns a session with the login that boto3 finds.

    Raises:
        CredentialsError: There is none.
    """
    try:
        session = boto3.Session(profile_name=profile, region_name=region)
        known = session.get_credentials()
    except _NO_LOGIN as error:
        raise CredentialsError(f"AWS: {error}; {LOGIN}") from error
    if known is None:
        raise CredentialsError(f"no login for AWS was found; {LOGIN}")
    return session


class Account:
    """Requests by name of their operation.

    Args:
        session: Logged in.
        attempts: Of one request.
    """

    def __init__(self, session: boto3.Session, *, attempts: int = _ATTEMPTS) -> None:
        self.session = session
        self._config = botocore.config.Config(
            connect_timeout=5,
            read_timeout=60,
            max_pool_connections=16,
            retries={"mode": "standard", "total_max_attempts": attempts},
        )
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()  # clients are for all threads, making one is not

    def ask(
        self, service: str, region: str, operation: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Sends one request and returns its answer.

        Raises:
            CapacityError: No machine of this kind, or no quota.
            CredentialsError: The login is missing or may not do this.
            RefusedError: AWS refused for another reason.
            LaunchError: AWS did not answer.
        """
        with _told(service, f"{operation} in {region}"):
            call = getattr(self._client(service, region), xform_name(operation))
            answer: dict[str, Any] = call(**body or {})
            return answer

    def all(self, service: str, region: str, operation: str, of: str, **body: Any) -> Iterator[Any]:
        """Yields what a listing operation lists under the key `of`, page by page."""
        with _told(service, f"{operation} in {region}"):
            pages = self._client(service, region).get_paginator(xform_name(operation))
            for page in pages.paginate(**body):
                yield from page.get(of, ())

    def _client(self, service: str, region: str) -> Any:
        with self._lock:
            if (service, region) not in self._clients:
                made = self.session.client(service, region_name=region, config=self._config)
                self._clients[service, region] = made
            return self._clients[service, region]


@contextmanager
def _told(service: str, asked: str) -> Iterator[None]:
    try:
        yield
    except found.ClientError as error:
        raise refusal(error.response, asked, service) from error
    except _NO_LOGIN as error:
        raise CredentialsError(f"AWS: {error}; {LOGIN}") from error
    except (found.BotoCoreError, ResponseParserError) as error:
        raise LaunchError(f"AWS: {asked}: {error}") from error
